"""Sources of effects: what a dispatch is handed, what comes back, and what a source may say besides.

The world is `live.py` beside this; recordings and simulations are in `replay/sources/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec import Struct

from reenact.contracts.facts import Facts
from reenact.contracts.outcome import StructuredOutcome
from reenact.journal.fold import TraceFold
from reenact.policy.budget import Spent
from reenact.runtime.gates.answer import Answered, GateAnswer, Refusal
from reenact.runtime.plans.steps import PlannedStep

NO_FACTS = Facts()
"""Of a dispatch that returned, and said nothing else."""
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
    plain: bool = False
    """Nothing in the parameters is a secret or escaped."""


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
    unsure: bool = False
    """It failed, and its skill did not say so itself: what it had done by then is not known."""
    utility: str | None = None
    """What the skill itself says that it was worth."""
    cost_exact: int | None = None
    """Only where the price cannot be computed again, because what it depends on was erased."""


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """What a key decides when it is to be reserved, where the store is not asked."""

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
    code: str
    """Where it did not succeed."""
    in_turn: Callable[[str], Awaitable[None]] | None = None
    """Where calls overlapped: given the step's id, waits until the time of that end has come."""


class EffectSource(ABC):
    """Where effects come from: the one difference between a live run and each kind of replay.

    A source says what it knows; for all else there is a default: nothing is served, and what is asked of the record is
    decided here and now. What is served is asked for only where a call is not live.
    """

    @abstractmethod
    def is_live(self, step: PlannedStep) -> bool:
        """Whether the effects of this step come from the world, now: only those are waited for, spent, and in doubt."""

    @abstractmethod
    async def attempt(self, call: AttemptCall) -> AttemptResult:
        """One dispatch."""

    def is_served_whole(self) -> bool:
        """Whether nothing comes from the world, so that no code is loaded that a plan names."""
        return False

    # -- a dispatch that is in doubt -------------------------------------------------------------------------------

    def redispatches(self, _trace: TraceFold, /, *, in_doubt: bool) -> int:
        """How many times the next dispatch was in doubt before it is made: recorded first, charged as such.

        Asked before every dispatch; `in_doubt` is true once, for a trace that was found in EXECUTING.
        """
        return 1 if in_doubt else 0

    async def in_turn_again(self, _trace: TraceFold, /, *, in_doubt: bool) -> None:  # noqa: B027  # live, it always is
        """Until it is this call's turn to be sent again, after a doubt or a failure: what others spent counts."""

    def passed_budget(self, _step: PlannedStep, /) -> bool:
        """Whether there was money when it was asked for, whatever was spent while somebody thought about the call."""
        return False

    async def left_behind(self, _call: AttemptCall, _wait: bool, /) -> AttemptResult | bool:  # noqa: FBT001
        """What came of a dispatch in doubt that this process made itself: True where that is still under way.

        False where it knows of none. Wait for its end, or only look.
        """
        return False

    async def reconcile(self, _call: AttemptCall, /) -> AttemptResult | bool | str:
        """What the skill's read-back says of a dispatch in doubt: its result, False if not done.

        A text where it could not tell: why, or nothing.
        """
        return ""

    # -- what is served instead of decided -------------------------------------------------------------------------

    def missing_secret(self, _step: PlannedStep, _parameters: dict[str, object], /) -> str | None:
        """The name of a secret that the parameters need and nobody has; None where all is there."""
        return None

    def secrets_refused(self, _step: PlannedStep, /) -> list[str]:
        """Where in its parameters the host's secrets stood, for which the call was refused in the record."""
        return []

    def given_up(self, _step: PlannedStep, /) -> Refusal | None:
        """The end in the record of a call that its host gave up on before anybody had decided it.

        It stood before any of the gates then, so none of them is asked.
        """
        return None

    def served_decision(self, _step: PlannedStep, /) -> GateAnswer | None:
        """The supervisor's word where a person or a function gave it, to be taken from the record."""
        return None

    def served_parameters(self, _step: PlannedStep, /) -> dict[str, object] | None:
        """Parameters for a step whose references lead to a value that is gone, or that nobody made."""
        return None

    def served_spending(self, _step: PlannedStep, /) -> tuple[Spent, Spent] | None:
        """What was spent today and on the model, as the recorded decision saw it; None where the store knows."""
        return None

    def no_money_left(self, _trace: TraceFold, /) -> str | None:
        """Why the budget of the day or the model refused another attempt here in the record; None where it did not."""
        return None

    def served_utility(self, _step: PlannedStep, /) -> str | None:
        """What the call was worth, as recorded; None where nobody said."""
        return None

    def person_said(self, _trace: TraceFold, /) -> PersonSaid | None:
        """What ended the call here in the record, where that was no attempt."""
        return None

    def key_gate(self, _step: PlannedStep, /) -> Answered | Refusal | None:
        """What the call's key decided at its gate; None where it let the call pass."""
        return None

    async def key_answer(self, _step: PlannedStep, /) -> KeyAnswer | None:
        """What the call's key decides when it is reserved; None where the store knows."""
        return None
