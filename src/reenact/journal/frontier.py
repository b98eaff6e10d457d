"""State kept with a run checkpoint: what recovery needs to go on from there, without reading what lies before it.

The frontier is a derived value: it is believed only as far as the run checkpoint in the journal confirms it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from reenact.contracts.records import RunRecord, Vote
from reenact.journal.chain import MerkleTree
from reenact.journal.run_fold import RunFold

UNCOUNTED: Final = -(1 << 60)
"""In a frontier of before moments were counted: whatever is added, it stays below 0."""


class Frontier(msgspec.Struct, frozen=True, kw_only=True):
    record: RunRecord
    moments: int = UNCOUNTED
    requested: int
    done: int
    approved_writes: int
    approved_reads: dict[str, int]
    not_completed: list[int]
    settled_exact: str
    tree_size: int
    tree: list[bytes]
    attempts_size: int
    attempts: list[bytes]
    waiting: dict[int, bytes]
    open: list[str]
    turns: int
    votes: dict[str, Vote]
    parked: dict[str, int]
    freed: dict[str, int] = {}
    duplicates: str
    kept: bytes = b""
    """What the runtime keeps beside it. The lines do not tell it: it needs the arguments of calls."""


ENCODE = msgspec.msgpack.Encoder().encode
DECODE = msgspec.msgpack.Decoder(Frontier).decode


def pack(fold: RunFold, kept: bytes = b"") -> bytes:
    assert fold.record is not None
    return ENCODE(
        Frontier(
            record=fold.record,
            moments=fold.moments,
            requested=fold.requested,
            done=fold.done,
            approved_writes=fold.approved_writes,
            approved_reads=fold.approved_reads,
            not_completed=sorted(fold.not_completed),
            settled_exact=str(fold.settled_exact),
            tree_size=fold.tree.size,
            tree=fold.tree.frontier,
            attempts_size=fold.attempts_tree.size,
            attempts=fold.attempts_tree.frontier,
            waiting=fold.waiting_leaves,
            open=list(fold.open),
            turns=fold.turns,
            votes={trace_id: vote for trace_id, vote in fold.votes.items() if trace_id in fold.open},
            parked=fold.parked,
            freed=fold.freed,
            duplicates=fold.duplicates,
            kept=kept,
        )
    )


def kept_beside(data: bytes) -> bytes:
    """What was kept besides the journal's own state; empty where nothing was, or the frontier cannot be read."""
    try:
        return DECODE(data).kept
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""


def unpack(run_id: str, data: bytes) -> tuple[RunFold, list[str]]:
    """A fold that stands where the frontier was taken, and the ids of the traces that were open then."""
    kept = DECODE(data)
    fold = RunFold(run_id)
    fold.record = kept.record
    fold.moments = kept.moments
    fold.requested, fold.done = kept.requested, kept.done
    fold.approved_writes, fold.approved_reads = kept.approved_writes, kept.approved_reads
    fold.not_completed = kept.not_completed
    fold.settled_exact = int(kept.settled_exact)
    fold.tree = MerkleTree(kept.tree_size, kept.tree)
    fold.attempts_tree = MerkleTree(kept.attempts_size, kept.attempts)
    fold.waiting_leaves = kept.waiting
    fold.turns, fold.turn = kept.turns, max(0, kept.turns - 1)
    fold.votes = kept.votes
    fold.parked = kept.parked
    fold.freed = kept.freed
    fold.duplicates = kept.duplicates
    return fold, kept.open
