"""A run as a folder that a stranger can check: docs/spec/bundle.md."""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from reenact.contracts.whole_plan import whole_plan
from reenact.errors import DamagedRecord, StoreUnavailable, UsageError
from reenact.record.packing import PackedFiles
from reenact.store.checks.anchoring import RunLog
from reenact.store.copying.views import evidence_of
from reenact.store.envelopes import StoredEnvelopes
from reenact.store.evidence import Evidence, RunEvidence, find_run
from reenact.store.naming import named_by, part, read_lines
from reenact.store.open import open_evidence
from reenact.store.private_file import draft_folder, new_private, sync_folder
from reenact.values.canonical import canonicalize, parse_canonical
from reenact.values.digest import digest
from reenact.verify.folder import MAX_FILE_BYTES
from reenact.verify.log.anchoring import FILE, STAMP_FILE
from reenact.verify.signed.authenticity import seal_note
from reenact.verify.signed.notes import ERASURES, REPLACEMENT, ROTATION, SIGNING, NoteRow
from reenact.verify.views import RECEIPT, REPLAY, Views
from reenact.version import __version__

KEY_NOTES = (SIGNING, ROTATION, REPLACEMENT)
PayloadMode = Literal["full", "none"]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written. `lost` payloads are named by the journal and not in the store, with no record of erasure."""

    run_id: str
    folder: Path
    sealed: bool
    commits: int
    payloads: int
    erased: int
    lost: int
    parents: tuple[str, ...] = ()
    """Runs that this one continues, and that came along, the nearest first."""


def export_run(url: str | None, run: str, folder: Path, *, payloads: PayloadMode = "full") -> Exported:
    """Write the bundle of the run whose id begins with `run` in the store at `url`.

    The folder must be new or empty; it appears complete or not at all.
    """
    check_target(folder)
    with open_evidence(url) as evidence:
        return export_evidence(evidence, run, folder, payloads=payloads)


def export_evidence(
    evidence: Evidence, run: str, folder: Path, *, payloads: PayloadMode = "full", with_parents: bool = True
) -> Exported:
    """The same, from a store that is open for it."""
    check_target(folder)
    found, run_id = find_run(evidence, run)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(folder.parent) as draft:
            exported = _Bundle(evidence, found, run_id, draft, payloads).write(folder, with_parents=with_parents)
            sync_tree(draft)
            draft.replace(folder)  # its owner's alone, as mkdtemp makes folders: it holds what tools said
        sync_folder(folder.parent)
    except OSError as error:
        raise StoreUnavailable(f"{folder}: cannot be written: {error.strerror}") from None
    return exported


def sync_tree(folder: Path) -> None:
    """Files before the folders that name them."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync_folder(Path(place, name))
        sync_folder(Path(place))


