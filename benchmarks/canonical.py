"""Canonical JSON beside the `rfc8785` package, on the same values: how many times faster."""

from __future__ import annotations

import timeit
from collections.abc import Callable

import msgspec
import rfc8785

from benchmarks.figure import Figure, race
from reenact.contracts.artifacts import LogEntry
from reenact.values.canonical import canonicalize

LEAST = 15.0

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


def measure(number: int = 2_000, rounds: int = 15) -> list[Figure]:
    entry, document = _entry(), _document()
    plain = msgspec.to_builtins(entry)
    assert canonicalize(entry) == rfc8785.dumps(plain)
    assert canonicalize(document) == rfc8785.dumps(document)
    typed = race([timer(lambda: rfc8785.dumps(plain), number), timer(lambda: canonicalize(entry), number)], rounds)
    few = max(1, number // 20)
    generic = race([timer(lambda: rfc8785.dumps(document), few), timer(lambda: canonicalize(document), few)], rounds)
    return [
        Figure(
            name="canonical JSON of a log entry beside rfc8785",
            value=typed.ratio(0, 1),
            least=LEAST,
            note=f"{typed.best(1) / number * 1e6:.1f} µs and {typed.best(0) / number * 1e6:.1f} µs",
        ),
        Figure(name="canonical JSON of any document beside rfc8785", value=generic.ratio(0, 1)),
    ]


def timer(work: Callable[[], object], number: int) -> Callable[[], float]:
    return lambda: timeit.timeit(work, number=number)
