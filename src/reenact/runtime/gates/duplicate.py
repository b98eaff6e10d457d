"""Fourth gate: within a turn, an idempotent call that succeeded is not made twice; a failed one may be.

The key is claimed when the gate decides, so that two equal calls in parallel do not both run: the second waits for the
first. A claim belongs to the call that made it, and ends with that call and no other. A write that succeeded forgets
the reads of what it wrote, and those that were under way while it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from reenact.contracts.outcome import StructuredOutcome
from reenact.journal.chain import sha
from reenact.runtime.gates.answer import Refusal
from reenact.runtime.plans.steps import PlannedStep
from reenact.values.canonical import canonicalize
from reenact.values.digest import hmac_hex

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call

NOTHING: frozenset[str] = frozenset()
UNKNOWN = object()
"""An output that lies in the journal."""


@dataclass(frozen=True, slots=True)
class Success:
    trace_id: str
    reads: frozenset[str]
    output: object = UNKNOWN


@dataclass(slots=True, eq=False)
class Claim:
    """The right to be the one call of its kind, until the call ends."""

    key: str
    trace_id: str
    reads: frozenset[str]
    ended: asyncio.Future[None] | None = None
    """Made when somebody waits for it."""
    stale: bool = False
    """What it reads was written meanwhile: its success does not count."""


class Called(Protocol):
    """As much of a call as the gate needs: of one that is being made, or that was read from the record."""

    @property
    def step(self) -> PlannedStep: ...
    @property
    def parameters(self) -> dict[str, object]: ...
    @property
    def trace_id(self) -> str: ...


@dataclass(slots=True)
class DuplicateGate:
    """The calls of one turn, by a signature that tells nobody without the plan what they are.

    `with_output` lets a denial carry what the earlier call returned; `recall` reads that of a call before a crash.
    """

    turn: int = 0
    salt: bytes = b""
    with_output: bool = False
    recall: Callable[[str], object] | None = None
    done: dict[str, Success] = field(default_factory=dict)
    """What would be refused by now."""
    _claimed: dict[str, Claim] = field(default_factory=dict)

    async def claim(self, call: Called) -> Refusal | Claim | None:
        """Refuse a duplicate, or claim the call: None where anybody may repeat it.

        A call in flight is waited for; if it fails, this one may go on.
        """
        if not is_idempotent(call.step):
            return None
        key = self.signature(call)
        while (held := self._claimed.get(key)) is not None:
            if held.ended is None:
                held.ended = asyncio.get_running_loop().create_future()
            await asyncio.shield(held.ended)
        earlier = self.done.get(key)
        if earlier is None:
            return self._claim(key, call)
        details: dict[str, object] = {"duplicate_of": earlier.trace_id}
        if self.with_output:
            details["output"] = self._output_of(earlier)
        skill_id = call.step.skill_id
        message = f"{skill_id} succeeded with these arguments already; its result is that of {earlier.trace_id}"
        return Refusal("duplicate", "DENIED_DUPLICATE", message, details, duplicate_of=earlier.trace_id)

    def _output_of(self, earlier: Success) -> object:
        if earlier.output is not UNKNOWN:
            return deepcopy(earlier.output)
        return None if self.recall is None else self.recall(earlier.trace_id)

    def hold(self, call: Called) -> Claim | None:
        """Claim for a call that an earlier process let pass; None where there is nothing to claim."""
        key = self.signature(call) if is_idempotent(call.step) else None
        return None if key is None or key in self._claimed else self._claim(key, call)

    def _claim(self, key: str, call: Called) -> Claim:
        claim = self._claimed[key] = Claim(key, call.trace_id, touched(call)[0])
        return claim

    def record(self, call: Called, outcome: StructuredOutcome, claim: Claim | None = None) -> None:
        """A call of this turn has ended. Its success counts, unless what it read was written while it read."""
        if outcome.ok:
            reads, writes = touched(call)
            is_stale = claim is not None and claim.stale
            if writes:
                self.forget(writes)
            if is_idempotent(call.step) and not is_stale:
                output = deepcopy(outcome.output) if self.with_output else UNKNOWN
                self.done.setdefault(self.signature(call), Success(call.trace_id, reads, output))
        if claim is not None:
            self.release(claim)

    def forget(self, written: frozenset[str]) -> None:
        """Something was written: who read it before does not know what it is now."""
        self.done = {key: success for key, success in self.done.items() if not success.reads & written}
        for claim in self._claimed.values():
            claim.stale = claim.stale or bool(claim.reads & written)

    def release(self, claim: Claim) -> None:
        """The call of this claim is no longer under way: whoever waits for it decides anew."""
        if self._claimed.get(claim.key) is claim:
            del self._claimed[claim.key]
        if claim.ended is not None and not claim.ended.done():
            claim.ended.set_result(None)

    def release_equal(self, call: Called) -> None:
        """Where it is known that an equal call is no longer under way, though not since when."""
        held = self._claimed.get(self.signature(call)) if is_idempotent(call.step) else None
        if held is not None:
            self.release(held)

    def stale_traces(self) -> list[str]:
        """Calls under way whose success will not count."""
        return sorted(claim.trace_id for claim in self._claimed.values() if claim.stale)

    def signature(self, call: Called) -> str:
        return hmac_hex(self.salt, canonicalize({"args": dict(call.parameters), "skill_id": call.step.skill_id}))

    def digest(self) -> str:
        """What a run checkpoint says of the gate."""
        return sha(canonicalize(sorted([signature, success.trace_id] for signature, success in self.done.items())))


def is_idempotent(step: PlannedStep) -> bool:
    return step.skill is not None and step.skill.metadata.idempotent


def touched(call: Called) -> tuple[frozenset[str], frozenset[str]]:
    """(what the call reads, what it writes), as far as its skill declares it."""
    skill = call.step.skill
    if skill is None or not (skill.metadata.resources.reads or skill.metadata.resources.writes):
        return NOTHING, NOTHING
    declared = skill.resources_of(call.parameters)
    return frozenset(declared.reads), frozenset(declared.writes)


async def check(call: Call, gate: DuplicateGate) -> Refusal | None:
    """The gate's word about a call, which then has its claim."""
    found = await gate.claim(call)
    if isinstance(found, Refusal):
        return found
    call.claim = found
    return None
