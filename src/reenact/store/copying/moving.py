"""How a store is copied into another place: frozen, verified, row by row, verified there, and retired.

Stopped at any point, it goes on where it was when it is begun again. Until the copy is whole nobody can use it; from
its first row on nobody can write to the source.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from reenact.errors import DamagedRecord, LockAcquireFailed, UsageError
from reenact.store.checks.verification import RunVerification, verify_evidence
from reenact.store.copying.sides import Held, Side, Source, Target
from reenact.store.copying.tables import FILLING, MOVED, MOVING, Row, Table
from reenact.store.copying.taking import RUNS, Taking, Verdicts, count_open
from reenact.store.encryption import SUFFIX as ENCRYPTION
from reenact.store.evidence import said_id
from reenact.store.keys.here import files_beside
from reenact.store.location import KEY_SUFFIXES
from reenact.store.owner import process_of
from reenact.values.clock import Clock, SystemClock

ROWS: Final = 1_000
BYTES: Final = 8 << 20
"""Of a batch, but for its last row."""
Progress = Callable[[str, int, int], None]
"""(what is done, how far, of how many)"""
EVERYTHING: Final = Taking()


class Moved(NamedTuple):
    """What a copy came to."""

    store_id: str
    runs: int
    rows: int
    """Of the whole store, also of an earlier try."""
    went_on: bool
    """Whether an earlier try had begun."""
    keys: list[tuple[str, str]]
    """Of key files that were not copied, where each lies and where the copy looks for it."""
    held: int = 0
    """Open runs, in a copy that is a new store: they go on where they began."""


def move(
    source: Source, target: Target, progress: Progress, taking: Taking = EVERYTHING, clock: Clock | None = None
) -> Moved:
    """The whole store is at `target`, and `source` gives no lease any more and says where it went; or its runs are in a
    new store there, and it is used as before.

    UsageError for a target that holds something else, LockAcquireFailed while somebody works on a run, DamagedRecord
    for a source that does not verify: then it stays as it was.
    """
    store_id = whole(source, target)
    went_on = source.says(MOVING) is not None
    if went_on and taking.is_whole(target, store_id):
        return ended(source, target, taking)
    target.begin(taking.begun_as(store_id))
    held = source.freeze(target.shown)
    if held:
        refuse_held(source, target, held)
    verdicts = verified(source, progress, "verifying what is copied")
    refuse_broken(source, target, verdicts)
    total = sum(source.count(each) for each in taking.tables)
    done = 0
    for each in taking.tables:
        with closing(copied(source, target, each, taking)) as counts:
            for count in counts:
                done += count
                progress("copying", done, total)
    compare(source, target, progress, total, taking)
    taking.make_identity(source, target, clock or SystemClock())
    if not taking.agree(verdicts, verified(target, progress, "verifying the copy")):
        raise DamagedRecord(f"the copy at {target.shown} does not verify as {source.shown} does; it is not used")
    target.finish()
    return ended(source, target, taking, went_on=went_on)


def ended(source: Source, target: Target, taking: Taking, *, went_on: bool = True) -> Moved:
    store_id, rows = target.says_whole("store_id") or "", sum(source.count(each) for each in taking.tables)
    keys = key_files(source.keys_at(), target.keys_at(), taking)
    if taking.as_new:
        source.thaw()
        return Moved(store_id, source.count(RUNS), rows, went_on, keys, count_open(source))
    source.retire(target.shown)
    return Moved(store_id, source.count(RUNS), rows, went_on, keys)


def key_files(here: Path, there: Path, taking: Taking) -> list[tuple[str, str]]:
    """A new store signs with a key of its own; what was encrypted stays so."""
    files = [] if taking.as_new else list(files_beside(here))
    suffixes = (ENCRYPTION,) if taking.as_new else KEY_SUFFIXES[1:]
    files += [Path(f"{here}{suffix}") for suffix in suffixes]
    places = {str(file): f"{there}{file.name.removeprefix(here.name)}" for file in files if file.exists()}
    return [(key, place) for key, place in places.items() if key != place]


def whole(source: Source, target: Target) -> str:
    """The store's id; UsageError for one that is a copy in the making, or went somewhere else."""
    if source.shown == target.shown:
        raise UsageError(f"{source.shown} cannot be copied to itself; name another place")
    store_id, moved, moving = source.says("store_id"), source.says(MOVED), source.says(MOVING)
    if store_id is None:
        raise UsageError(f"{source.shown} does not say which store it is; see `reenact doctor`")
    if source.says(FILLING) is not None:
        raise UsageError(f"{source.shown} is itself a copy that is not whole yet: finish that one first")
    if moved is not None:
        raise UsageError(f"{source.shown} was moved to {moved} already: copy that one")
    if moving is not None and moving != target.shown:
        raise UsageError(
            f"{source.shown} is being copied to {moving}: go on with that, or take it back with "
            f"`reenact db copy {source.shown} {moving} --give-up`"
        )
    return store_id


