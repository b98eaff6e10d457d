"""Calls that a program asks for, and those that its session has on record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Attempt, RunStatus
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.record.outcomes import Payloads, build_outcome, mark_of, with_output
from reenact.record.reader import RecordedStep
from reenact.record.told import loss_outcome, next_requests, told_loss
from reenact.runtime.session.answering import went_on as unanswered
from reenact.runtime.session.answering.lanes import Lane, lane_of_step
from reenact.runtime.session.answering.went_on import WentOn
from reenact.runtime.session.plan import Document, SessionPlan
from reenact.runtime.writing.redaction import Redactor
from reenact.skills.skill import Skill

LATER: Final = 1 << 62
"""The commit of a call that has not returned."""


class Asked(NamedTuple):
    """A call that a program asks for."""

    lane: Lane | None
    """None in a session without an id, whose calls are numbered as they are made."""
    place: int
    name: str | None
    """What its host calls it; None for one that is named by its place."""
    skill_id: str
    version: str | None
    parameters: Document
    """As they would be recorded, before secrets are taken out."""
    key: str | None = None
    """The caller's idempotency key."""
    skill: Skill | None = None
    """Of a function that is handed over with the call, what is called."""
    hints: tuple[str, ...] = ()
    """The fields that its skill marks secret."""

    @property
    def path(self) -> str:
        assert self.lane is not None
        return self.lane.path

    @property
    def step_id(self) -> str:
        return self.name or f"{self.path}:{self.place}"


@dataclass(slots=True, eq=False)
class RecordedCall:
    """A call that an earlier start has made."""

    step: RecordedStep
    redactor: Redactor
    lane: str
    begun: int
    """The commit that holds its request."""
    before: int
    """How many commits the runs had that its own one continues."""
    returned: int
    """The commit after which its caller had an answer."""
    loss: Attempt | None = None
    """Where its caller was told that the answer is lost, and went on: the record of that."""
    went_on: WentOn | None = None
    """Where its caller went on without any answer."""
    is_asked: bool = False
    is_answered: bool = False
    """Its caller has what it gets."""
    is_driven_on: bool = False
    """It was open when this start began: by now more may be on record of it."""

    @property
    def name(self) -> str:
        return self.step.step_id

    @property
    def trace(self) -> TraceFold:
        return self.step.trace

    @property
    def is_finished(self) -> bool:
        """Whether its caller had an answer that will not change."""
        return self.step.finished or self.loss is not None

    @property
    def answers_at_once(self) -> bool:
        return self.went_on is None and self.is_finished

    @property
    def skill_id(self) -> str:
        return str(self.trace.meta("skill_id"))

    @property
    def is_write(self) -> bool:
        """Whether it did, or may yet do, more than read. What a gate refused did nothing."""
        request = self.trace.request
        return request is not None and request.risk_level != "READ" and self.trace.state != "DENIED"

    def answer(self) -> StructuredOutcome:
        """What its caller got, as its caller got it; a value that was erased or archived says so.

        SecretError where what was encrypted in it cannot be decrypted here.
        """
        outcome = self.step.outcome() if self.loss is None else loss_outcome(self.step, self.loss)
        if outcome.ok and outcome.output is None and (gone := self._gone()) is not None:
            outcome = with_output(outcome, mark_of(gone))
        return self.redactor.answer(outcome)

    def known(self) -> StructuredOutcome | None:
        """What the program knows of it by now; None where nothing is: it is open, or the program went on without.

        That is not always what is on record by now: what came of a lost answer in the meantime was not told.
        """
        if self.went_on is None and self.is_finished:
            return self.answer()
        loss = self._loss_so_far()
        return None if loss is None else self.redactor.answer(loss_outcome(self.step, loss))

    @property
    def is_known_as_sent(self) -> bool:
        """Whether it was sent, as far as the program knows."""
        sent = self.step.commits.get("tool_call")
        if self.went_on is None:
            return self.trace.state != "PENDING"
        return sent is not None and self.before + sent < self.went_on.commit

    def _loss_so_far(self) -> Attempt | None:
        losses = [attempt for attempt in self.trace.attempts if attempt.kind == "lost"]
        if self.went_on is not None:
            by_then, at = self.went_on.commit - self.before, self.step.losses
            losses = [loss for loss in losses if at.get(loss.ordinal, LATER) < by_then]
        elif losses and self.trace.attempts[-1] is not losses[-1]:
            return None
        return losses[-1] if losses else None

    def left_behind(self) -> StructuredOutcome:
        """Of a call that was open when its run was ended: nothing more will be known of it here."""
        message = "it was open when its run was ended; whether it took effect is not known"
        now = self.trace.request.ts if self.trace.request is not None else ""
        return build_outcome(self.trace, "failure", "ERR_IN_DOUBT", message, now)

    def _gone(self) -> LookupError | None:
        effect = self.trace.effect
        if effect is None:
            return None
        try:
            self.step.payloads.get(str(effect.commitment("/output")), near=self.step.commits.get("tool_effect"))
        except LookupError as gone:
            return gone
        return None


def recorded_calls(
    past: RunFold, steps: Iterable[RecordedStep], payloads: Payloads, redactor: Redactor, before: int
) -> Iterator[RecordedCall]:
    """The calls of a run with what their callers were told."""
    found = sorted(steps, key=lambda each: each.trace.step_index)
    following, without = next_requests(found), unanswered.recorded(past, payloads, before)
    for step in found:
        went, then = without.get(step.trace.trace_id), following.get(step.trace.trace_id)
        if went is not None and went.why == "answered":
            then, went = (went.commit - before, ""), None
        yield recorded_call(step, redactor, before, told_loss(step, then, is_sealed=past.seal is not None), went)


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that has ended, and is only asked."""

    run_id: str
    status: RunStatus
    plan: SessionPlan
    redactor: Redactor
    spent_exact: int
    check: Callable[[RecordedCall, Asked], Awaitable[None]] | None = None
    """In a test: Diverged where today's tool is not the one that was recorded."""


@dataclass(slots=True)
class LaneRecord:
    """The calls of one lane that were named by their place, in the order in which they were made."""

    calls: list[RecordedCall] = field(default_factory=list)
    first: int = 0
    """Before this one all were asked for."""

    def next(self) -> Iterator[RecordedCall]:
        """Those that may be asked for now: nothing that was not asked for had returned before they were made."""
        while self.first < len(self.calls) and self.calls[self.first].is_asked:
            self.first += 1
        earliest = LATER
        for call in islice(self.calls, self.first, None):
            if call.begun > earliest:
                return
            if not call.is_asked:
                earliest = min(earliest, call.returned)
                yield call


def recorded_call(
    step: RecordedStep, redactor: Redactor, before: int, loss: Attempt | None, went_on: WentOn | None = None
) -> RecordedCall:
    """`before` is how many commits the runs had that this one continues; `loss` is what the caller was told of one."""
    trace, commits = step.trace, step.commits
    ended = commits.get("tool_effect") or (commits.get("supervisor_decision") if trace.state == "DENIED" else None)
    returned = before + min([*step.losses.values(), ended if step.finished and ended is not None else LATER])
    if went_on is not None:
        returned = min(returned, went_on.commit - 1)  # that stands beside what was called next
        loss = None if step.finished else loss
    return RecordedCall(
        step=step,
        redactor=redactor,
        lane=lane_of_step(step),
        begun=before + commits.get("action_request", 0),
        before=before,
        returned=returned,
        loss=loss,
        went_on=went_on,
    )
