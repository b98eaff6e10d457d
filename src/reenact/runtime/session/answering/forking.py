"""A program that went another way goes on as a new run: the calls that it asked for are carried over, the rest is not.

The run before it is its parent, and ends with the reason. Writes of it that the new program does not know of have to be
accepted by name, and that is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

from reenact.contracts.records import ENDED
from reenact.errors import Diverged
from reenact.runtime.call import ending
from reenact.runtime.engine import Engine
from reenact.runtime.listeners import Notice
from reenact.runtime.run import Run
from reenact.runtime.session import closing
from reenact.runtime.session.answering.answers import Answers
from reenact.runtime.session.beginning import begun_with
from reenact.runtime.session.plan import Document
from reenact.runtime.session.reopening import reopen_session, session_document


def refuse_unaccepted(answers: Answers, accept: Iterable[str], diverged: Diverged) -> list[str]:
    """The writes that are left behind, by name; `diverged` again where one of them was not accepted."""
    left = [call.name for call in answers.unasked_writes()]
    unknown = sorted({*left} - {*accept})
    if unknown:
        diverged.add_note(
            f"{', '.join(unknown)} may have taken effect, and the new run would not know of it: what the program "
            f"asks for again is SENT AGAIN, as a new call. Where that does no harm, say accept={unknown!r}"
        )
        raise diverged
    return left


def refuse_open(old: Run, accept: Iterable[str], diverged: Diverged) -> list[str]:
    """The writes of which nobody knows whether they took effect, by name; `diverged` where one was not accepted."""
    in_doubt = [
        trace.step_id
        for trace in old.journal.fold.open.values()
        if trace.state == "EXECUTING" and trace.call is not None and trace.call.tool_class != "read"
    ]
    unknown = sorted({*in_doubt} - {*accept})
    if unknown:
        diverged.add_note(
            f"{', '.join(unknown)} was sent, and nobody knows what came of it: look and `reenact resolve` it first, or "
            f"leave it behind as it is with accept={unknown!r}"
        )
        raise diverged
    return in_doubt


async def continued(engine: Engine, old: Run, answers: Answers, accepted: list[str], diverged: Diverged) -> Run:
    """The run that goes on, its first commit durable; `old` is still to be ended."""
    began = session_document(engine.store, old.run_id)
    run_id, own = engine.clock.uuid7(), began["session"]
    assert isinstance(own, dict)
    continues: Document = {
        "run_id": old.run_id,
        "carried": answers.asked_names(),
        "told": answers.told_so_far(),
        "accepted": accepted,
        "reason": why(diverged, answers),
        "spent_exact": str(old.money.spent().total),
    }
    document = {**began, "plan_id": run_id, "session": {"id": own["id"], "continues": continues}}
    run = begun_with(engine, document, parent=old)
    await run.journal.flush()
    answers.forget_unasked()
    return run


def why(diverged: Diverged, answers: Answers) -> str:
    """In what it diverged; not what a program that is stopped for it may do."""
    return str(diverged).removesuffix(f" {answers.advice}").removesuffix(" Nothing was sent.")


async def end_parent(run: Run, child: str, reason: str) -> None:
    """Seal the run that is not gone on with; a call that is open stays so, and its key in doubt."""
    run.note_cancel(f"continued by run {child}: {reason}", None)
    await run.journal.flush()  # the plan is assembled from what is durable
    ending.leave_keys_in_doubt(run)
    closing.seal(run, "cancelled")
    run.listeners.tell(Notice(kind="run_ended", run_id=run.run_id, status="cancelled"))
    await run.journal.flush()


async def end_parent_left_open(engine: Engine, run_id: str) -> None:
    """Whoever forked a session may have died before its parent was ended."""
    own = session_document(engine.store, run_id).get("session")
    continues = own.get("continues") if isinstance(own, dict) else None
    if not isinstance(continues, dict):
        return
    row = engine.store.find_run(str(continues["run_id"]))
    if row.status not in ENDED:
        parent = reopen_session(engine, row.run_id)
        async with engine.held(parent) as hold:
            await end_parent(parent, run_id, str(continues["reason"]))
            hold.leave("cancelled")