def give_up(source: Source, target: Target) -> None:
    """A copy that is not whole is not gone on with: what there is of it is taken away, and the source is used again."""
    store_id = source.says("store_id") or ""
    if source.says(MOVING) != target.shown:
        raise UsageError(f"{source.shown} is not being copied to {target.shown}; there is nothing to give up")
    if any(Taking(as_new).is_whole(target, store_id) for as_new in (False, True)):
        raise UsageError(f"the copy at {target.shown} is whole: say the command without --give-up, and use that store")
    target.discard()
    source.thaw()


def refuse_held(source: Source, target: Target, held: list[Held]) -> None:
    target.discard()
    run_id, owner = held[0]
    others = f", and {len(held) - 1} more" if held[1:] else ""
    raise LockAcquireFailed(
        f"{source.shown}: run {run_id} is being worked on by {process_of(owner)}{others}; wait until it has ended, or "
        "stop it; nothing was copied"
    )


# -- rows --------------------------------------------------------------------------------------------------------------


def copied(source: Source, target: Target, table: Table, taking: Taking) -> Generator[int, None, None]:
    """Batch by batch: how many rows are there now that were not counted before."""
    after = target.last(table)
    if after is not None:
        yield target.count(table)
    with closing(taking.rows(source, table, after)) as rows:
        for batch in batches(rows):
            target.write(table, batch)
            yield len(batch)


def batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(cell) for cell in row if isinstance(cell, bytes | str))
        if len(batch) >= ROWS or size >= BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def compare(source: Side, target: Side, progress: Progress, total: int, taking: Taking) -> None:
    """DamagedRecord where a row of the copy is not what it was copied from."""
    done = 0
    for table in taking.tables:
        with closing(taking.rows(source, table)) as rows, closing(taking.rows(target, table)) as copies:
            for number, (row, copy) in enumerate(zip_longest(rows, copies), start=1):
                if row != copy:
                    raise DamagedRecord(
                        f"row {number} of {table.name} in the copy at {target.shown} is not the one that was copied: "
                        "say the command again with --give-up, and then without"
                    )
                done += 1
                if number % ROWS == 0:
                    progress("comparing", done, total)


# -- verdicts ----------------------------------------------------------------------------------------------------------


def verified(side: Side, progress: Progress, what: str) -> dict[str, Verdicts]:
    """What `verify` says of each run, by id."""
    found = {}
    with side.evidence() as evidence:
        numbers = evidence.run_numbers()
        for done, number in enumerate(numbers):
            progress(what, done, len(numbers))
            run_id = said_id(evidence.run(number))
            if run_id is None:
                raise DamagedRecord(f"{side.shown}: the first commit of run number {number} cannot be read")
            found[run_id] = verdict(verify_evidence(evidence, run_id))
    return found


def verdict(result: RunVerification) -> Verdicts:
    """What two verifications of one run have in common, whatever engine they read it from."""
    report = result.report
    return (result.exit_code, report.integrity, report.completeness, report.authenticity, report.anchoring)


def refuse_broken(source: Source, target: Target, verdicts: dict[str, Verdicts]) -> None:
    """What is damaged stays where it is."""
    broken = [run_id for run_id, each in verdicts.items() if each[0] == 1]
    if not broken:
        return
    target.discard()
    source.thaw()
    raise DamagedRecord(
        f"{source.shown}: run {broken[0]} does not verify{f', nor do {len(broken) - 1} others' if broken[1:] else ''}; "
        f"see `reenact verify {broken[0]}`; nothing was copied"
    )
