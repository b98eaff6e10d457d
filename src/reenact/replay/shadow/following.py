"""A candidate that follows a live run: each call is decided again as soon as the run's own has ended.

It is driven by whoever hears of the run, in a thread of his own, and reads what is durable: the run itself never waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from reenact.contracts.records import RunStatus
from reenact.errors import UsageError
from reenact.journal.machine import TERMINAL
from reenact.record.reader import RecordedStep, RunReader, in_order
from reenact.record.recording import Recording
from reenact.replay.compare.counterfactual import CallRow, Counterfactual, Side, counterfactual
from reenact.replay.modes.throw_away import throw_away_engine
from reenact.replay.shadow.candidate import Candidate, Wanted, candidate_of
from reenact.replay.shadow.part import part_of
from reenact.replay.shadow.source import ShadowSource
from reenact.replay.sources.dry import DrySource
from reenact.replay.sources.stand_in import ReplayPlan
from reenact.runtime.call.drive import drive
from reenact.runtime.engine import Engine
from reenact.runtime.opening import begin
from reenact.runtime.parked import Parked
from reenact.runtime.plans.plan_run import aborts, begin_turn, next_call, rebuild_duplicates
from reenact.runtime.run import Run
from reenact.values.clock import SystemClock

LONG: Final = 200
"""Calls of a session beyond which several are decided at once."""


class Following:
    """The candidate beside one live run. UsageError where what it changes is known only when the run has ended."""

    def __init__(self, engine: Engine, run_id: str, wanted: Wanted) -> None:
        if any(path.startswith("outputs.") for path in wanted.sets):
            raise UsageError("what a step returned can be changed once it has returned it: after the run")
        self._engine = engine
        self._wanted = wanted
        self._reader = RunReader(engine.store, run_id)
        self._steps: dict[str, RecordedStep] = {}
        self._is_session = self._reader.record().kind == "session"
        self._registry = engine.registry.freeze()
        self._candidate: Candidate | None = None
        self._plan: ReplayPlan | None = None
        self._run: Run | None = None
        self._source: ShadowSource | None = None
        self._theirs: RunReader | None = None
        self._decided: dict[str, RecordedStep] = {}
        self._told: set[str] = set()
        self._index = self._seen = 0
        self._status: RunStatus | None = None
        """Of the candidate, once it goes no further."""

    async def advance(self, *, is_over: bool) -> AsyncIterator[CallRow]:
        """The calls that can be decided now, each with both sides."""
        self._steps.update((step.step_id, step) for step in self._reader.steps())
        if self._is_due(is_over=is_over):
            self._look()
        if self._plan is not None and self._status is None:
            async for step_id in self._decide(self._plan, is_over=is_over):
                yield self._row(step_id)
        for step_id in [name for name, step in self._steps.items() if is_ended(step) and name not in self._told]:
            if self._status is not None or self._candidate_is_refused:
                yield self._row(step_id)  # the candidate does not come to it

    def report(self, recording: Recording) -> Counterfactual | None:
        """Both sides, once the run has ended and the candidate has decided all of it; None where it has not."""
        if self._candidate is None or self._plan is None or self._status is None or self._source is None:
            return None
        production = Side.of("recorded", recording.run_id, recording.status, recording.document, recording.steps)
        candidate, steps = self._candidate, in_order(self._decided.values())
        side = Side.of(
            candidate.label,
            None,
            self._status,
            candidate.changes.document,
            steps,
            self._source.basis,
            self._source.asks,
        )
        return counterfactual("shadow", production, side)

    def _is_due(self, *, is_over: bool) -> bool:
        """Once for a plan, with each new call for a session; for a long one every so often, since all of it is read."""
        known = len(self._steps)
        if not self._is_session:
            return self._candidate is None
        if known == self._seen or (known > LONG and known < self._seen * 9 // 8 and not is_over):
            return False
        self._seen = known
        return True

    # -- the run ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """The candidate's plan, from the run's as far as that is known: a session's grows call by call."""
        recording = part_of(self._reader, self._steps, self._registry)
        if recording is None:
            return
        self._candidate = candidate_of(recording, self._registry, self._wanted)
        if self._candidate.refused is None:
            self._take(recording, self._candidate)

    def _take(self, recording: Recording, candidate: Candidate) -> None:
        if self._plan is not None and self._source is not None:
            turn = self._plan.turn
            vars(self._plan).clear()
            vars(self._plan).update(vars(ReplayPlan(recording, candidate.changes.document, candidate.registry)))
            self._plan.turn = turn
            self._source.recording = self._source.dry.recording = recording
            return
        plan = self._plan = ReplayPlan(recording, candidate.changes.document, candidate.registry)
        clock = SystemClock()
        engine = throw_away_engine(candidate.registry, clock, recording.store)
        dry = DrySource(plan, clock, recording)
        self._source = ShadowSource(recording, plan.plan.context.supervisor, outputs=candidate.changes.outputs, dry=dry)
        run = self._run = begin(
            engine,
            plan,
            self._source,
            mode="dry_run",
            parent_run=recording.run_id,
            original_run_id=recording.seed_run_id,
        )
        self._theirs = RunReader(engine.store, run.run_id)
        if plan.plan.context.dedupe:
            run.gates.duplicates = rebuild_duplicates(run)

    # -- the candidate ---------------------------------------------------------------------------------------------

    async def _decide(self, plan: ReplayPlan, *, is_over: bool) -> AsyncIterator[str]:
        run, planned = self._run, {step.step_id for step in self._live_steps()}
        assert run is not None, "it was begun with its plan"
        while self._index < len(plan):
            step = plan.step(self._index)
            recorded = self._steps.get(step.step_id)
            may_come = recorded is not None or step.step_id in planned
            if may_come and not is_over and not is_ended(recorded):
                return
            begin_turn(run, step)
            try:
                outcome = await drive(await run.searched(next_call, run, step))
            except Parked as parked:
                self._status = parked.status
            else:
                self._status = "failed" if aborts(step, outcome) else None
            await run.journal.flush()
            self._index += 1
            yield step.step_id
            if self._status is not None:
                return
        if is_over:
            self._status = "completed"

    def _live_steps(self) -> list[Any]:
        """What the run itself is going to do, where that is known."""
        return [] if self._is_session or self._source is None else list(self._source.recording.plan.steps)

    @property
    def _candidate_is_refused(self) -> bool:
        return self._candidate is not None and self._candidate.refused is not None

    def _row(self, step_id: str) -> CallRow:
        self._told.add(step_id)
        if self._theirs is not None:
            self._decided.update((step.step_id, step) for step in self._theirs.steps())
        ours, theirs = one(self._steps, step_id), one(self._decided, step_id)
        basis, asks = (self._source.basis, self._source.asks) if self._source is not None else ({}, set())
        production = Side.of("recorded", self._reader.run_id, "running", {}, ours)
        label = "" if self._candidate is None else self._candidate.label
        return counterfactual("shadow", production, Side.of(label, None, "running", {}, theirs, basis, asks)).rows[0]


def is_ended(step: RecordedStep | None) -> bool:
    return step is not None and step.trace.state in TERMINAL


def one(steps: Mapping[str, RecordedStep], step_id: str) -> dict[str, RecordedStep]:
    return {step_id: steps[step_id]} if step_id in steps else {}
