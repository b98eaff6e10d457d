"""The Moore machine as data: which transition each artifact makes, and what each state does."""

from __future__ import annotations

from typing import Final, Literal

from reenact.contracts.artifacts import ArtifactType, State

# (from, to) → the artifact that makes it. PENDING → PENDING is allowed for the first entry only.
TRANSITIONS: Final[dict[tuple[State, State], ArtifactType]] = {
    ("PENDING", "PENDING"): "action_request",
    ("PENDING", "AUTHORIZED"): "supervisor_decision",
    ("PENDING", "DENIED"): "supervisor_decision",
    ("AUTHORIZED", "EXECUTING"): "tool_call",
    ("EXECUTING", "COMPLETED"): "tool_effect",
    ("EXECUTING", "FAILED"): "tool_effect",
}

TERMINAL: Final[frozenset[State]] = frozenset({"COMPLETED", "FAILED", "DENIED"})

Output = Literal["ask_gates", "authorize", "dispatch", "return_outcome"]
OUTPUT: Final[dict[State, Output]] = {
    "PENDING": "ask_gates",
    "AUTHORIZED": "authorize",
    "EXECUTING": "dispatch",
    "COMPLETED": "return_outcome",
    "FAILED": "return_outcome",
    "DENIED": "return_outcome",
}
"""What a state does until it is left; `runtime/call/drive.py` performs it, fresh or recovered alike."""

ALLOWED: Final = frozenset((made_by == "action_request", *pair, made_by) for pair, made_by in TRANSITIONS.items())
"""(whether it is the first entry, from, to, artifact) of every entry that there may be."""
