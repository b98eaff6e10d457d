"""A bundle that lies in memory, read by the verifier as a folder is; what the reader brings; what he is told."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tools.vectors.pieces import STORE_ID, tree_root

from reenact.verify import Report
from reenact.verify.folder import MAX_FILE_BYTES, PARENTS, PAYLOADS
from reenact.verify.log.anchoring import NOBODY, Believed
from reenact.verify.log.policy import write_policy
from reenact.verify.log.proof import read_proof
from reenact.verify.report import Findings, Problem
from reenact.verify.signed.notes import FolderNotes
from reenact.verify.signed.signed_note import write_note
from reenact.verify.verifier import verify_bundle, verify_files, verify_lines
from tests.tampering import evidence
from tests.tampering.kinds.kind import Kind
from tests.verify.changing import split_bodies, write_folder

Files = dict[str, bytes]
OF_STORES = ("head", "store")
"""Readers of what no bundle has."""


class Memory:
    """As `verify.folder.Folder`, over a dict."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def parent(self, run_id: str) -> Memory | None:
        begin = f"{PARENTS}/{run_id}/"
        inner = {name.removeprefix(begin): data for name, data in self._files.items() if name.startswith(begin)}
        return Memory(inner) if inner else None

    def close(self) -> None:
        """Nothing is open."""

    def open(self, name: str) -> BinaryIO | Problem | None:
        return io.BytesIO(self._files[name]) if name in self._files else None

    def read(self, name: str) -> bytes | Problem | None:
        return self._files.get(name)

    def feed(self, name: str, take: Callable[[bytes], object], limit: int) -> Literal[True] | Problem | None:
        if name not in self._files:
            return None
        if len(self._files[name]) > min(limit, MAX_FILE_BYTES):
            return Problem("FILE_TOO_LARGE", f"{name} has more than {limit} bytes")
        take(self._files[name])
        return True

    def beside(self) -> list[str]:
        return []

    def names(self) -> Iterator[tuple[str, bool]]:
        found = {}
        for name in sorted(self._files, key=lambda name: name.split("/")):
            if name.startswith(f"{PARENTS}/"):
                found[f"{'/'.join(name.split('/')[:2])}/manifest.json"] = True
            elif "/" in name and not name.startswith(f"{PAYLOADS}/"):
                found[name.split("/")[0]] = False
            else:
                found[name] = True
        yield from found.items()


def believed(reader: str, untouched: Files) -> Believed:
    """What the reader kept from the time before anything was changed."""
    if reader == "checkpoint":
        return Believed(kept=evidence.kept_of(untouched))
    if reader == "witness":
        return Believed(policy=evidence.witness_policy())
    if reader == "other log":
        return Believed(kept=(evidence.head_elsewhere(),))
    return NOBODY


def trusted_by(reader: str) -> Ed25519PrivateKey:
    return evidence.FIRST_KEY if reader == "first key" else evidence.STORE


class Store:
    """What a store gives the verifier of one of its runs: values, and a log of which all leaves are there."""

    def __init__(self, files: Files) -> None:
        self._files, self._proof = files, files.get(evidence.PROOF)
        size = 0 if self._proof is None else read_proof(self._proof).checkpoint.head.size
        self._leaves = evidence.leaves(evidence.seal_of(files), size) if size else []

    def get(self, commitment: str, /) -> bytes | None:
        return self._files.get(f"{PAYLOADS}/{commitment}")

    def rows(self) -> list[bytes]:
        """Its commits, where a kind says what stands in each row; else as the journal has them."""
        rows = [data for name, data in sorted(self._files.items()) if name.startswith("row ")]
        return rows or split_bodies(self._files["journal.jsonl"])

    def proof(self) -> bytes | None:
        return self._proof

    def stamps(self) -> list[bytes]:
        return []

    def path(self, size: int) -> tuple[int, list[bytes]] | None:
        whole = size <= len(self._leaves)
        return (evidence.PLACE, evidence.path_of(self._leaves[:size], evidence.PLACE)) if whole else None

    def root(self, size: int) -> bytes | None:
        return bytes.fromhex(tree_root(self._leaves[:size])) if size <= len(self._leaves) else None

    def contradictions(self) -> list[tuple[str, bytes]]:
        return [(name, data) for name, data in self._files.items() if name.startswith("held by ")]


def judge_store(kind: Kind, files: Files, untouched: Files) -> Report:
    """`head` remembers the last commit; `store` is the store itself, of whose log somebody kept a head."""
    store, head = Store(files), sha256(split_bodies(untouched["journal.jsonl"])[-1]).hexdigest()
    return verify_lines(
        store.rows(),
        store,
        erasures=files.get("erasures.jsonl", b"").splitlines(),
        whole_erasures=True,
        keys=msgspec.json.decode(files["keys.json"]),
        notes=FolderNotes(files.get("notes.jsonl", b"").splitlines(), Findings()),
        store_id=STORE_ID,
        expect_head=head if kind.reader == "head" else None,
        log=store,
        believed=Believed(kept=evidence.kept_of(untouched)) if evidence.PROOF in untouched else NOBODY,
    )


def judge(kind: Kind, files: Files) -> Report:
    """`alone` has the bundle, and nothing else."""
    untouched = evidence.whole(kind.of)
    if kind.reader in OF_STORES:
        return judge_store(kind, files, untouched)
    trusted = None if kind.reader == "alone" else evidence.public_keys(trusted_by(kind.reader))
    given = {"keys": trusted, "believed": believed(kind.reader, untouched)}
    if kind.in_folder:
        with TemporaryDirectory() as folder:
            return verify_bundle(write_folder(Path(folder), files), **given)  # type: ignore[arg-type]
    return verify_files(Memory(files), **given)  # type: ignore[arg-type]


def arguments(reader: str, untouched: Files, folder: Path) -> list[str]:
    """The same for a command, in files that are written to `folder`."""
    given: list[str] = []
    brought = believed(reader, untouched)
    files = {"--keys": b"" if reader == "alone" else msgspec.json.encode(evidence.public_keys(trusted_by(reader)))}
    files["--checkpoint"] = b"".join(write_note(*checkpoint.note) for checkpoint in brought.kept)
    files["--witness-policy"] = b"" if brought.policy is None else write_policy(brought.policy).encode()
    for option, data in files.items():
        if data:
            name = f"{option.strip('-')}-{sha256(data).hexdigest()[:8]}"
            (folder / name).write_bytes(data)
            given += [option, name]
    return given


def exit_code(report: Report, reader: str) -> int:
    """As the command's: whoever names keys asks for their signature, whoever names a witness for his word."""
    unsigned = reader not in ("alone", *OF_STORES) and report.authenticity != "holds"
    return 1 if unsigned else report.exit_code
