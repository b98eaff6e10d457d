"""Reading a run's state: from its last checkpoint when there is a good one, else from the beginning."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from reenact.errors import ChecksumMismatch, DamagedRecord, RunEnded
from reenact.journal import frontier
from reenact.journal.chain import sha
from reenact.journal.lines import decode_line, split_body
from reenact.journal.run_fold import RunFold
from reenact.record.trace import load_trace
from reenact.store.base import RunRow, Store

SEAL_START = b'{"kind":"seal"'


@dataclass(frozen=True, slots=True)
class Recovered:
    """A run's state, and what had to be read for it."""

    fold: RunFold
    from_commit: int
    """The checkpoint's commit; 0 when the journal was read from its beginning."""
    commits_read: int
    steps_read: int

    def __str__(self) -> str:
        start = f"the run checkpoint in commit {self.from_commit}" if self.from_commit else "the beginning"
        return f"read {counted(self.commits_read, 'commit')} with {counted(self.steps_read, 'step')} from {start}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def load_fold(store: Store, run_id: str) -> Recovered:
    """The run's state, verified. A checkpoint that does not hold is STATE_CHECKSUM_MISMATCH: nothing goes on."""
    kept = store.latest_frontier(run_id)
    if kept is None:
        fold = RunFold(run_id).apply_bodies(store.bodies(run_id))
        return Recovered(fold, 0, fold.commits, fold.requested)
    n, data = kept
    fold = restore(store, run_id, n, data)
    before = fold.requested - len(fold.open)
    fold.apply_bodies(store.bodies(run_id, after=n))
    return Recovered(fold, n, fold.commits - n + 1, fold.requested - before)


def refuse_ended(fold: RunFold) -> None:
    """To be asked once the lease is held: whoever had it before may have ended the run."""
    if fold.seal is not None:
        raise RunEnded(f"run {fold.run_id} has ended ({fold.seal.status}); nothing is appended to it")


def refuse_unsealed(store: Store, row: RunRow) -> None:
    """A run has ended when its journal says so, whatever the table of runs says."""
    body = store.body(row.run_id, row.commits)
    if body is None or not body.splitlines()[-1].startswith(SEAL_START):
        raise DamagedRecord(
            f"run {row.run_id} is called {row.status}, and its journal does not end with a seal; see `reenact verify "
            f"{row.run_id}`"
        )


def restore(store: Store, run_id: str, n: int, data: bytes) -> RunFold:
    where = f"run {run_id}, run checkpoint in commit {n}"
    body = store.body(run_id, n)
    if body is None:
        raise ChecksumMismatch(f"{where}: the commit is not there")
    try:
        fold, open_traces = frontier.unpack(run_id, data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ChecksumMismatch(f"{where}: what was kept beside it cannot be read: {error}") from None
    for trace_id in open_traces:
        row = store.trace(trace_id, run_id=run_id)
        if row is None:
            raise ChecksumMismatch(f"{where}: its open trace {trace_id} is not there")
        trace, _ = load_trace(store, row, until=n)
        fold.open[trace_id] = trace
    if not is_whole(fold):
        raise ChecksumMismatch(f"{where}: what was kept beside it contradicts itself")
    confirm(fold, body, n, where)
    fold.commits, fold.head = n, sha(body)
    return fold


def is_whole(fold: RunFold) -> bool:
    """The parts of a frontier fit each other, so that nothing after this meets a number that cannot be."""
    trees = all(tree.size.bit_count() == len(tree.frontier) for tree in (fold.tree, fold.attempts_tree))
    return (
        trees
        and fold.requested == fold.done + len(fold.open)
        and fold.done == fold.tree.size + len(fold.waiting_leaves)
    )


def confirm(fold: RunFold, body: bytes, n: int, where: str) -> None:
    """The journal's own checkpoint line against what was kept beside it."""
    offset = 0
    for raw in split_body(body, where=where):
        line = decode_line(raw, where=where)
        if line.run_checkpoint is not None:
            checkpoint = line.run_checkpoint
            fold.apply_run_checkpoint(checkpoint, sha(body[:offset]))
            stated = (checkpoint.commits, checkpoint.open, checkpoint.spent_exact)
            if stated != (n, list(fold.open), str(fold.spent_exact)):
                raise ChecksumMismatch(f"{where}: it is not the state that was kept beside it")
            return
        offset += len(raw) + 1
    raise DamagedRecord(f"{where}: the commit holds no run checkpoint")
