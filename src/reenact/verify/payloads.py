"""Payloads and erasures: what lies beside the chain, held against the commitments that stand in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from reenact.values.digest import ZERO_DIGEST, digest
from reenact.values.envelope import LARGEST_ENVELOPE, SALT_BYTES
from reenact.verify.lines import Canonical, fit, read_canonical
from reenact.verify.report import Findings, Problem, Where
from reenact.verify.shapes import Erasure, Hex64, Shape, Time, Uuid7, Who

MAX_ENVELOPE_BYTES: Final = LARGEST_ENVELOPE
_ABSENT: Final = -1


class PayloadSource(Protocol):
    """Where envelopes come from. Nothing that it returns is trusted."""

    def get(self, commitment: str, /) -> bytes | None:
        """The envelope that is kept under `commitment`, None where there is none."""


class Value(msgspec.Struct, frozen=True):
    """What an envelope held."""

    value: Any


class Removal(Shape):
    """The second version: a value that was moved to a bundle, or erased after that."""

    schema: Literal["reenact.erasure.v2"]
    bundle: Hex64 | None
    commitment: Hex64
    run_id: Uuid7
    type: Literal["erased", "archived"]
    who: Who
    ts: Time
    reason: Annotated[str, Meta(max_length=1000)]
    prev: Hex64
    digest: Hex64


class Seen(NamedTuple):
    """An erasure record that was read."""

    digest: str
    where: Where
    is_first_version: bool


class Taken(dict[str, str]):
    """Commitments of values that were taken out on record, each with the run that its record names."""

    def __init__(self) -> None:
        super().__init__()
        self.archived: dict[str, str] = {}
        """Those of them that were moved to a bundle and not erased since, with its digest: they may be back."""

    def take(self, record: Erasure | Removal) -> Problem | None:
        """What contradicts what was taken before, if anything."""
        bundle = record.bundle if isinstance(record, Removal) and record.type == "archived" else None
        if bundle is not None and record.commitment in self and record.commitment not in self.archived:
            return Problem("ERASURE_CHAIN", f"payload {record.commitment} was archived after it was erased")
        problem = None
        if isinstance(record, Removal) and record.type == "archived" and bundle is None:
            problem = Problem("ERASURE_CHAIN", f"payload {record.commitment} is said to be archived, and not where")
        self.setdefault(record.commitment, record.run_id)
        if bundle is not None:
            self.archived[record.commitment] = bundle
        else:
            self.archived.pop(record.commitment, None)
        return problem


class PayloadCheck:
    """Looks at each payload once, when the journal first names it. Keeps 32 bytes and a size for each."""

    def __init__(self, source: PayloadSource | None, erased: Mapping[str, str], findings: Findings) -> None:
        self.run_id: str | None = None
        """The run that the payloads belong to, once that is known."""
        self._source = source
        self._erased = erased
        self._findings = findings
        self._sizes: dict[bytes, int] = {}
        self._last: tuple[str, Value | None] = ("", None)  # what was read last is often asked for next
        self._archived = erased.archived if isinstance(erased, Taken) else {}
        self.present = self.erased = self.archived = self.lost = self.withheld = 0

    @property
    def named(self) -> int:
        return len(self._sizes)

    def names(self, commitment: str) -> bool:
        """True if the journal has named this payload."""
        return bytes.fromhex(commitment) in self._sizes

    def see(self, commitment: str | None, where: Where, *, size: int | None = None) -> None:
        """Check the payload behind `commitment`, and that its envelope has `size` bytes."""
        if commitment is None:
            return
        where = replace(where, payload=commitment)
        key = bytes.fromhex(commitment)
        if key not in self._sizes:
            self._sizes[key] = self._first_look(commitment, where)
        real = self._sizes[key]
        if size is not None and real not in (_ABSENT, size):
            problem = Problem("PAYLOAD_CONTENT", "size_bytes of the envelope", real, size)
            self._findings.add(problem, where)

    def value(self, commitment: str | None, where: Where) -> Value | None:
        """The value behind `commitment`; None where it is absent or damaged, which is then already told."""
        if commitment is None:
            return None
        self.see(commitment, where)
        if self._last[0] != commitment:
            envelope = None if self._source is None else self._source.get(commitment)
            found = None if envelope is None else open_envelope(envelope, commitment)
            self._last = (commitment, found if isinstance(found, Value) else None)
        return self._last[1]

    def _first_look(self, commitment: str, where: Where) -> int:
        self._last = (commitment, None)
        if self._source is None:
            self.withheld += 1
            return _ABSENT
        envelope = self._source.get(commitment)
        if envelope is None:
            self._absent(commitment, where)
            return _ABSENT
        self.present += 1
        found = open_envelope(envelope, commitment)
        if isinstance(found, Problem):
            self._findings.add(found, where)
        else:
            self._last = (commitment, found)
        if commitment in self._erased and commitment not in self._archived:
            what = f"payload {commitment} is there although it was erased"
            self._findings.add(Problem("PAYLOAD_NOT_ERASED", what), where)
        return len(envelope)

    def _absent(self, commitment: str, where: Where) -> None:
        named = self._erased.get(commitment)
        if named is not None:
            if commitment in self._archived:
                self.archived += 1
                self._findings.note(f"values are archived in the bundle {self._archived[commitment]}")
            else:
                self.erased += 1
            if self.run_id not in (None, named):
                what = "a value of this run was erased in the name of another"
                self._findings.add(Problem("ERASURE_CHAIN", what, self.run_id, named), where)
            return
        self.lost += 1
        what = f"payload {commitment} is missing, and no erasure record names it"
        self._findings.add(Problem("PAYLOAD_LOST", what), where)


def open_envelope(envelope: bytes, commitment: str) -> Value | Problem:
    """The value in an envelope that is the one its commitment names."""
    got = sha256(envelope).hexdigest()
    if got != commitment:
        return Problem("PAYLOAD_CHANGED", "the digest of a payload's envelope", commitment, got)
    if len(envelope) <= SALT_BYTES:
        return Problem("PAYLOAD_MALFORMED", f"payload {commitment} holds no value after its salt")
    read = read_canonical(envelope[SALT_BYTES:], "the payload")
    if isinstance(read, Problem):
        return read.of("PAYLOAD_MALFORMED", f"payload {commitment}")
    return Value(read.value)


def check_erasures(
    lines: Iterable[bytes],
    findings: Findings,
    *,
    whole: bool,
    file: str = "erasures.jsonl",
    seen_at: list[Seen] | None = None,
) -> Taken:
    """The commitments that were erased on record, each with the run that its record names.

    `whole` says that the lines are a store's complete chain; `seen_at` gets each record.
    """
    erased = Taken()
    seen: set[str] = set()
    followed: set[str] = set()
    last = ZERO_DIGEST
    for number, raw in enumerate(lines, start=1):
        where = Where(file=file, line=number)
        read = read_canonical(raw.removesuffix(b"\n"), "the erasure record")
        record = read if isinstance(read, Problem) else fit(read.value, _kind(read.value), "ERASURE_CHAIN")
        if isinstance(record, Problem):
            findings.add(record, where)
            continue
        assert isinstance(read, Canonical)
        recomputed = digest({key: item for key, item in read.value.items() if key != "digest"})
        problem = _link_problem(record, recomputed, last if whole else None, seen, followed) or erased.take(record)
        if problem is not None:
            findings.add(problem, where)
        if seen_at is not None:
            seen_at.append(Seen(recomputed, where, isinstance(record, Erasure)))
        seen.add(record.digest)
        followed.add(record.prev)
        last = record.digest
    return erased


def _kind(value: object) -> type[Erasure | Removal]:
    is_second = isinstance(value, dict) and value.get("schema") == "reenact.erasure.v2"
    return Removal if is_second else Erasure


def _link_problem(
    record: Erasure | Removal, recomputed: str, last: str | None, seen: set[str], followed: set[str]
) -> Problem | None:
    if record.digest != recomputed:
        return Problem("ERASURE_CHAIN", "the digest of an erasure record", recomputed, record.digest)
    if last is not None and record.prev != last:
        return Problem("ERASURE_CHAIN", "prev of an erasure record", last, record.prev)
    if record.prev in followed:
        return Problem("ERASURE_CHAIN", f"two erasure records follow {record.prev}")
    if record.digest in followed:
        return Problem("ERASURE_CHAIN", "an erasure record stands after one that follows it")
    if record.prev == ZERO_DIGEST and seen:
        return Problem("ERASURE_CHAIN", "the store's first erasure record is not the first line")
    return None
