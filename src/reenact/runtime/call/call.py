"""A call on its way: the noun that is handed whole to gates, authorize, dispatch, doubt and ending."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reenact.contracts.artifacts import ToolClass
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.references import unescape
from reenact.journal.fold import TraceFold
from reenact.policy.settle import Tariff, tariff
from reenact.runtime.gates.duplicate import Claim, DuplicateGate
from reenact.runtime.listeners import Fact
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Run


@dataclass(slots=True)
class Call:
    """One step of a run: the trace it leaves in the journal, and what is known about it beyond the trace."""

    run: Run
    step: PlannedStep
    parameters: dict[str, object]
    """After references, before secrets, with `$` escaped: as they are recorded."""
    is_live: bool
    """Whether its effect comes from the world: only then is anything waited for, spent, or in doubt."""
    trace: TraceFold = field(init=False)
    unresolved: str | None = None
    """Why a reference in the parameters led nowhere."""
    plain: bool = False
    """Known to hold no secret, no mark of one and no key that begins with `$`: nothing to look for in them."""
    gate: DuplicateGate | None = None
    """That of the call's own turn: the run may have come to the next one before the call ends."""
    claim: Claim | None = None
    _tool_class: ToolClass | None = None
    _rate: Tariff | None = None

    @property
    def trace_id(self) -> str:
        return self.trace.trace_id

    @property
    def tool_class(self) -> ToolClass:
        if self._tool_class is None:
            self._tool_class = self.step.tool_class(self.parameters)
        return self._tool_class

    @property
    def rate(self) -> Tariff:
        """What the pinned price table says that an attempt costs."""
        if self._rate is None:
            self._rate = tariff(self.run.plan.pins.prices, self.step.reference, self.parameters)
        return self._rate

    def unescaped(self) -> dict[str, object]:
        """The parameters as the skill gets them, but for secrets, which stay references."""
        if self.plain:
            return self.parameters
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

    def fact(self, kind: str, **known: Any) -> Fact:
        """For listeners, about this call."""
        return Fact(kind, self.run.run_id, self.step.step_id, self.step.index, **known)

    async def park(self) -> None:
        """What is known is durable, and a checkpoint says where the trace stands."""
        self.run.journal.checkpoint(self.trace)
        await self.run.journal.flush()
