"""A replay log against its receipt: by id, both ways, in order, and the bytes of the log against `replay_hash`.

Both are gone through side by side, so that memory grows with how far they are apart and not with how long they are. The
other `verify_replay`, that of published reports, is in `reenact.provenance`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from struct import Struct
from typing import Final

import msgspec

from reenact.trace.events import (
    PlanStart,
    ReplayEvent,
    ReplayHeader,
    SessionEnd,
    SessionStart,
    ToolCall,
    ToolResult,
    Verification,
)
from reenact.trace.hashing import PREFIX, form_of, is_hash
from reenact.trace.reader import Events, Progress, ReplayReader
from reenact.trace.receipt import ReceiptToolCall, SessionReceipt
from reenact.trace.verified import Verified

MOST_APART: Final = 1 << 16
MOST_MISMATCHES: Final = 1000
_SINGLE: Final = Struct("<f")


class VerificationResult(msgspec.Struct, frozen=True):
    """`success` means that nothing differs. `mismatches` are sentences; past a thousand the last one counts the rest.

    `hash_forms` counts, by the form that matched, the calls whose `params_hash` was made again of their parameters.
    """

    success: bool
    mismatches: list[str]
    calls: int = 0
    hash_forms: dict[str, int] = {}


def verify_replay(
    events: ReplayReader | Iterable[ReplayEvent], receipt: SessionReceipt, *, progress: Progress | None = None
) -> VerificationResult:
    """Whether a log and a receipt say the same. A log that cannot be read raises ReplayLogError, as its reader does.

    `replay_hash` is compared with the bytes that a reader reads; of other events, with their canonical lines.
    """
    comparison = Comparison(receipt)
    source = events.events if isinstance(events, ReplayReader) else events
    lines = sha256()
    if isinstance(source, Events):
        for event in source.read(progress):
            comparison.take(event)
        assert source.last is not None
        found = source.last.replay_hash
    else:
        for event in source:
            comparison.take(event)
            if receipt.replay_hash is not None:
                lines.update(event.to_canonical_json().encode() + b"\n")
        found = PREFIX + lines.hexdigest()
    comparison.end()
    if receipt.replay_hash is not None and receipt.replay_hash != found:
        comparison.differs(f"Replay hash mismatch: expected {receipt.replay_hash}, got {found}")
    return comparison.result()


class Open:
    """A call of the log, with the receipt's word for it once that was met."""

    __slots__ = ("call", "item", "number", "place", "result")

    def __init__(self, call: ToolCall, number: int) -> None:
        self.call = call
        self.number = number
        self.item: ReceiptToolCall | None = None
        self.place = 0
        self.result: ToolResult | None = None