def check_target(folder: Path) -> None:
    """New, or an empty folder: nothing is ever overwritten."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is not a folder; name a new or empty one with --to")
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty; nothing is overwritten: name a new or empty folder with --to")
    except OSError as error:
        raise StoreUnavailable(f"{folder}: {error.strerror}") from None


class _Bundle:
    """One bundle being written."""

    def __init__(self, evidence: Evidence, run: RunEvidence, run_id: str, folder: Path, mode: PayloadMode) -> None:
        self.whole = evidence
        self.evidence = evidence_of(evidence, run.number)
        self.run = run
        self.run_id = run_id
        self.folder = folder
        self.mode = mode
        self.envelopes = StoredEnvelopes(run)
        self.files: dict[str, str] = {}
        self.named: dict[str, None] = {}
        self.signed: list[str] = []
        """Digests of the erasure records that come along."""
        self.plan: str | None = None
        self.is_session = False
        self.seal: Mapping[str, Any] | None = None
        self.votes: list[str] = []
        self.checkpoints: list[str] = []
        self.continues: str | None = None
        """The run that a session goes on from: what it carried over is read there."""
        self.commits = 0

    def write(self, target: Path, *, with_parents: bool = True) -> Exported:
        self.write_journal()
        taken = self.write_erasures()
        missing = [commitment for commitment in self.named if commitment not in self.envelopes.places]
        if self.mode == "full":
            self.write_payloads()
            self.write_views({commitment for commitment, kind in taken.items() if kind == "archived"})
        if self.seal is not None:
            self.put("seal.json", canonicalize(self.seal) + b"\n")
            self.write_proof()
        self.put("keys.json", canonicalize(self.evidence.keys()) + b"\n")
        self.write_notes()
        parents = tuple(self.write_parents()) if with_parents else ()
        manifest: dict[str, object] = {
            "schema": "reenact.bundle.v2",
            "run_id": self.run_id,
            "reenact_version": __version__,
            "payloads": self.mode,
            "files": self.files,
        }
        manifest["digest"] = digest(manifest)
        with new_private(self.folder / "manifest.json") as file:
            file.write(canonicalize(manifest) + b"\n")
        return Exported(
            run_id=self.run_id,
            folder=target,
            sealed=self.seal is not None,
            commits=self.commits,
            payloads=len(self.named) - len(missing) if self.mode == "full" else 0,
            erased=sum(commitment in taken for commitment in missing),
            lost=sum(commitment not in taken for commitment in missing),
            parents=parents,
        )

    def write_parents(self) -> Iterator[str]:
        """Beside it, each as a bundle of its own: the runs that it continues, and those that they do."""
        wanted = self.continues
        while wanted is not None:
            found, run_id = find_run(self.whole, wanted)
            folder = self.folder / "parents" / run_id
            folder.mkdir(parents=True, mode=0o700)
            parent = _Bundle(self.whole, found, run_id, folder, self.mode)
            parent.write(folder, with_parents=False)
            name = f"parents/{run_id}/manifest.json"
            self.files[name] = sha256((self.folder / name).read_bytes()).hexdigest()
            yield run_id
            wanted = parent.continues

    def put(self, name: str, data: bytes) -> None:
        with new_private(self.folder / name) as file:
            file.write(data)
        self.files[name] = sha256(data).hexdigest()

    def write_journal(self) -> None:
        whole = sha256()
        with new_private(self.folder / "journal.jsonl") as file:
            for row in self.run.commits():
                if row.body is None:
                    raise DamagedRecord(
                        f"run {self.run_id}, commit {row.n}: {row.problem}; see `reenact verify {self.run_id}`"
                    )
                file.write(row.body)
                whole.update(row.body)
                self.commits += 1
                self.note_lines(row.body)
        self.files["journal.jsonl"] = whole.hexdigest()

    def note_lines(self, body: bytes) -> None:
        for line in read_lines(body):
            for commitment, place in named_by(line):
                self.named[commitment] = None
                if place == "plan":
                    self.plan = commitment
            if line.get("kind") == "seal":
                self.seal = part(line, "seal")
            elif line.get("kind") == "run":
                run = part(line, "run")
                parent = run.get("parent_run")
                is_on = run.get("kind") == "session" and run.get("mode") == "live" and isinstance(parent, str)
                self.continues = str(parent) if is_on else None
            elif line.get("kind") == "vote":
                self.votes.append(str(part(line, "vote").get("digest")))
            elif line.get("kind") == "run_checkpoint":
                self.checkpoints.append(str(part(line, "run_checkpoint").get("digest")))
            event = part(line, "event")
            if event.get("type") == "finish" and isinstance(event.get("data"), str):
                self.plan, self.is_session = str(event["data"]), True  # a session's plan is assembled at its end

    def write_payloads(self) -> None:
        """In the order of their commitments, packed."""
        with PackedFiles(self.folder) as packed:
            for commitment in sorted(self.named):
                envelope = self.envelopes.get(commitment)
                if envelope is not None:
                    packed.add(commitment, envelope)
        self.files |= packed.digests
        plan = None if self.plan is None else self.envelopes.get(self.plan)
        if plan is not None:
            self.put("plan.json", self.plan_file(plan[32:]) + b"\n")

    def write_views(self, archived: set[str]) -> None:
        """REPLAY.jsonl and RECEIPT.json. A journal that is damaged has none: what it says is not known."""
        bodies = (row.body or b"" for row in self.run.commits())
        lines = (line for body in bodies for line in body.splitlines(keepends=True))
        views = Views(lines, self.envelopes, archived)
        try:
            self.put_pieces(REPLAY, views.replay())
            self.put_pieces(RECEIPT, views.receipt())
        except (LookupError, TypeError, ValueError, AttributeError):
            self.files.pop(REPLAY, None)
        for name in (REPLAY, RECEIPT):
            if name not in self.files or not (self.folder / name).stat().st_size:
                self.files.pop(name, None)
                (self.folder / name).unlink(missing_ok=True)

    def put_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        whole = sha256()
        with new_private(self.folder / name) as file:
            for piece in pieces:
                file.write(piece)
                whole.update(piece)
        self.files[name] = whole.hexdigest()

    def plan_file(self, content: bytes) -> bytes:
        """A session's plan whole, so that it can be run; as it is recorded where that is more than a file may hold."""
        document, room = parse_canonical(content) if self.is_session else None, MAX_FILE_BYTES
        if not isinstance(document, dict):
            return content

        def value_of(_: str, commitment: str) -> object:
            nonlocal room
            envelope = self.envelopes.get(commitment) if room > 0 else None
            room -= len(envelope or b"")
            return None if envelope is None else parse_canonical(envelope[32:])

        whole = canonicalize(whole_plan(document, value_of)) if document.get("steps") else content
        return whole if room > 0 and len(whole) < MAX_FILE_BYTES else content

    def write_notes(self) -> None:
        """Who signs for the store, and what was signed about this run: seal, checkpoints, votes, erasures."""
        source = self.evidence.notes()
        seal_digest = "" if self.seal is None else str(self.seal.get("seal_digest"))
        rows = [
            row
            for row in source.with_records()
            if row.schema in KEY_NOTES or (row.schema == ERASURES and seals(row.record, seal_digest))
        ]
        for signed in (seal_digest, *self.checkpoints, *self.votes, *self.signed):
            rows += [row for row in source.about(signed) if row.record is None]
        if rows:
            self.put("notes.jsonl", b"".join(canonicalize(note_line(row)) + b"\n" for row in rows))
        note = seal_note(source, seal_digest, self.evidence.keys())
        if note is not None:
            self.put("seal.note", note)

    def write_proof(self) -> None:
        """That the seal is in the store's log, as far as the log has come; what cannot be read `verify` tells."""
        with suppress(DamagedRecord):
            log = RunLog(self.evidence, self.run.number)
            proof, stamps = log.proof(), log.stamps()
            if proof is not None:
                self.put(FILE, proof)
                for stamp in stamps[:1]:
                    self.put(STAMP_FILE, stamp)

    def write_erasures(self) -> dict[str, str]:
        """The records for commitments of this run, in the order of the store's chain.

        Gives what became of each of these: erased or archived, by its last record.
        """
        records, taken = [], {}
        for row in self.evidence.erasures():
            record = next(read_lines(row.body), {})
            commitment = record.get("commitment")
            if commitment in self.named:
                self.signed.append(str(record.get("digest")))
                records.append(row.body.removesuffix(b"\n") + b"\n")
                taken[str(commitment)] = str(record.get("type", "erased"))
        if records:
            self.put("erasures.jsonl", b"".join(records))
        return taken


def seals(record: object, seal_digest: str) -> bool:
    said = next(read_lines(record), {}) if isinstance(record, bytes) else {}
    return said.get("seal_digest") == seal_digest


def note_line(row: NoteRow) -> dict[str, object]:
    """A note as it stands in `notes.jsonl`: its record is a value there."""
    if not isinstance(row.signature, bytes) or not isinstance(row.record, bytes | None):
        raise DamagedRecord(f"a note cannot be read ({row.where.row}); see `reenact verify`")
    signature = urlsafe_b64encode(row.signature).rstrip(b"=").decode()
    line = {"schema": row.schema, "store_id": row.store_id, "digest": row.digest, "kid": row.kid}
    record = None if row.record is None else parse_canonical(row.record)
    return {**line, "signature": signature, "record": record}
