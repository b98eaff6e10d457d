"""Writing a data set: three files of examples, split by session, and a card that says what is in them.

The same runs and the same seed give the same bytes. A session is in one part alone, whoever else is exported with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from reenact.contracts.records import ENDED
from reenact.errors import EvidenceError, StoreUnavailable, UsageError
from reenact.record.export import check_target, sync_tree
from reenact.record.recording import verify_recording
from reenact.record.training.card import card
from reenact.record.training.examples import Skipped, examples_of
from reenact.store.base import RunRow, Store
from reenact.store.private_file import draft_folder, new_private, sync_folder
from reenact.values.canonical import canonicalize

PARTS: Final = ("train", "validation", "test")
SPLIT: Final = (80, 10, 10)
CARD: Final = "CARD.md"


@dataclass
class Part:
    """One file of examples, and what it holds."""

    name: str
    sessions: set[str] = field(default_factory=set)
    runs: int = 0
    examples: int = 0
    good: int = 0
    repeated: int = 0
    hidden: int = 0
    digest: str = ""


@dataclass
class DataSet:
    """What was written. `left_out` counts runs and calls by the reason; `broken` are runs that do not verify."""

    folder: Path
    seed: int
    split: tuple[int, int, int]
    parts: dict[str, Part]
    tools: Counter[str] = field(default_factory=Counter)
    runs_left_out: Counter[str] = field(default_factory=Counter)
    calls_left_out: Counter[str] = field(default_factory=Counter)
    broken: dict[str, str] = field(default_factory=dict)
    first: str | None = None
    last: str | None = None
    seals: list[tuple[str, str]] = field(default_factory=list)
    """Of each run that is in it, its id and the digest of its seal."""

    @property
    def examples(self) -> int:
        return sum(part.examples for part in self.parts.values())


def write_dataset(
    store: Store,
    runs: Sequence[str] | None,
    folder: Path,
    *,
    seed: int = 0,
    split: tuple[int, int, int] = SPLIT,
    progress: Callable[[int, int], None] | None = None,
) -> DataSet:
    """The calls of these runs, or of all live sealed runs of the store, in a new or empty folder.

    A run that is named must be sealed and verify. Of all, those that do not are left out, and told.
    """
    check_target(folder)
    if len(split) != 3 or sum(split) != 100 or min(split) < 0:
        raise UsageError(f"a split is three numbers that come to 100, not {','.join(map(str, split))}")
    found = DataSet(folder, seed, split, {name: Part(name) for name in PARTS})
    rows = named_rows(store, runs) if runs is not None else all_rows(store, found)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(folder.parent) as draft:
            fill(store, rows, draft, found, keep_broken=runs is None, progress=progress)
            sync_tree(draft)
            draft.replace(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise StoreUnavailable(f"{folder}: cannot be written: {error.strerror}") from None
    return found


def named_rows(store: Store, runs: Iterable[str]) -> list[RunRow]:
    rows = {row.run_id: row for row in map(store.find_run, runs)}
    for row in rows.values():
        if row.kind == "trace":
            raise UsageError(f"run {row.run_id} is a trace of another runtime: it has no steps to learn from")
    return [rows[run_id] for run_id in sorted(rows)]


def all_rows(store: Store, found: DataSet) -> list[RunRow]:
    """Those that ended, live, in the order of their ids, which is that of their beginnings."""
    rows = []
    for row in store.runs():
        why = why_not(row)
        if why is None:
            rows.append(row)
        else:
            found.runs_left_out[why] += 1
    return sorted(rows, key=lambda row: row.run_id)


def why_not(row: RunRow) -> str | None:
    if row.damage is not None:
        return "damaged"
    if row.status not in ENDED:
        return "not ended"
    if row.kind == "trace":
        return "a trace of another runtime"
    return None if row.mode == "live" else f"made again: {row.mode}"


def fill(
    store: Store,
    rows: list[RunRow],
    draft: Path,
    found: DataSet,
    *,
    keep_broken: bool,
    progress: Callable[[int, int], None] | None,
) -> None:
    with ExitStack() as files:
        opened = {name: files.enter_context(new_private(draft / f"{name}.jsonl")) for name in PARTS}
        for number, row in enumerate(rows, start=1):
            try:
                verify_recording(store, row)
            except EvidenceError as error:
                if not keep_broken:
                    raise
                found.broken[row.run_id] = str(error)
                found.runs_left_out["it does not verify"] += 1
            else:
                add_run(store, row, opened, found)
            if progress is not None:
                progress(number, len(rows))
    for name, part in found.parts.items():
        part.digest = file_digest(draft / f"{name}.jsonl")
    with new_private(draft / CARD) as file:
        file.write("\n".join(card(found)).encode())


def add_run(store: Store, row: RunRow, files: dict[str, BinaryIO], found: DataSet) -> None:
    session = session_of(store, row)
    part = found.parts[part_of(session, found.seed, found.split)]
    part.sessions.add(session)
    part.runs += 1
    for made in examples_of(store, row):
        if isinstance(made, Skipped):
            found.calls_left_out[made.why] += 1
            continue
        files[part.name].write(made.line)
        part.examples += 1
        part.good += made.good
        part.repeated += made.repeated
        part.hidden += made.hidden
        found.tools[made.tool] += 1
        found.first = min(found.first or made.at, made.at)
        found.last = max(found.last or made.at, made.at)
    found.seals.append((row.run_id, seal_of(store, row)))


def seal_of(store: Store, row: RunRow) -> str:
    last = store.body(row.run_id, row.commits)
    line = msgspec.json.decode((last or b"{}").splitlines()[-1])
    return str(line["seal"]["seal_digest"])


def session_of(store: Store, row: RunRow) -> str:
    """What belongs together: runs of one session, and what continues, forks or replays a run."""
    while row.session is None and row.parent_run is not None:
        try:
            row = store.find_run(row.parent_run)
        except UsageError:  # it came alone
            return str(row.parent_run)
    if row.session is None:
        return row.run_id
    return canonicalize([row.agent_id, row.session]).decode()


def part_of(session: str, seed: int, split: tuple[int, int, int]) -> str:
    """By the digest of seed and session: it stays where it is, whatever else is exported."""
    drawn = int.from_bytes(sha256(canonicalize(["reenact.split.v1", seed, session])).digest()[:8], "big") % 100
    return PARTS[0] if drawn < split[0] else PARTS[1] if drawn < split[0] + split[1] else PARTS[2]


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        whole = sha256()
        while block := file.read(1 << 20):
            whole.update(block)
    return f"sha256:{whole.hexdigest()}"
