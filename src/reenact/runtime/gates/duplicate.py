"""Third gate: within a turn, an idempotent call that succeeded is not made twice; a failed one may be.

The key is claimed when the gate decides, so that two equal calls in parallel do not both run: the second waits for the
first. A write that succeeded forgets the reads of what it wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from reenact.contracts.outcome import StructuredOutcome
from reenact.journal.chain import sha
from reenact.policy.replay_control import call_key
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.steps import PlannedStep
from reenact.skills.resources import resources_of
from reenact.values.canonical import canonicalize


@dataclass(frozen=True, slots=True)
class Success:
    trace_id: str
    reads: frozenset[str]
    output: object = None


@dataclass(slots=True)
class DuplicateGate:
    """The calls of the current turn. `with_output` lets a denial carry what the earlier call returned."""

    with_output: bool = False
    _done: dict[str, Success] = field(default_factory=dict)
    _claimed: dict[str, asyncio.Future[None]] = field(default_factory=dict)

    async def check(self, step: PlannedStep, parameters: Mapping[str, object]) -> Refusal | None:
        """Refuse a duplicate, or claim the call. A call in flight is waited for; if it fails, this one may go on."""
        if not is_idempotent(step):
            return None
        key = call_key(step.skill_id, dict(parameters))
        while key in self._claimed:
            await asyncio.shield(self._claimed[key])
        earlier = self._done.get(key)
        if earlier is None:
            self._claimed[key] = asyncio.get_running_loop().create_future()
            return None
        details: dict[str, object] = {"duplicate_of": earlier.trace_id}
        if self.with_output:
            details["output"] = earlier.output
        message = f"{step.skill_id} succeeded with these arguments already; its result is that of {earlier.trace_id}"
        return Refusal("duplicate", "DENIED_DUPLICATE", message, details, duplicate_of=earlier.trace_id)

    def record(
        self, step: PlannedStep, parameters: Mapping[str, object], trace_id: str, outcome: StructuredOutcome
    ) -> None:
        """A call has ended: its claim is free; its success counts, unless it is a write that others may repeat."""
        declared = resources_of(step.skill.metadata, parameters) if step.skill is not None else None
        if outcome.ok and declared is not None and declared.writes:
            written = set(declared.writes)
            self._done = {key: success for key, success in self._done.items() if not success.reads & written}
        if not is_idempotent(step):
            return
        key = call_key(step.skill_id, dict(parameters))
        claim = self._claimed.pop(key, None)
        if outcome.ok and key not in self._done:
            reads = frozenset(declared.reads) if declared is not None else frozenset()
            self._done[key] = Success(trace_id, reads, outcome.output if self.with_output else None)
        if claim is not None and not claim.done():
            claim.set_result(None)

    def release(self, step: PlannedStep, parameters: Mapping[str, object]) -> None:
        """A call that claimed its key did not end here: whoever waits for it decides anew."""
        if is_idempotent(step):
            claim = self._claimed.pop(call_key(step.skill_id, dict(parameters)), None)
            if claim is not None and not claim.done():
                claim.set_result(None)

    def digest(self) -> str:
        """What a run checkpoint says of the gate."""
        return sha(canonicalize(sorted(self._done)))


def is_idempotent(step: PlannedStep) -> bool:
    return step.skill is not None and step.skill.metadata.idempotent
