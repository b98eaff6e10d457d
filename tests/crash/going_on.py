"""kill -9 around a program that goes on without an answer: it gave up on a call, or was told that a person is asked.

However far the process had come when it died, the next start goes the way that is on record, and nothing is done twice.
`python -m tests.crash.going_on` is the long form.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from reenact import Runtime, SkillContext, skill
from reenact.contracts.records import ENDED
from reenact.errors import RunNotFound, WaitingForPerson
from reenact.runtime.crash_points import CRASH_POINTS
from reenact.runtime.people import decisions
from reenact.runtime.session.session import Session
from reenact.store.checks.verification import verify_run
from tests.crash.harness import KILLED, Stage, folded, in_child

PATIENCE_S = 0.25
LONGER_S = 2.0
KINDS: dict[str, dict[str, Any]] = {
    "read": {"tool_class": "read"},
    "keyed": {"tool_class": "write", "honours_key": True},
    "held": {"tool_class": "write", "in_doubt": "hold"},
    "looked up": {"tool_class": "write", "in_doubt": "reconcile"},
    "asked": {"tool_class": "write", "honours_key": True},
}
"""How the call is declared whose caller goes on without it; the last one waits for a person instead."""


class Scene:
    """A program with its store, the world beside it, and a person who helps."""

    def __init__(self, folder: Path, kind: str) -> None:
        folder.mkdir()
        self.stage, self.kind = Stage(folder), kind
        self.answer = folder / "answer.json"

    def runtime(self) -> Runtime:
        book, declared = self.stage.ledger, dict(KINDS[self.kind])

        def was_it_done(ctx: SkillContext) -> dict[str, object]:
            return {"done": ctx.idempotency_key in book.effects(), "output": "late"}

        if self.kind == "looked up":
            declared["reconcile"] = was_it_done

        @skill("slow", version="1.0.0", **declared)
        async def slow(ctx: SkillContext) -> str:
            """The first time it takes longer than anybody waits."""
            before = book.arrive(ctx)
            book.act(ctx)
            await asyncio.sleep(0 if before or self.kind == "asked" else LONGER_S)
            return "late"

        @skill("look", version="1.0.0", tool_class="read")
        def look(what: str) -> str:
            return what

        @skill("pay", version="1.0.0", tool_class="write", honours_key=True)
        def pay(ctx: SkillContext, amount: int) -> int:
            book.arrive(ctx)
            book.act(ctx)
            return amount

        return Runtime(self.stage.url, skills=[slow, look, pay], supervisor=self.supervise)

    def supervise(self, proposal: Any) -> bool | Literal["ask"]:
        return "ask" if self.kind == "asked" and proposal.skill_id == "slow" else True

    async def program(self, session: Session) -> list[object]:
        """What it pays shows which way it went."""
        try:
            came: object = (await asyncio.wait_for(session.call("slow"), PATIENCE_S)).ok
        except (TimeoutError, WaitingForPerson):
            came = (await session.call("look", {"what": "instead"})).output
        paid = await session.call("pay", {"amount": 2 if came == "instead" else 3})
        return [came, paid.output]

    def start(self, crash_at: str | None = None) -> int:
        """The program from its top, in a process of its own; where that comes to its end it leaves its answer."""

        async def whole() -> object:
            async with self.runtime().session(id="order-42") as session:
                return await self.program(session)

        return in_child(lambda: self.answer.write_text(json.dumps(asyncio.run(whole()))), crash_at=crash_at)

    def help(self) -> bool:
        """Approves what waits, and looks at the books where nobody knows; whether the session has ended."""
        runtime = self.runtime()
        try:
            row = runtime.store.find_run("order-42")
        except RunNotFound:
            return False
        fold, _ = folded(row.run_id, list(runtime.store.bodies(row.run_id)))
        for trace in [] if row.status in ENDED else fold.open.values():
            asyncio.run(self.say(runtime, trace.step_id, trace.state))
        runtime.close()
        return row.status in ENDED

    async def say(self, runtime: Runtime, step_id: str, state: str) -> None:
        if self.kind == "asked" and state == "PENDING":
            await decisions.vote(runtime, "order-42", step_id, approve=True, reason="fine", who="kim")
        elif self.kind == "held" and state == "EXECUTING" and step_id == "main:1":
            done = step_id in self.stage.ledger.effects().values()
            word: Literal["succeeded", "redispatch"] = "succeeded" if done else "redispatch"
            output = "late" if done else None
            await decisions.resolve(runtime, "order-42", step_id, word, reason="the books", output=output)

    def finish(self) -> list[object]:
        """Started again until it has ended."""
        for _ in range(4):
            assert self.start() == 0
            if self.help():
                return json.loads(self.answer.read_text())  # type: ignore[no-any-return]
        raise AssertionError("it never ended")

    def check(self) -> list[object]:
        """One effect of each, on the way that was recorded; and the record holds."""
        answer = self.finish()
        assert self.start() == 0
        assert json.loads(self.answer.read_text()) == answer, "an ended one answers the same"
        assert answer in (["instead", 2], [True, 3], [False, 3])
        effects = list(self.stage.ledger.effects().values())
        paid = [step_id for step_id in effects if step_id != "main:1"]
        assert len(paid) == 1, f"it has paid twice: {effects}"
        assert effects.count("main:1") <= 1, "a busy machine may not have sent it before its caller gave up"
        if "in_doubt" in KINDS[self.kind]:
            assert [call.step_id for call in self.stage.ledger.calls()].count("main:1") <= 1
        verified = verify_run(self.stage.url, "order-42")
        assert verified.exit_code == 0, (verified.report.first_break, verified.differences)
        runtime = self.runtime()
        assert runtime.replay("order-42").verdict == "matched"
        runtime.close()
        return answer


BEFORE: dict[str, tuple[str, ...]] = {"the first start": (), "the next start": ("before_dispatch:2",)}
"""Where it was killed already: nowhere, or once its caller had gone on and that was on record."""


def deaths(folder: Path, kind: str, point: str, before: Iterable[str] = ()) -> list[list[object]]:
    """Killed the first, second, … time that it comes to a point, as often as it does; what each came to at last."""
    answers = []
    for times in range(1, 20):
        scene = Scene(folder / f"{point} {times}", kind)
        for crash_at in before:
            assert scene.start(crash_at) == KILLED
        if scene.start(f"{point}:{times}") != KILLED:
            return answers
        answers.append(scene.check())
        shutil.rmtree(scene.stage.folder)
    raise AssertionError("it is reached without end")


def campaign() -> None:
    began, killed, gone_on = time.monotonic(), 0, 0
    for when, before in BEFORE.items():
        for kind in KINDS:
            for point in CRASH_POINTS:
                with tempfile.TemporaryDirectory(prefix="reenact-crash-") as folder:
                    answers = deaths(Path(folder), kind, point, before)
                killed += len(answers)
                gone_on += answers.count(["instead", 2])
            print(f"{time.monotonic() - began:5.0f} s  {when}, {kind}: {killed} kills, {gone_on} went on", flush=True)


if __name__ == "__main__":
    sys.exit(campaign())
