"""What the gates of one run remember: calls of this turn, external calls, who is asked for approval."""

from __future__ import annotations

from dataclasses import dataclass

from reenact.runtime.gates.duplicate import DuplicateGate
from reenact.runtime.gates.external import ExternalCalls
from reenact.runtime.gates.supervisor import Supervision


@dataclass(slots=True)
class Gates:
    """One for each run; see `order.ask` for the order in which they are asked."""

    limits_agent: bool
    """Whether the plan says what this agent may call: else there is no permission to ask for."""
    external: ExternalCalls | None
    supervision: Supervision
    duplicates: DuplicateGate | None = None
    """Of the turn that the run has come to; None where repeating is allowed."""
    duplicate_output: bool = False
    """Whether a denied duplicate is handed the earlier output."""
