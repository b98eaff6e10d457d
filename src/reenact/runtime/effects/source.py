"""Where an effect comes from. The world here; the recording and the simulation in `reenact.replay`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from reenact.contracts.facts import Facts
from reenact.contracts.outcome import StructuredOutcome
from reenact.journal.fold import TraceFold
from reenact.policy.budget import Spent
from reenact.runtime.gates.verdict import Refusal, Verdict
from reenact.runtime.plans.steps import PlannedStep

SAME = object()
"""The raw response is the output itself."""


class AttemptCall(Struct, frozen=True, kw_only=True):
    """One dispatch, as it is handed to a source."""

    run_id: str
    original_run_id: str
    trace_id: str
    step: PlannedStep
    parameters: dict[str, object]
    """After references, before secrets, with `$` escaped."""
    attempt: int
    idempotency_key: str
    context: dict[str, object]


class AttemptResult(Struct, frozen=True, kw_only=True):
    """What came of one dispatch: facts to decide on, values to keep."""

    facts: Facts
    started_at: str
    ended_at: str
    latency_ms: int
    output: object = None
    response: object = SAME
    side_effects: list[tuple[str, str]] = []
    request_id: str | None = None
    retry_after_ms: int | None = None
    message: str | None = None
    details: dict[str, object] | None = None
    cost_exact: int | None = None
    """Only where the price cannot be computed again, because what it depends on was erased."""


@dataclass(frozen=True, slots=True)
class KeyVerdict:
    """What a key decides where the store is not asked."""

    code: str | None = None
    """Refused after AUTHORIZED with this code."""
    message: str = ""
    outcome: StructuredOutcome | None = None
    """Served: what the first call left, `output` beside it."""
    output: object = None
    served_from: str | None = None

    @property
    def is_free(self) -> bool:
        return self.code is None and self.outcome is None


@dataclass(frozen=True, slots=True)
class PersonSaid:
    """How a call ended that no attempt ended: by a person's word, by a repair, or because its run was cancelled."""

    succeeded: bool
    output: object
    code: str = "ERR_IN_DOUBT"
    """Where it did not succeed."""
    in_turn: Callable[[str], Awaitable[None]] | None = None
    """Where calls overlapped: given the step's id, waits until the time of that end has come."""


class EffectSource(Protocol):
    """The one difference between a live run and each kind of replay."""

    def is_live(self, step: PlannedStep) -> bool:
        """Whether the effects of this step come from the world, now: only those are waited for, spent, and in doubt."""

    async def attempt(self, call: AttemptCall) -> AttemptResult: ...

    def redispatches(self, trace: TraceFold, *, recovered: bool) -> int:
        """How many times the next dispatch was in doubt before it is made: recorded first, charged as such.

        Asked before every dispatch; `recovered` is true once, for a trace that was found in EXECUTING.
        """

    def missing_secret(self, step: PlannedStep, parameters: dict[str, object]) -> str | None:
        """The name of a secret that the parameters need and nobody has; None where all is there."""

    def given_up(self, step: PlannedStep) -> Refusal | None:
        """The end in the record of a call that its host gave up on before anybody had decided it.

        It stood before any of the gates then, so none of them is asked.
        """

    def served_decision(self, step: PlannedStep) -> Verdict | None:
        """The supervisor's word where a person or a function gave it, to be taken from the record."""

    def served_parameters(self, step: PlannedStep) -> dict[str, object] | None:
        """Parameters for a step whose references lead to a value that is gone, or that nobody made."""

    def served_spending(self, step: PlannedStep) -> tuple[Spent, Spent] | None:
        """What was spent today and on the model, as the recorded decision saw it; None where the store knows."""

    def no_money_left(self, trace: TraceFold) -> str | None:
        """Why the budget of the day or the model refused another attempt here in the record; None where it did not.

        Asked where a step is not live: otherwise the store knows.
        """

    def person_said(self, trace: TraceFold) -> PersonSaid | None:
        """What ended the call here in the record, where that was no attempt."""

    async def key_verdict(self, step: PlannedStep) -> KeyVerdict | None:
        """What the call's key decides; None where the store knows."""

    async def left_behind(self, call: AttemptCall, *, wait: bool) -> AttemptResult | bool:
        """What came of a dispatch in doubt that this process made itself: True where that is still under way.

        False where it knows of none. `wait` for its end, or only look.
        """

    async def reconcile(self, call: AttemptCall) -> AttemptResult | bool | str:
        """What the skill's read-back says of a dispatch in doubt: its result, False if not done.

        A text where it could not tell: why, or nothing.
        """
