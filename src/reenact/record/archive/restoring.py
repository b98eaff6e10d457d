"""Brings archived values back from their bundle, each held against its commitment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from reenact.errors import EvidenceError, UsageError
from reenact.record.archive.moving import AT_ONCE
from reenact.record.bundle import envelopes, is_bundle
from reenact.record.recording import refuse_broken
from reenact.store.base import Store
from reenact.verify.files.zipped import files_at
from reenact.verify.payloads import PayloadSource
from reenact.verify.verifier import verify_files


@dataclass(frozen=True, slots=True)
class Restored:
    run_id: str
    place: Path
    values: int
    erased: int
    """That the bundle holds and that were erased since: they stay away."""


def restore(
    store: Store, target: str, *, at_once: int = AT_ONCE, progress: Callable[[int], object] = lambda _: None
) -> Restored:
    """`target` is a run whose bundles are where they were put, or a bundle."""
    places = [Path(target)] if is_bundle(target) else places_of(store, target)
    found = [restore_from(store, place, at_once, progress) for place in places]
    first = found[0]
    return Restored(first.run_id, first.place, sum(r.values for r in found), sum(r.erased for r in found))


def places_of(store: Store, run: str) -> list[Path]:
    run_id = store.find_run(run).run_id
    archives = store.archives(run_id)
    if not archives:
        raise UsageError(f"nothing of run {run_id} is archived")
    places = [Path(each.place) for each in archives if each.values]
    if not places:
        raise UsageError(f"nothing of run {run_id} is in an archive any more: its values are here, or were erased")
    for place in places:
        if not place.exists():
            raise EvidenceError(f"{place}: the archive of run {run_id} is not there; name it: archive --restore BUNDLE")
    return places


def restore_from(store: Store, place: Path, at_once: int, progress: Callable[[int], object]) -> Restored:
    with closing(files_at(place)) as files:
        report = verify_files(files)
        refuse_broken(report, str(place), wish="restored")
        run_id = store.find_run(str(report.run_id)).run_id
        wanted = store.archived_values(run_id)
        with closing(envelopes(files)) as payloads:
            erased = erased_since(store, run_id, payloads)
            if erased and not wanted:
                raise EvidenceError(
                    f"the {erased} values in {place} were erased since they were archived: they stay so"
                )
            count = 0
            for at in range(0, len(wanted), at_once):
                count += store.restore(run_id, found(payloads, wanted[at : at + at_once]))
                progress(count)
    return Restored(run_id, place, count, erased)


def found(payloads: PayloadSource, wanted: list[str]) -> Iterator[tuple[str, bytes]]:
    for commitment in wanted:
        envelope = payloads.get(commitment)
        if envelope is not None:
            yield commitment, envelope


def erased_since(store: Store, run_id: str, payloads: PayloadSource) -> int:
    """How many values of the bundle are erased on record."""
    gone: set[str] = set()
    for raw in store.erasures():
        record = msgspec.json.decode(raw)
        if record["run_id"] == run_id:
            (gone.discard if record.get("type") == "archived" else gone.add)(record["commitment"])
    return sum(payloads.get(commitment) is not None for commitment in gone)


def would_restore(store: Store, target: str) -> Restored:
    """What `restore` would do, with nothing done."""
    place = Path(target) if is_bundle(target) else places_of(store, target)[0]
    with closing(files_at(place)) as files:
        report = verify_files(files)
        refuse_broken(report, str(place), wish="restored")
        run_id = store.find_run(str(report.run_id)).run_id
        with closing(envelopes(files)) as payloads:
            here = sum(1 for _ in found(payloads, store.archived_values(run_id)))
            return Restored(run_id, place, here, erased_since(store, run_id, payloads))
