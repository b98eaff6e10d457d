"""Reading a bundle (an exported folder or its zip): verified, then read as if it lay in a store. `export` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import msgspec

from reenact.contracts.records import RunRecord
from reenact.errors import EvidenceError, UnsealedRecording, UsageError
from reenact.journal.lines import decode_line, split_body
from reenact.journal.run_fold import RunFold
from reenact.record.reader import Gone
from reenact.record.recording import Recording, read_recording, refuse_broken
from reenact.store.base import NewPayload, NewRun, NewTrace, Store, Unit
from reenact.store.naming import named_by, read_lines
from reenact.store.open import in_memory
from reenact.values.envelope import Archived
from reenact.verify.files.listing import Files, Payloads, payloads_in
from reenact.verify.files.zipped import files_at
from reenact.verify.folder import FolderPayloads
from reenact.verify.payloads import PayloadSource
from reenact.verify.report import Findings, Problem, Report
from reenact.verify.shapes import Manifest
from reenact.verify.verifier import verify_files

OWNER = "bundle"


def is_bundle(text: str) -> bool:
    """A folder or file that is there, or a path by its look (`./x`, `/x`, `~/x`, `x/`, `x.zip`).

    A session's id may have a slash.
    """
    there = Path(text)
    by_look = text.startswith((".", "/", "~")) or text.endswith(("/", "\\", ".zip"))
    return by_look or there.is_dir() or (there.suffix != "" and there.is_file())


def load_bundle(folder: Path) -> Recording:
    """The run in an exported folder. Refused like a damaged run of a store; needs values, so no bare journal."""
    store, report = read_bundle(folder)
    if report.completeness != "holds":
        raise UnsealedRecording(f"{folder}: the run has no seal: its end is not known, so nothing is replayed")
    if report.counts.withheld:
        raise EvidenceError(f"{folder}: its values were left out of the export; export it with --payloads full")
    with closing(files_at(folder)) as files:
        gone = where_values_are(files)
    return replace(read_recording(store, str(report.run_id), gone), folder=str(folder))


def where_values_are(files: Files) -> dict[str, Gone]:
    """By commitment, what the records of a verified bundle say of values that it does not hold; the last one counts."""
    raw = files.read("erasures.jsonl")
    found = {}
    for line in raw.splitlines() if isinstance(raw, bytes) else ():
        record = msgspec.json.decode(line)
        bundle = record.get("bundle")
        found[record["commitment"]] = (
            Gone(Archived, f"is archived in the bundle {bundle}, and not here: ask whoever sent this for that one")
            if record.get("type") == "archived"
            else Gone(LookupError, "was erased; it cannot be run again")
        )
    return found


def read_bundle(folder: Path, *, wish: str = "replayed") -> tuple[Store, Report]:
    """The run in an exported folder as it would lie in a store, with what verifying it said. Refused when broken."""
    with closing(files_at(folder)) as files:
        report = verify_files(files)
        refuse_broken(report, str(folder), wish=wish)
        store = in_memory()
        assert report.run_id is not None
        with ExitStack() as stack:
            for run_id, parent in reversed(parents(files, report.run_id, stack)):
                fill(store, run_id, parent, str(folder))
        fill(store, report.run_id, files, str(folder))
    return store, report


def parents(files: Files, run_id: str, stack: ExitStack) -> list[tuple[str, Files]]:
    """Of a verified bundle: what is in it of the runs that this one continues, the nearest first."""
    found: list[tuple[str, Files]] = []
    at: Files | None = files
    while at is not None:
        record = first_record(at, run_id)
        at = None if record.parent_run is None else files.parent(record.parent_run)
        if at is not None and record.parent_run is not None:
            stack.enter_context(closing(at))
            run_id = record.parent_run
            found.append((run_id, at))
    return found


def first_record(files: Files, run_id: str) -> RunRecord:
    head = RunFold(run_id)
    head.apply_body(next(commit_bodies(files)))
    assert head.record is not None, "the verifier saw it"
    return head.record


def fill(store: Store, run_id: str, files: Files, where: str) -> None:
    """Put the commits and envelopes of a verified bundle into an empty store, as they are."""
    lease = None
    seen: set[str] = set()
    with closing(envelopes(files)) as payloads:
        for n, body in enumerate(commit_bodies(files), start=1):
            unit = unit_of(run_id, n, body, where)
            unit.payloads.extend(new_payloads(payloads, body, seen))
            lease = store.append(unit, lease, owner=OWNER).lease


def unit_of(run_id: str, n: int, body: bytes, where: str) -> Unit:
    lines = [decode_line(raw, where=f"{where}, commit {n}") for raw in split_body(body, where=where)]
    record = next((line.run for line in lines if line.run is not None), None)
    seal = next((line.seal for line in lines if line.seal is not None), None)
    return Unit(
        run_id=run_id,
        n=n,
        body=body,
        seal=seal,
        payloads=[],
        traces=[
            NewTrace(line.entry.trace_id, *place(body, line.entry.trace_id))
            for line in lines
            if line.entry is not None and line.entry.sequence_number == 1
        ],
        new_run=None if record is None else new_run(record),
        status=None if seal is None else seal.status,
    )


def commit_bodies(files: Files) -> Iterator[bytes]:
    """The journal cut at its commit lines."""
    body: list[bytes] = []
    journal = files.open("journal.jsonl")
    assert not isinstance(journal, Problem | None), "the verifier read it"
    with journal:
        for line in journal:
            if line.startswith(b'{"kind":"commit"') and body:
                yield b"".join(body)
                body = []
            body.append(line)
    if body:
        yield b"".join(body)


def envelopes(files: Files) -> Payloads:
    """The payloads of a verified bundle."""
    raw = files.read("manifest.json")
    assert isinstance(raw, bytes), "the verifier read it"
    manifest = msgspec.json.decode(raw, type=Manifest)
    return payloads_in(files, manifest, Findings()) or FolderPayloads(files, Findings())


def new_payloads(payloads: PayloadSource, body: bytes, seen: set[str]) -> Iterator[NewPayload]:
    for line in read_lines(body):
        for name in named_by(line):
            envelope = None if name.commitment in seen else payloads.get(name.commitment)
            if envelope is not None:  # one that was erased is not there
                seen.add(name.commitment)
                yield NewPayload(name.commitment, b"", envelope)


def place(body: bytes, trace_id: str) -> tuple[int, str]:
    """(step index, step id) of a trace that begins in this commit."""
    for line in read_lines(body):
        artifact = line.get("artifact")
        meta = artifact.get("meta") if isinstance(artifact, dict) and artifact.get("trace_id") == trace_id else None
        if isinstance(meta, dict) and "step_index" in meta:
            return int(meta["step_index"]), str(meta["step_id"])
    raise UsageError(f"trace {trace_id} begins without a request")


def new_run(record: RunRecord) -> NewRun:
    return NewRun(
        kind=record.kind, mode=record.mode, parent_run=record.parent_run, plan_id=record.plan_id,
        agent_id=record.agent_id, started_at=record.started_at, dedupe_key=bytes(32),
    )  # fmt: skip