class Comparison:
    """One pass. Each call of the log takes one more item of the receipt; a pair that is whole is forgotten."""

    def __init__(self, receipt: SessionReceipt) -> None:
        self._receipt = receipt
        self._items: Iterator[ReceiptToolCall] = iter(receipt.tool_calls)
        self._taken = 0
        self._unmatched: dict[str, tuple[int, ReceiptToolCall]] = {}
        self._calls: dict[str, Open] = {}
        self._mismatches: list[str] = []
        self._more = 0
        self._count = 0
        self._results = 0
        self._forms: Counter[str] = Counter()
        self._gave_up = False
        self._verified = Verified(receipt.verification)
        self._kinds: set[type] = set()
        self._by_call = InOrder()
        self._by_result = InOrder()

    def differs(self, text: str) -> None:
        if len(self._mismatches) < MOST_MISMATCHES:
            self._mismatches.append(text)
        else:
            self._more += 1

    def take(self, event: ReplayEvent) -> None:
        if isinstance(event, ToolCall):
            self._call(event)
            return
        if isinstance(event, ToolResult):
            self._result(event)
            return
        self._kinds.add(type(event))
        if isinstance(event, SessionStart):
            self._same("Session id", self._receipt.session_id, event.session_id)
            self._same("Policy version", self._receipt.policy_version, event.policy_version)
            self._same("Issue number", self._receipt.issue_number, event.issue_number)
        elif isinstance(event, PlanStart):
            self._same("Plan hash", self._receipt.plan_hash, event.plan_hash)
        elif isinstance(event, Verification):
            self._verified.take(event)
        elif isinstance(event, SessionEnd):
            self._same("Confidence", self._receipt.final_confidence, event.confidence)

    def end(self) -> None:
        self._has_both_ends()
        verified = self._verified.mismatch()
        if verified is not None:
            self.differs(verified)
        while not self._gave_up and self._take_item():
            pass
        if self._gave_up:
            return
        for call in self._calls.values():
            if call.item is not None:
                self.differs(f"Tool {call.item.tool} ({call.item.id}) has no result in the replay log")
            elif call.result is not None:
                self.differs(f"Tool {call.call.tool} ({call.call.id}) is in the replay log, but not in the receipt")
        for _, item in self._unmatched.values():
            self.differs(f"Tool {item.tool} ({item.id}) is in the receipt, but not in the replay log")
        if not (self._by_call.holds or self._by_result.holds):
            self.differs(f"Tool calls are in another order: {self._by_call.where}")

    def _has_both_ends(self) -> None:
        """A log, which begins with its header, has the lines that what the receipt says was taken from: where one is
        gone nothing was compared with it. Events that somebody picked are none, and have what they have."""
        if ReplayHeader not in self._kinds:
            return
        for what, kind, expected in (
            ("Session id", SessionStart, self._receipt.session_id),
            ("Plan hash", PlanStart, self._receipt.plan_hash),
            ("Session end", SessionEnd, self._receipt.completed_at),
        ):
            if expected is not None and kind not in self._kinds:
                self.differs(f"{what} mismatch: expected {expected}, got no {kind.__name__} in the replay log")

    def result(self) -> VerificationResult:
        more = [f"and {self._more} more"] if self._more else []
        return VerificationResult(
            success=not self._mismatches,
            mismatches=self._mismatches + more,
            calls=self._count,
            hash_forms=dict(self._forms),
        )

    def _same(self, what: str, expected: str | float | None, got: str | float | None) -> None:
        """What the receipt does not know differs from nothing."""
        if expected is not None and expected != got and not is_rounded(expected, got):
            self.differs(f"{what} mismatch: expected {expected}, got {got}")

    def _call(self, event: ToolCall) -> None:
        self._count += 1
        if is_hash(event.params_hash):
            form = form_of(event.params, event.params_hash)
            if form is None:
                self.differs(f"Tool {event.tool} ({event.id}): its params do not have the hash {event.params_hash}")
            else:
                self._forms[form.value] += 1
        if self._gave_up:
            return
        if event.id in self._calls:
            self.differs(f"Tool {event.tool} ({event.id}) is twice in the replay log")
            return
        call = self._calls[event.id] = Open(event, self._count)
        if event.id in self._unmatched:
            self._meet(call, *self._unmatched.pop(event.id))
        self._take_item()
        self._give_up_if_too_far()

    def _take_item(self) -> bool:
        item = next(self._items, None)
        if item is None:
            return False
        self._taken += 1
        call = self._calls.get(item.id)
        if call is not None and call.item is None:
            self._meet(call, self._taken, item)
        elif item.id in self._unmatched:
            self.differs(f"Tool {item.tool} ({item.id}) is twice in the receipt")
        else:
            self._unmatched[item.id] = self._taken, item
            self._give_up_if_too_far()
        return True

    def _meet(self, call: Open, place: int, item: ReceiptToolCall) -> None:
        call.item, call.place = item, place
        self._by_call.next(place, call.number, item.id)
        if call.result is not None:
            self._compare(call, call.result)

    def _result(self, event: ToolResult) -> None:
        if self._gave_up:
            return
        call = self._calls.get(event.id)
        if call is None or call.result is not None:
            self.differs(f"A result ({event.id}) in the replay log has no call")
            return
        call.result = event
        self._results += 1
        self._by_result.next(call.place, self._results, event.id)
        if call.item is not None:
            self._compare(call, event)

    def _compare(self, call: Open, result: ToolResult) -> None:
        item = call.item
        assert item is not None
        del self._calls[item.id]
        for what, expected, got in (
            ("output", item.output_hash, result.output_hash),
            ("params", item.params_hash, call.call.params_hash),
            ("name", item.tool, call.call.tool),
            ("step_utility", item.step_utility, result.step_utility),
            ("latency_ms", item.latency_ms, result.latency_ms),
        ):
            if expected != got and not is_rounded(expected, got):
                self.differs(f"Tool {item.tool} {what} mismatch: expected {expected}, got {got}")

    def _give_up_if_too_far(self) -> None:
        if len(self._calls) + len(self._unmatched) > MOST_APART:
            self.differs(f"more than {MOST_APART} calls are on one side only; nothing after them was compared")
            self._gave_up = True
            self._calls.clear()
            self._unmatched.clear()


def is_rounded(expected: float | str | None, got: float | str | None) -> bool:
    """Whether one is the other in single precision: the format's numbers have it, and not everybody prints them so."""
    if not (isinstance(expected, float) and isinstance(got, float)):
        return False
    return expected == to_single(got) or got == to_single(expected)


def to_single(value: float) -> float:
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:  # larger than any of 32 bits: a confidence that somebody made up
        return math.copysign(math.inf, value)
    return rounded


class InOrder:
    """Whether two lists have the same order: pairs are met one after the other, and then both places only rise.

    A receipt may list calls as they were made, or as they ended.
    """

    def __init__(self) -> None:
        self.holds = True
        self.where = ""
        self._last = (0, 0, "")

    def next(self, place: int, other: int, name: str) -> None:
        before, other_before, name_before = self._last
        if self.holds and not (place > before and other > other_before):
            self.holds = False
            first, second = (name, name_before) if place < before else (name_before, name)
            self.where = f"the receipt has {first} before {second}, the replay log does not"
        self._last = place, other, name
