"""Moves the values of a sealed run to a bundle: written, verified and synced before anything is taken out of the store.

Killed at any point, it can be run again: a bundle appears whole or not at all, one that is there and holds the run is
used, and each part of the values goes in one transaction with its records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from reenact.contracts.records import UNFINISHED
from reenact.errors import EvidenceError, ReenactError, UsageError
from reenact.journal.lines import decode_line, split_body
from reenact.record.export import export_evidence, sync_tree
from reenact.store.base import Archiving, RunRow, Store
from reenact.store.erasures import for_good
from reenact.store.private_file import sync_folder
from reenact.values.clock import parse_ts
from reenact.verify.files.listing import payloads_in
from reenact.verify.files.zipped import files_at
from reenact.verify.report import Findings
from reenact.verify.shapes import Manifest
from reenact.verify.verifier import verify_files

AT_ONCE: Final = 1000
"""Values that go in one transaction: whoever else writes waits no longer."""
_AGE: Final = re.compile(r"([0-9]{1,6})([mhdw])")
_UNIT_MS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sealed run whose values are here. `kept` says why they stay."""

    run_id: str
    sealed_at: str
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    run_id: str
    bundle: str
    place: Path
    values: int


def age_ms(text: str) -> int:
    """`90d`, `12h`, `4w`, `30m` in milliseconds."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise UsageError(f"--older-than {text}: say a number and m, h, d or w, as in 90d")
    return int(match[1]) * _UNIT_MS[match[2]]


def candidates(store: Store, *, before_ms: int) -> Iterator[Candidate]:
    """Sealed runs with values, whose seal is older; the oldest first."""
    needed = {row.parent_run for row in store.runs(status=UNFINISHED) if row.parent_run is not None}
    for run_id in store.sealed_with_values():
        row = readable(store, run_id)
        if row is None or parse_ts(row.started_at) >= before_ms:
            continue
        sealed_at = seal_time(store, row)
        if sealed_at is not None and parse_ts(sealed_at) < before_ms:
            kept = "a run that has not ended reads its values" if run_id in needed else None
            yield Candidate(run_id, sealed_at, kept)


def readable(store: Store, run_id: str) -> RunRow | None:
    try:
        return store.find_run(run_id)
    except ReenactError:
        return None  # `ls` tells of it


def seal_time(store: Store, row: RunRow) -> str | None:
    body = store.body(row.run_id, row.commits)
    try:
        lines = (
            [] if body is None else [decode_line(raw, where=row.run_id) for raw in split_body(body, where=row.run_id)]
        )
    except ReenactError:
        return None  # `verify` says what is wrong with it
    return next((line.seal.sealed_at for line in lines if line.seal is not None), None)


def move(
    store: Store, run_id: str, folder: Path, *, who: str, reason: str, at_once: int = AT_ONCE,
    progress: Callable[[int], object] = lambda _: None,
) -> Moved:  # fmt: skip
    """Move the values of one run to a bundle in `folder`; `progress` is told how many are gone."""
    said = for_good(who, reason)
    target = folder / run_id
    if not target.exists():
        with store.evidence() as evidence:
            export_evidence(evidence, run_id, target, with_parents=False)
    else:
        sync_tree(target)
        sync_folder(folder)
    digest, there = checked(target, run_id)
    here = [commitment for commitment, _ in store.payloads(run_id)]
    lost = [commitment for commitment in here if commitment not in there]
    if lost:
        raise EvidenceError(f"{target} does not hold {len(lost)} of the values of run {run_id}; name another --to")
    count = 0
    for at in range(0, len(here), at_once):
        part = frozenset(here[at : at + at_once])
        place = str(target.resolve())
        count += store.archive(
            Archiving(run_id=run_id, commitments=part, bundle=digest, place=place, who=who, reason=said)
        )
        progress(count)
    return Moved(run_id, digest, target, count)


def checked(target: Path, run_id: str) -> tuple[str, frozenset[str]]:
    """(digest of the manifest, commitments) of a bundle that is whole and of this run; refused otherwise."""
    with closing(files_at(target)) as files:
        report = verify_files(files)
        if report.exit_code != 0 or report.run_id != run_id:
            what = report.first_break.what if report.first_break is not None else f"it is of run {report.run_id}"
            raise EvidenceError(f"{target} is not a whole bundle of run {run_id} ({what}); nothing was moved")
        raw = files.read("manifest.json")
        assert isinstance(raw, bytes), "the verifier read it"
        manifest = msgspec.json.decode(raw, type=Manifest)
        payloads = payloads_in(files, manifest, Findings())
        if payloads is None or manifest.schema != "reenact.bundle.v2":
            raise EvidenceError(f"{target} holds no packed values; nothing was moved: name another --to")
        with closing(payloads):
            return manifest.digest, frozenset(payloads.commitments)  # type: ignore[union-attr]
