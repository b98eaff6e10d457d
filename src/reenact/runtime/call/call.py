"""`Call`: one call on its way, handed whole to gates, authorize, dispatch, doubt and ending."""

from __future__ import annotations

from typing import Any, cast

from msgspec import UNSET, Struct, UnsetType

from reenact.contracts.artifacts import ToolClass
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.references import unescape
from reenact.journal.fold import TraceFold
from reenact.policy.settle import Tariff, tariff
from reenact.runtime.gates.duplicate import Claim, DuplicateGate
from reenact.runtime.listeners import Notice
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Run


class Call(Struct, eq=False):
    """One step of a run: the trace it leaves in the journal, and what is known about it beyond the trace."""

    run: Run
    step: PlannedStep
    parameters: dict[str, object]
    """After references, before secrets, with `$` escaped: as they are recorded."""
    is_live: bool
    """Whether its effect comes from the world: only then is anything waited for, spent, or in doubt."""
    tool_class: ToolClass = "write"
    """As its skill says of these parameters."""
    trace: TraceFold = cast("TraceFold", None)
    """From its request on; whoever makes a call gives it."""
    unresolved: str | None = None
    """Why a reference in the parameters led nowhere."""
    content: bytes = b""
    """The parameters in canonical form, where nothing had to be taken out of what is recorded."""
    plain: bool = False
    """Known to hold no secret, no mark of one and no key that begins with `$`: nothing to look for in them."""
    gate: DuplicateGate | None = None
    """That of the call's own turn: the run may have come to the next one before the call ends."""
    claim: Claim | None = None
    tariff: Tariff | None = None
    asked_after: int | UnsetType = UNSET
    """When the money for its last retry was asked for: `Money.place`."""
    approved: Struct | str | None = None
    """What its approval is bound to: as it was minted here, or the digest in one that was read and verified."""

    @property
    def trace_id(self) -> str:
        return self.trace.trace_id

    @property
    def rate(self) -> Tariff:
        """What the pinned price table says that an attempt costs."""
        if self.tariff is None:
            self.tariff = tariff(self.run.plan.pins.prices, self.step.reference, self.parameters)
        return self.tariff

    def unescaped(self) -> dict[str, object]:
        """The parameters as the skill gets them, but for secrets, which stay references: of a plain call themselves."""
        found = unescape(self.parameters, None)
        assert isinstance(found, dict)
        return found

    def missing_secret(self) -> str | None:
        """The name of a secret that the parameters need and nobody has."""
        if self.plain and self.is_live:
            return None
        return self.run.source.missing_secret(self.step, self.parameters)

    def shown(self, outcome: StructuredOutcome) -> StructuredOutcome:
        """What listeners may print, count and send away."""
        return self.run.journal.book.redactor.mark_outcome(outcome, self.step.redact_hints)

    def notice(self, kind: str, **known: Any) -> Notice:
        """For listeners, about this call."""
        return Notice(kind, self.run.run_id, self.step.step_id, self.step.index, **known)

    async def park(self) -> None:
        """What is known is durable, and a checkpoint says where the trace stands."""
        self.run.journal.checkpoint(self.trace)
        await self.run.journal.flush()
