"""Running an evaluation: one session for all of its samples, so that it can be killed, started again, and sealed once.

Every answer and every judgement is a call of that session, in a lane of its sample's own: started again, what is
recorded is answered from the record, and only what is missing is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import ENDED
from reenact.errors import UsageError
from reenact.evals.spec import Cell, Spec
from reenact.record.result import RunResult
from reenact.replay.runtime import Runtime
from reenact.runtime.session.session import Session

AGENT: Final = "eval"
BEGIN: Final = "begin"
BEGIN_SKILL: Final = "eval_begin"
BEGAN: Final = ("commit", "dirty", "invoked_at", "argv")
"""What the first call records of how it was begun, by the names that a sidecar has for it."""
NO_MONEY: Final = "ERR_BUDGET_EXCEEDED"
MOST_JOBS: Final = 64
Progress = Callable[[int, int, str], None]
"""How many cells are done, of how many, and what came of the last one."""


def session_id(spec: Spec, label: str | None = None) -> str:
    """By the digest of the spec: a spec that says something else is another evaluation. A label makes one more."""
    return "-".join(["eval", spec.file.name, spec.digest[:16], *([] if label is None else [label])])


async def run_eval(
    runtime: Runtime,
    spec: Spec,
    began: Mapping[str, object],
    *,
    label: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> RunResult:
    """The sealed run of the evaluation; one that has ended is returned as it is. `began` is recorded with it."""
    if not 1 <= jobs <= MOST_JOBS:
        raise UsageError(f"jobs are 1 to {MOST_JOBS}, not {jobs}")
    name = session_id(spec, label)
    before = runtime.store.find_session(AGENT, name)
    if before is not None and before.status in ENDED:
        return RunResult(before.run_id, before.status, runtime.store)
    opening = runtime.session(
        id=name,
        goal=spec.file.title or f"evaluation {spec.file.name}",
        agent_id=AGENT,
        budget_cents=spec.file.budget_cents,
        context=spec.file.context,
    )
    async with opening as session:
        await begin(session, spec, began)
        await _Work(session, spec, progress).run(jobs)
    row = runtime.store.find_run(session.run_id)
    return RunResult(row.run_id, row.status, runtime.store)


async def begin(session: Session, spec: Spec, began: Mapping[str, object]) -> None:
    """The spec, and where and when it was begun, are the first words of the record."""

    def eval_begin(spec: dict[str, Any], digest: str) -> dict[str, Any]:
        return {"name": spec["name"], "digest": digest, **began}

    await session.step(
        eval_begin,
        msgspec.to_builtins(spec.file),
        spec.digest,
        step_id=BEGIN,
        skill_id=BEGIN_SKILL,
        version="1.0.0",
        tool_class="read",
    )


class _Work:
    """The cells of one evaluation, taken one after the other by so many workers."""

    def __init__(self, session: Session, spec: Spec, progress: Progress | None) -> None:
        self._session = session
        self._spec = spec
        self._progress = progress
        self._cells: Iterator[Cell] = spec.cells()
        self._done = 0
        self._has_money = True

    async def run(self, jobs: int) -> None:
        if jobs == 1:
            await self._work()
            return
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(jobs):
                    group.create_task(self._work())
        except BaseExceptionGroup as several:
            raise first_of(several) from None

    async def _work(self) -> None:
        for cell in self._cells:
            if not self._has_money:
                return
            with self._session.lane(cell.lane):
                said = await self._answered(cell)
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._spec.total, said)

    async def _answered(self, cell: Cell) -> str:
        spec = self._spec
        parameters, secrets = spec.parameters(cell)
        outcome = await self._session.call(spec.file.skill, parameters, secrets=secrets)
        judge = spec.file.score.skill
        if outcome.ok and judge is not None:
            judged = await self._session.call(
                judge, {"answer": answer_of(outcome, spec), "sample": spec.row(cell.sample)}
            )
            self._look_at(judged)
        self._look_at(outcome)
        model, condition = spec.models[cell.model]["id"], spec.conditions[cell.condition]
        return f"{model}, {condition}, sample {cell.sample}: {outcome.code}"

    def _look_at(self, outcome: StructuredOutcome) -> None:
        """Where the budget is used up nothing more is asked: every call would be refused like this one."""
        self._has_money = self._has_money and outcome.code != NO_MONEY


def answer_of(outcome: StructuredOutcome, spec: Spec) -> object:
    output = outcome.output
    return output.get(spec.file.score.of) if isinstance(output, dict) else output


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
