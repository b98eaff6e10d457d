"""One journal line: from bytes to a record of known form, or to what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from reenact.errors import JsonSyntaxError, ReenactError
from reenact.values.canonical import canonicalize, parse_canonical, parse_json, same_until
from reenact.verify.report import Problem
from reenact.verify.shapes import (
    AnyArtifact,
    Attempt,
    Checkpoint,
    Entry,
    Event,
    Hex64,
    Positive,
    Run,
    RunCheckpoint,
    Seal,
    Shape,
    Uuid7,
    Vote,
)

MAX_LINE_BYTES: Final = 1_048_576
COMMIT_START: Final = b'{"kind":"commit"'

_NEWEST: Final = {"reenact.bundle": 2, "reenact.erasure": 2}
_VERSIONED: Final = re.compile(r"\A(reenact\.[a-z_]+)\.v([0-9]{1,6})\Z")


class CommitLine(Shape, tag_field="kind", tag="commit"):
    n: Positive
    prev: Hex64
    run_id: Uuid7


class RunLine(Shape, tag_field="kind", tag="run"):
    run: Run


class EventLine(Shape, tag_field="kind", tag="event"):
    event: Event


class VoteLine(Shape, tag_field="kind", tag="vote"):
    vote: Vote


class AttemptLine(Shape, tag_field="kind", tag="attempt"):
    attempt: Attempt


class EntryLine(Shape, tag_field="kind", tag="entry"):
    entry: Entry
    artifact: AnyArtifact


class CheckpointLine(Shape, tag_field="kind", tag="checkpoint"):
    checkpoint: Checkpoint


class RunCheckpointLine(Shape, tag_field="kind", tag="run_checkpoint"):
    run_checkpoint: RunCheckpoint


class SealLine(Shape, tag_field="kind", tag="seal"):
    seal: Seal


Line = (
    CommitLine
    | RunLine
    | EventLine
    | VoteLine
    | AttemptLine
    | EntryLine
    | CheckpointLine
    | RunCheckpointLine
    | SealLine
)


def read_line(raw: bytes, entries: Any = None) -> tuple[Any, dict[str, Any]] | Problem:
    """The line as a record and as the plain value that its digests are computed over.

    `entries` is the form of entry lines, where it is not Reenact's own.
    """
    if not raw.endswith(b"\n"):
        return Problem("EVIDENCE_TORN_TAIL", "the last line does not end with a newline: its end was cut")
    value = read_canonical(raw[:-1], "the line")
    if isinstance(value, Problem):
        return value
    is_other = entries is not None and isinstance(value.value, dict) and value.value.get("kind") == "entry"
    record = fit(value.value, entries if is_other else Line, "LINE_MALFORMED")
    if isinstance(record, Problem):
        return record
    return record, value.value


class Canonical(msgspec.Struct, frozen=True):
    """A value whose bytes were canonical."""

    value: Any


def read_canonical(data: bytes, what: str) -> Canonical | Problem:
    """The value that `data` spells, provided that `data` is its canonical form."""
    try:
        return Canonical(parse_canonical(data, what=what))
    except JsonSyntaxError:
        return Problem("LINE_NOT_CANONICAL", _not_canonical(data, what))


def _not_canonical(data: bytes, what: str) -> str:
    try:
        canonical = canonicalize(parse_json(data, what=what))
    except ReenactError as error:
        return str(error)  # it is no JSON at all
    return f"{what} is not canonical JSON from its byte {same_until(canonical, data)} on"


def fit(value: object, kind: Any, code: str) -> Any:
    """`value` as a `kind`, or a Problem that says which place has which wrong form."""
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        return _unknown_version(value) or Problem(code, str(error))


def _unknown_version(value: object) -> Problem | None:
    """A record of ours with another version number is not damage: a newer Reenact wrote it."""
    records = value.values() if isinstance(value, dict) and "kind" in value else [value]
    for record in records:
        schema = record.get("schema") if isinstance(record, dict) else None
        match = _VERSIONED.match(schema) if isinstance(schema, str) else None
        newest = 1 if match is None else _NEWEST.get(match[1], 1)
        if match is not None and not 1 <= int(match[2]) <= newest:
            expected = f"{match[1]}.v{newest}"
            return Problem("EVIDENCE_VERSION_UNKNOWN", "a record of another version", expected, schema)
    return None


def lines_of(body: bytes) -> Iterator[bytes]:
    """The lines of `body` with their newlines; the last one without, if it was cut. An empty body is one line."""
    start = 0
    while (end := body.find(b"\n", start)) >= 0:
        yield body[start : end + 1]
        start = end + 1
    if start < len(body) or not body:
        yield body[start:]
