"""Records of other forms than theirs, signed and chained: what a reader could not make sense of."""

from __future__ import annotations

from collections.abc import Iterator

from tests.tampering.forging import forged
from tests.tampering.kinds.forgeries import Field, field
from tests.tampering.kinds.kind import Kind

FORMS: dict[str, tuple[str, Field]] = {
    "a run record with a key more, chained": ("plan", field("run", more=1)),
    "a run of a mode that nobody knows": ("plan", field("run", mode="sleepwalking")),
    "a request of a risk that nobody knows": ("plan", field("action_request", risk_level="NONE")),
    "a decision that is neither yes nor no": ("plan", field("supervisor_decision", decision="MAYBE")),
    "a call of a class that nobody knows": ("plan", field("tool_call", tool_class="both")),
    "an attempt of a kind that nobody knows": ("plan", field("attempt", kind="guess")),
    "an attempt with a cost that is no number": ("plan", field("attempt", cost_exact="-1")),
    "an effect with two outcomes": ("plan", field("tool_effect", outcome=[])),
    "an event of a type that nobody knows": ("session", field("event", type="rumour")),
    "a vote of a decision that nobody knows": ("session", field("vote", decision="MAYBE")),
    "a checkpoint with a number that is none": ("session", field("checkpoint", checkpoint_sequence_number="1")),
    "a run checkpoint with a key more, chained": ("plan", field("run_checkpoint", more=1)),
    "a seal of a status that nobody knows": ("plan", field("seal", status="asleep")),
    "a seal with a time that is none": ("packed", field("seal", sealed_at="yesterday")),
}


def kinds() -> Iterator[Kind]:
    for name, (of, change) in FORMS.items():
        yield Kind(name, of, lambda files, change=change: forged(files, change))
