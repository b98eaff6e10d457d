"""Checking one input against its recorded hash: found in its place, elsewhere, changed, gone, or not to be read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from reenact.errors import HashingError, Unparseable
from reenact.provenance.hashing import hash_raw, hash_raw_decoded, hash_structured_with_warnings
from reenact.provenance.safe_paths import FileRefused, Refusal, beneath, components, is_absolute
from reenact.provenance.sidecar.sidecar import VerifiableInput
from reenact.provenance.verify.model import Check, Status
from reenact.provenance.verify.sources import Names, Source

MAX_STRUCTURED_BYTES: Final = 8 << 20
_DECODED: Final = "the recorded hash is of the text with U+FFFD for bytes that are not UTF-8"
_MAX_CANDIDATES: Final = 50
_STRUCTURED_SUFFIXES: Final = (".yml", ".yaml", ".json")


class Match(NamedTuple):
    """How content compares with a recorded hash. `actual` is None when it has no hash of that kind."""

    expected: str
    actual: str | None
    note: str = ""
    error: HashingError | None = None

    @property
    def holds(self) -> bool:
        return self.actual == self.expected


class Hashes:
    """Hashes of contents, computed once for equal content, however many reports name it."""

    def __init__(self) -> None:
        self._structured: dict[bytes, tuple[str, list[str]] | HashingError] = {}
        self.parsed = 0

    def match(self, data: bytes, recorded: VerifiableInput) -> Match:
        """Compare content with what was recorded; a digest's hex digits may be of either case."""
        expected = recorded.hash.lower()
        raw = hash_raw(data)
        if recorded.mode == "raw" or (recorded.mode == "either" and raw == expected):
            return Match(expected, raw)
        if recorded.mode == "either" and hash_raw_decoded(data) == expected:
            return Match(expected, expected, _DECODED)
        structured = self._hash_structured(data)
        prose = recorded.mode == "either" and not recorded.path.lower().endswith(_STRUCTURED_SUFFIXES)
        if isinstance(structured, HashingError):
            # A brief may be prose: then its bytes are all there is to compare, and they differ.
            return Match(expected, raw) if prose else Match(expected, None, error=structured)
        actual, warnings = structured
        return Match(expected, raw if prose and actual != expected else actual, "; ".join(warnings))

    def structured(self, data: bytes) -> str:
        """The structured hash of content. HashingError when it has none."""
        result = self._hash_structured(data)
        if isinstance(result, HashingError):
            raise result
        return result[0]

    def _hash_structured(self, data: bytes) -> tuple[str, list[str]] | HashingError:
        key = hashlib.sha256(data).digest()
        if key not in self._structured:
            self.parsed += 1
            self._structured[key] = _hash_structured(data)
        return self._structured[key]


def _hash_structured(data: bytes) -> tuple[str, list[str]] | HashingError:
    if len(data) > MAX_STRUCTURED_BYTES:
        return HashingError(f"a structured input may have at most {MAX_STRUCTURED_BYTES} bytes")
    try:
        return hash_structured_with_warnings(data)
    except HashingError as error:
        return error


def check_input(recorded: VerifiableInput, source: Source, root: Path, hashes: Hashes) -> Check:
    """The status of one input in a source. Nothing outside the root is opened, whatever the recorded path says."""
    try:
        names = beneath(root, recorded.path)
        if names is not None:
            return _compared(recorded, source.read(names), names, hashes)
    except FileRefused as refused:
        if refused.refusal is not Refusal.MISSING:
            return _check(recorded, Status.REFUSED, str(refused))
    return _search(recorded, source, hashes)


def _search(recorded: VerifiableInput, source: Source, hashes: Hashes) -> Check:
    """Look for the input where its path's tail leads, the longest tail first."""
    nearest: Check | None = None
    for names in _candidates(recorded, source):
        try:
            check = _compared(recorded, source.read(names), names, hashes)
        except FileRefused:
            continue
        if check.status is Status.OK:
            detail = f"relocated: recorded as {recorded.path}"
            return _check(recorded, Status.RELOCATED, detail, found=check.found, actual=check.actual)
        nearest = nearest or check
    if nearest is not None and is_absolute(recorded.path):
        return nearest
    return _check(recorded, Status.MISSING, "no such file under the root, nor its path's tail with that hash")


def _candidates(recorded: VerifiableInput, source: Source) -> Iterator[Names]:
    """Places to look at: each tail of the path under the root, then files whose own path ends most alike."""
    names = components(recorded.path)
    tails = [names[start:] for start in range(0 if is_absolute(recorded.path) else 1, len(names))]
    yield from tails
    others = [place for place in source.named(names[-1]) if place not in tails] if names else []
    others.sort(key=lambda place: (-_common_tail(place, names), len(place), place))
    yield from others[:_MAX_CANDIDATES]


def _common_tail(one: Names, other: Names) -> int:
    length = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        length += 1
    return length


def _compared(recorded: VerifiableInput, data: bytes, names: Names, hashes: Hashes) -> Check:
    match = hashes.match(data, recorded)
    if match.holds:
        status = Status.OK
    elif match.error is None:
        status = Status.DRIFTED
    else:
        status = Status.UNPARSEABLE if isinstance(match.error, Unparseable) else Status.UNDECIDED
    detail = str(match.error) if match.error else match.note
    return _check(recorded, status, detail, found="/".join(names), actual=match.actual)


def _check(
    recorded: VerifiableInput, status: Status, detail: str = "", *, found: str | None = None, actual: str | None = None
) -> Check:
    return Check(recorded.name, status, detail, recorded.path, found, recorded.hash, actual)
