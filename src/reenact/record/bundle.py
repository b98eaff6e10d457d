"""Reading a bundle (an exported folder): verified, then read as if it lay in a store. `export` writes one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from reenact.contracts.records import RunRecord
from reenact.errors import EvidenceError, UnsealedRecording, UsageError
from reenact.journal.lines import decode_line, split_body
from reenact.journal.run_fold import RunFold
from reenact.record.recording import Recording, read_recording, refuse_broken
from reenact.store.base import NewPayload, NewRun, NewTrace, Store, Unit
from reenact.store.naming import named_by, read_lines
from reenact.store.open import in_memory
from reenact.verify.report import Report
from reenact.verify.verifier import verify_bundle

OWNER = "bundle"


def is_folder(text: str) -> bool:
    """A folder that is there, or a path by its look (`./x`, `/x`, `~/x`, `x/`): a session's id may have a slash."""
    return Path(text).is_dir() or text.startswith((".", "/", "~")) or text.endswith(("/", "\\"))


def load_bundle(folder: Path) -> Recording:
    """The run in an exported folder. Refused like a damaged run of a store; needs values, so no bare journal."""
    store, report = read_bundle(folder)
    if report.completeness != "holds":
        raise UnsealedRecording(f"{folder}: the run has no seal: its end is not known, so nothing is replayed")
    if report.counts.withheld:
        raise EvidenceError(f"{folder}: its values were left out of the export; export it with --payloads full")
    return replace(read_recording(store, str(report.run_id)), folder=str(folder))


def read_bundle(folder: Path, *, wish: str = "replayed") -> tuple[Store, Report]:
    """The run in an exported folder as it would lie in a store, with what verifying it said. Refused when broken."""
    report = verify_bundle(folder)
    refuse_broken(report, str(folder), wish=wish)
    store = in_memory()
    assert report.run_id is not None
    for parent in reversed(parents(folder, report.run_id)):
        fill(store, parent.name, parent)
    fill(store, report.run_id, folder)
    return store, report


def parents(folder: Path, run_id: str) -> list[Path]:
    """Of a verified bundle: the folders in it of the runs that this one continues, the nearest first."""
    inner, found, at = folder / "parents", [], folder
    while inner.is_dir():
        record = first_record(at, run_id)
        at = inner / str(record.parent_run)
        if record.parent_run is None or not at.is_dir():
            break
        run_id = record.parent_run
        found.append(at)
    return found


def first_record(folder: Path, run_id: str) -> RunRecord:
    head = RunFold(run_id)
    head.apply_body(next(commit_bodies(folder)))
    assert head.record is not None, "the verifier saw it"
    return head.record


def fill(store: Store, run_id: str, folder: Path) -> None:
    """Put the commits and envelopes of a verified folder into an empty store, as they are."""
    lease = None
    seen: set[str] = set()
    for n, body in enumerate(commit_bodies(folder), start=1):
        lines = [decode_line(raw, where=f"{folder}, commit {n}") for raw in split_body(body, where=str(folder))]
        record = next((line.run for line in lines if line.run is not None), None)
        seal = next((line.seal for line in lines if line.seal is not None), None)
        unit = Unit(
            run_id=run_id,
            n=n,
            body=body,
            seal=seal,
            payloads=list(new_payloads(folder, body, seen)),
            traces=[
                NewTrace(line.entry.trace_id, *place(body, line.entry.trace_id))
                for line in lines
                if line.entry is not None and line.entry.sequence_number == 1
            ],
            new_run=None if record is None else new_run(record),
            status=None if seal is None else seal.status,
        )
        lease = store.append(unit, lease, owner=OWNER).lease


def commit_bodies(folder: Path) -> Iterator[bytes]:
    """The journal cut at its commit lines."""
    body: list[bytes] = []
    with (folder / "journal.jsonl").open("rb") as journal:
        for line in journal:
            if line.startswith(b'{"kind":"commit"') and body:
                yield b"".join(body)
                body = []
            body.append(line)
    if body:
        yield b"".join(body)


def new_payloads(folder: Path, body: bytes, seen: set[str]) -> Iterator[NewPayload]:
    for line in read_lines(body):
        for name in named_by(line):
            file = folder / "payloads" / name.commitment
            if name.commitment not in seen and file.is_file():  # one that was erased is not there
                seen.add(name.commitment)
                yield NewPayload(name.commitment, b"", file.read_bytes())


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
