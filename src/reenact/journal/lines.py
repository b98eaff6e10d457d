"""Reading a journal: from lines back to records, with the place of whatever is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec.structs import replace

from reenact.contracts.artifacts import (
    ActionRequest,
    Artifact,
    ExecutionCheckpoint,
    LogEntry,
    Proposal,
    Record,
    ToolCall,
)
from reenact.contracts.records import Attempt, CommitLine, Event, RunCheckpoint, RunRecord, Seal, Vote
from reenact.errors import DamagedRecord, TornTail
from reenact.journal.chain import ARTIFACT_TYPES
from reenact.values.canonical import MAX_SAFE_INTEGER

Kind = Literal["commit", "run", "entry", "attempt", "vote", "event", "checkpoint", "run_checkpoint", "seal"]


class Line(Record, frozen=True, kw_only=True):
    """One line; only the field named by `kind` is set, and `artifact` beside `entry`."""

    kind: Kind
    artifact: msgspec.Raw = msgspec.Raw()
    attempt: Attempt | None = None
    checkpoint: ExecutionCheckpoint | None = None
    entry: LogEntry | None = None
    event: Event | None = None
    n: int | None = None
    prev: str | None = None
    run: RunRecord | None = None
    run_checkpoint: RunCheckpoint | None = None
    run_id: str | None = None
    seal: Seal | None = None
    vote: Vote | None = None


LINE = msgspec.json.Decoder(Line)
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder says of bytes that are no record; the last one of deep nesting."""
ARTIFACT = {name: msgspec.json.Decoder(kind) for name, kind in ARTIFACT_TYPES.items()}


def decode_line(raw: bytes, *, where: str) -> Line:
    try:
        return LINE.decode(raw)
    except UNREADABLE as error:
        raise DamagedRecord(f"{where}: not a journal line: {error}") from None


def decode_artifact(line: Line, *, where: str) -> Artifact:
    if line.entry is None or not bytes(line.artifact):
        raise DamagedRecord(f"{where}: an entry line without its entry or artifact")
    try:
        artifact = ARTIFACT[line.entry.artifact_type].decode(line.artifact)
        if isinstance(artifact, ActionRequest):
            return replace(artifact, proposal=with_numbers(artifact.proposal))
        if isinstance(artifact, ToolCall):
            return replace(artifact, call=with_numbers(artifact.call))
    except UNREADABLE as error:
        raise DamagedRecord(f"{where}: not a {line.entry.artifact_type}: {error}") from None
    return artifact


def with_numbers(proposal: Proposal) -> Proposal:
    """Canonical JSON prints a float of 2^53 up to 1e21 as plain digits: read back, it is that float and no integer."""
    if len(proposal.args) == 1 and "$commit" in proposal.args:
        return proposal
    return replace(proposal, args={name: as_written(value) for name, value in proposal.args.items()})


def as_written(value: object) -> object:
    if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
        return float(value)
    if isinstance(value, dict):
        return {name: as_written(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_written(item) for item in value]
    return value


def split_body(body: bytes, *, where: str) -> Iterator[bytes]:
    """The lines of a commit's body, without their ends."""
    if not body.endswith(b"\n"):
        raise TornTail(f"{where}: the last line is cut; the bytes before it are kept")
    yield from body[:-1].split(b"\n")


def commit_head(line: Line, *, where: str) -> CommitLine:
    if line.kind != "commit" or line.n is None or line.prev is None or line.run_id is None:
        raise DamagedRecord(f"{where}: a commit starts with a commit line")
    return CommitLine(n=line.n, prev=line.prev, run_id=line.run_id)
