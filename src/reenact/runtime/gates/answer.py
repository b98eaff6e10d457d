"""What the gates decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from reenact.contracts.outcome import StructuredOutcome

GateName = Literal["validate", "permission", "key", "duplicate", "budget", "supervisor"]
Approver = Literal["auto", "policy", "person"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A gate's no, with the code that the caller gets and what may help the person who reads it."""

    gate: GateName
    code: str
    message: str
    details: dict[str, object] = field(default_factory=dict)
    duplicate_of: str | None = None
    exact: dict[str, str | None] = field(default_factory=dict)
    vote: str | None = None


class Approval(Struct, frozen=True):
    by: Approver
    vote: str | None = None
    exact: dict[str, str | None] = {}


@dataclass(frozen=True, slots=True)
class Answered:
    """The call was made before under its key, and succeeded: what it gave then, and whose effect that is."""

    outcome: StructuredOutcome
    output: object
    served_from: str


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """Only a person can say. The run waits, and holds nothing while it does."""

    reason: str


GateAnswer = Refusal | Approval | Answered | NeedsApproval
