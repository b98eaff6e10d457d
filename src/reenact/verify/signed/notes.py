"""Notes: `<schema>\\n<store id>\\n<digest>\\n` and a signature over it, with the record or beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Meta

from reenact.values.canonical import canonicalize
from reenact.verify.capability import from_base64url
from reenact.verify.lines import Canonical, fit, read_canonical
from reenact.verify.report import Findings, Problem, Where
from reenact.verify.shapes import Count, Hex64, Kid, Shape, Time, Uuid7, Who

SIGNING, ROTATION, REPLACEMENT = "reenact.signing.v1", "reenact.key_rotation.v1", "reenact.key_replacement.v1"
ERASURE, REMOVAL, ERASURES = "reenact.erasure.v1", "reenact.erasure.v2", "reenact.erasures.v1"
SEAL, RUN_CHECKPOINT, VOTE = "reenact.seal.v1", "reenact.run_checkpoint.v1", "reenact.vote.v1"
LEASE_BROKEN = "reenact.lease_broken.v1"
PublicKey = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{43}\Z")]


class NoteRow(NamedTuple):
    """One note as it lies there; `where` says where."""

    where: Where
    schema: object
    store_id: object
    digest: object
    kid: object
    signature: object
    record: object = None
    """The signed record, where nothing else holds it."""


class NoteSource(Protocol):
    """Where notes come from. Nothing that it returns is trusted."""

    def with_records(self) -> Iterable[NoteRow]:
        """Those that hold what they sign, in the order of their writing."""

    def about(self, digest: str, /) -> Iterable[NoteRow]:
        """Those that sign this digest."""


class Chain(Shape):
    count: Count
    head: Hex64


class Signing(Shape):
    """Which keys there were when everything began to be signed, and what was there before."""

    schema: Literal["reenact.signing.v1"]
    erasures: Chain
    keys: dict[Kid, PublicKey]
    seals: Chain
    ts: Time


class Rotation(Shape):
    schema: Literal["reenact.key_rotation.v1"]
    new_key: PublicKey
    new_kid: Kid
    old_kid: Kid
    ts: Time
    who: Who


class Replacement(Shape):
    schema: Literal["reenact.key_replacement.v1"]
    new_key: PublicKey
    new_kid: Kid
    old_kid: Kid
    reason: Annotated[str, Meta(max_length=1000)]
    runs: list[tuple[Uuid7, Count, Hex64]]
    ts: Time
    who: Who


class SealedErasures(Shape):
    schema: Literal["reenact.erasures.v1"]
    erasures: Chain
    seal_digest: Hex64


class LeaseBroken(Shape):
    """A person took a run from its holder: nothing is written under `token` any more."""

    schema: Literal["reenact.lease_broken.v1"]
    expires_ms: int
    owner: str
    reason: Annotated[str, Meta(max_length=1000)]
    run_id: str
    token: Count
    ts: Time
    who: Who


SHAPES: Mapping[str, type[Shape]] = {
    SIGNING: Signing,
    ROTATION: Rotation,
    REPLACEMENT: Replacement,
    ERASURES: SealedErasures,
    LEASE_BROKEN: LeaseBroken,
}


class NoteLine(Shape):
    """A note in `notes.jsonl`."""

    schema: Annotated[str, Meta(pattern=r"\Areenact\.[a-z_]{1,40}\.v[0-9]{1,3}\Z")]
    digest: Hex64
    kid: Kid
    signature: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{86}\Z")]
    store_id: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.:-]{1,128}\Z")]
    record: Any = None


def note_text(row: NoteRow) -> bytes:
    """What is signed."""
    return f"{row.schema}\n{row.store_id}\n{row.digest}\n".encode()


def signs(row: NoteRow, key: Ed25519PublicKey | None) -> bool:
    """Whether this key signed what the row says."""
    if key is None or not isinstance(row.signature, bytes):
        return False
    try:
        key.verify(row.signature, note_text(row))
    except (InvalidSignature, UnicodeEncodeError):
        return False
    return True


def records(source: NoteSource, findings: Findings) -> Iterator[tuple[NoteRow, Shape]]:
    """The records of the schemas that are known here, each the one whose digest its note signs."""
    for row in source.with_records():
        kind = SHAPES.get(str(row.schema))
        if kind is None or not isinstance(row.record, bytes):
            continue
        read = read_canonical(row.record, "a note's record")
        shape = fit(read.value, kind, "NOTE_MALFORMED") if isinstance(read, Canonical) else read
        if isinstance(shape, Problem):
            findings.add(shape.of("NOTE_MALFORMED", "a note's record"), row.where)
        elif sha256(row.record).hexdigest() != row.digest:
            got = sha256(row.record).hexdigest()
            findings.add(Problem("NOTE_MALFORMED", "the digest of a note's record", row.digest, got), row.where)
        else:
            yield row, shape


class FolderNotes:
    """The notes of a bundle, read from `notes.jsonl`."""

    def __init__(self, lines: Iterable[bytes], findings: Findings, file: str = "notes.jsonl") -> None:
        self._rows: list[NoteRow] = []
        self._about: dict[object, list[NoteRow]] = {}
        for number, raw in enumerate(lines, start=1):
            where = Where(file=file, line=number)
            read = read_canonical(raw, "the note")
            line = fit(read.value, NoteLine, "NOTE_MALFORMED") if isinstance(read, Canonical) else read
            if isinstance(line, Problem):
                findings.add(line.of("NOTE_MALFORMED", "a note"), where)
                continue
            row = row_of(line, where)
            self._rows.append(row)
            self._about.setdefault(row.digest, []).append(row)

    @property
    def has_seal(self) -> bool:
        """Whether one is about a seal."""
        return any(row.schema == SEAL for row in self._rows)

    def with_records(self) -> list[NoteRow]:
        return [row for row in self._rows if row.record is not None]

    def about(self, digest: str, /) -> list[NoteRow]:
        return self._about.get(digest, [])


def row_of(line: NoteLine, where: Where) -> NoteRow:
    record = None if line.record is None else canonicalize(line.record)
    signature = from_base64url(line.signature)
    return NoteRow(where, line.schema, line.store_id, line.digest, line.kid, signature, record)


def decoded_key(text: str) -> tuple[str, Ed25519PublicKey] | None:
    """(kid, key) of a public key in base64url."""
    raw = from_base64url(text)
    if raw is None or len(raw) != 32:
        return None
    return sha256(raw).hexdigest()[:16], Ed25519PublicKey.from_public_bytes(raw)
