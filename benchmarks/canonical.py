"""Canonical JSON beside the `rfc8785` package, on the same values: how many times faster.

Ratios, not seconds: both sides run interleaved in the same process, so that a busy machine slows both alike.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

import msgspec
import rfc8785

from reenact.contracts.artifacts import LogEntry
from reenact.values.canonical import canonicalize

GUARDS = {"typed_entry_vs_rfc8785": 15.0}
"""The least that each ratio may be."""

_DIGEST = "3f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def _entry() -> LogEntry:
    return LogEntry(
        artifact_digest=_DIGEST,
        artifact_id=_ID,
        artifact_type="tool_call",
        entry_digest=_DIGEST,
        from_state="AUTHORIZED",
        idempotency_key=_ID,
        prev_entry_digest=_DIGEST,
        sequence_number=3,
        to_state="EXECUTING",
        tool_call_id=_ID,
        trace_id=_ID,
        ts="2025-06-01T12:00:00.000Z",
    )


def _document() -> dict[str, object]:
    """What a tool returns: nested, with floats, text beyond ASCII, and keys in no order."""
    row = {"name": "Zürich", "id": 4711, "score": 0.8125, "tags": ["a", "b"], "active": True, "parent": None}
    return {"status": 200, "headers": {"content-type": "application/json", "etag": 'W/"1"'}, "rows": [row] * 20}


def _ratio(ours: Callable[[], object], theirs: Callable[[], object], number: int, rounds: int = 9) -> float:
    mine = yours = float("inf")
    for _ in range(rounds):
        mine = min(mine, timeit.timeit(ours, number=number))
        yours = min(yours, timeit.timeit(theirs, number=number))
    return yours / mine


def measure() -> dict[str, float]:
    """The ratios by name; greater is better."""
    entry, document = _entry(), _document()
    plain = msgspec.to_builtins(entry)
    assert canonicalize(entry) == rfc8785.dumps(plain)
    assert canonicalize(document) == rfc8785.dumps(document)
    return {
        "typed_entry_vs_rfc8785": _ratio(lambda: canonicalize(entry), lambda: rfc8785.dumps(plain), 2000),
        "generic_vs_rfc8785": _ratio(lambda: canonicalize(document), lambda: rfc8785.dumps(document), 100),
    }
