"""Reading a journal: from lines back to records, with the place of whatever is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from reenact.contracts.artifacts import Artifact, ExecutionCheckpoint, LogEntry, Record
from reenact.contracts.records import Attempt, CommitLine, Event, RunCheckpoint, RunRecord, Seal, Vote
from reenact.errors import DamagedRecord, TornTail
from reenact.journal.chain import ARTIFACT_TYPES

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
ARTIFACT = {name: msgspec.json.Decoder(kind) for name, kind in ARTIFACT_TYPES.items()}


def decode_line(raw: bytes, *, where: str) -> Line:
    try:
        return LINE.decode(raw)
    except msgspec.DecodeError as error:
        raise DamagedRecord(f"{where}: not a journal line: {error}") from None


def decode_artifact(line: Line, *, where: str) -> Artifact:
    if line.entry is None or not bytes(line.artifact):
        raise DamagedRecord(f"{where}: an entry line without its entry or artifact")
    try:
        return ARTIFACT[line.entry.artifact_type].decode(line.artifact)
    except msgspec.DecodeError as error:
        raise DamagedRecord(f"{where}: not a {line.entry.artifact_type}: {error}") from None


def split_body(body: bytes, *, where: str) -> Iterator[bytes]:
    """The lines of a commit's body, without their ends."""
    if not body.endswith(b"\n"):
        raise TornTail(f"{where}: the last line is cut; the bytes before it are kept")
    yield from body[:-1].split(b"\n")


def commit_head(line: Line, *, where: str) -> CommitLine:
    if line.kind != "commit" or line.n is None or line.prev is None or line.run_id is None:
        raise DamagedRecord(f"{where}: a commit starts with a commit line")
    return CommitLine(n=line.n, prev=line.prev, run_id=line.run_id)
