"""Digests and lines: from a record to the bytes that stand in a journal.

The structs of `reenact.contracts` hold their fields in canonical key order and only values whose encoding is exact, so
one C-speed encoder gives their canonical bytes; a test holds it against `canonicalize` for every record. Values that
come from outside (arguments, facts) pass `canonicalize` before they get here.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from reenact.contracts.artifacts import (
    ActionRequest,
    Artifact,
    ArtifactType,
    CheckpointState,
    ExecutionCheckpoint,
    ExecutionState,
    LogEntry,
    State,
    SupervisorDecision,
    ToolCall,
    ToolEffect,
)
from reenact.contracts.records import Attempt, CommitLine, Erasure, Event, Removal, RunCheckpoint, RunRecord, Seal, Vote
from reenact.values.canonical import canonicalize

encode = msgspec.json.Encoder(order="deterministic").encode

Digested = TypeVar("Digested", Attempt, Vote, RunCheckpoint, Erasure, Removal)

ARTIFACT_ID_FIELD: dict[ArtifactType, str] = {
    "action_request": "action_request_id",
    "supervisor_decision": "supervisor_decision_id",
    "tool_call": "tool_call_id",
    "tool_effect": "tool_effect_id",
}


class Logged(msgspec.Struct, frozen=True, gc=False):
    """An entry, its artifact, and the line that holds both."""

    entry: LogEntry
    artifact: Artifact
    line: bytes


def sha(data: bytes) -> str:
    return sha256(data).hexdigest()


def log(
    artifact: Artifact,
    artifact_type: ArtifactType,
    artifact_id: str,
    *,
    sequence: int,
    prev: str,
    from_state: State,
    to_state: State,
    tool_call_id: str | None = None,
    idempotency_key: str | None = None,
) -> Logged:
    """Digest an artifact that has none yet, and the entry that records it."""
    preimage = encode(artifact)
    artifact_digest = sha256(preimage).hexdigest()
    entry = LogEntry(
        artifact_digest=artifact_digest,
        artifact_id=artifact_id,
        artifact_type=artifact_type,
        from_state=from_state,
        idempotency_key=idempotency_key,
        prev_entry_digest=prev,
        sequence_number=sequence,
        to_state=to_state,
        tool_call_id=tool_call_id,
        trace_id=artifact.trace_id,
        ts=artifact.ts,
    )
    unsigned = encode(entry)
    digest = sha256(unsigned).hexdigest()
    # Digests are put where their keys sort instead of encoding and copying each record again: `_digest` stands before
    # every other key of an artifact, `entry_digest` before `from_state`. Nobody else has seen the two records yet.
    force_setattr(artifact, "digest", artifact_digest)
    force_setattr(entry, "entry_digest", digest)
    before, key, after = unsigned.partition(b',"from_state":')
    line = b'{"artifact":{"_digest":"%b",%b,"entry":%b,"entry_digest":"%b"%b%b,"kind":"entry"}\n' % (
        artifact_digest.encode(), preimage[1:], before, digest.encode(), key, after,
    )  # fmt: skip
    return Logged(entry, artifact, line)


def entry_digest(entry: LogEntry) -> str:
    return sha(encode(replace(entry, entry_digest=msgspec.UNSET)))


def artifact_digest(artifact: Artifact) -> str:
    return sha(canonicalize(replace(artifact, digest=msgspec.UNSET)))


def with_digest(record: Digested) -> Digested:
    """The record with its own digest filled in."""
    return replace(record, digest=sha(encode(replace(record, digest=msgspec.UNSET))))


def digested_attempt(attempt: Attempt) -> tuple[Attempt, bytes]:
    """A record that nobody else has seen yet, with its digest, and its line."""
    unsigned = encode(attempt)
    digest = sha256(unsigned).hexdigest()
    force_setattr(attempt, "digest", digest)
    before, key, after = unsigned.partition(b',"ended_at":')
    line = b"".join(
        (b'{"attempt":', before, b',"digest":"', digest.encode(), b'"', key, after, b',"kind":"attempt"}\n')
    )
    return attempt, line


def sealed(seal: Seal) -> Seal:
    return replace(seal, seal_digest=sha(encode(replace(seal, seal_digest=msgspec.UNSET))))


def seal_behind(body: bytes, seal: Seal, prev_store_seal: str) -> Seal:
    """The seal of a run whose last commit is `body` up to here: what it says of those bytes, and of the seal before."""
    return sealed(replace(seal, prev_store_seal=prev_store_seal, run_head=sha(body)))


def state_of(trace_id: str, plan_id: str, state: State, sequence: int, head: str) -> ExecutionState:
    unsigned = ExecutionState(
        current_state=state, last_entry_digest=head, last_sequence_number=sequence, plan_id=plan_id, trace_id=trace_id
    )
    return replace(unsigned, state_digest=sha(encode(unsigned)))


def checkpoint_of(state: ExecutionState, ts: str) -> ExecutionCheckpoint:
    inner = CheckpointState(
        current_state=state.current_state,
        last_entry_digest=state.last_entry_digest,
        last_sequence_number=state.last_sequence_number,
        plan_id=state.plan_id,
        trace_id=state.trace_id,
    )
    return ExecutionCheckpoint(
        checkpoint_digest=sha(encode(inner)),
        checkpoint_sequence_number=inner.last_sequence_number,
        checkpoint_state=inner,
        trace_id=inner.trace_id,
        ts=ts,
    )


def commit_line(n: int, prev: str, run_id: str) -> bytes:
    return encode(CommitLine(n=n, prev=prev, run_id=run_id)) + b"\n"


def attempt_line(attempt: Attempt) -> bytes:
    return b'{"attempt":' + encode(attempt) + b',"kind":"attempt"}\n'


def checkpoint_line(checkpoint: ExecutionCheckpoint) -> bytes:
    return b'{"checkpoint":' + encode(checkpoint) + b',"kind":"checkpoint"}\n'


def event_line(event: Event) -> bytes:
    return b'{"event":' + encode(event) + b',"kind":"event"}\n'


def run_line(run: RunRecord) -> bytes:
    return b'{"kind":"run","run":' + encode(run) + b"}\n"


def run_checkpoint_line(checkpoint: RunCheckpoint) -> bytes:
    return b'{"kind":"run_checkpoint","run_checkpoint":' + encode(checkpoint) + b"}\n"


def seal_line(seal: Seal) -> bytes:
    return b'{"kind":"seal","seal":' + encode(seal) + b"}\n"


def vote_line(vote: Vote) -> bytes:
    return b'{"kind":"vote","vote":' + encode(vote) + b"}\n"


ARTIFACT_TYPES: dict[ArtifactType, type[Artifact]] = {
    "action_request": ActionRequest,
    "supervisor_decision": SupervisorDecision,
    "tool_call": ToolCall,
    "tool_effect": ToolEffect,
}
ARTIFACT_TYPE: dict[type[Artifact], ArtifactType] = {made: name for name, made in ARTIFACT_TYPES.items()}


# -- Merkle trees, RFC 6962 --------------------------------------------------------------------------------------------

EMPTY_ROOT = sha256(b"").hexdigest()


class MerkleTree:
    """A Merkle tree that grows leaf by leaf, in memory that grows with the logarithm of the leaves.

    Append leaves, ask for the root at any time. `frontier` is all there is to keep (RFC 6962, section 2.1).
    """

    __slots__ = ("frontier", "size")

    def __init__(self, size: int = 0, frontier: list[bytes] | None = None) -> None:
        self.size = size
        self.frontier: list[bytes] = frontier or []

    def append(self, leaf: bytes) -> None:
        node = sha256(b"\x00" + leaf).digest()
        size = self.size
        while size & 1:  # a full left sibling waits: two subtrees of equal size become one
            node = sha256(b"\x01" + self.frontier.pop() + node).digest()
            size >>= 1
        self.frontier.append(node)
        self.size += 1

    def root(self) -> str:
        if not self.frontier:
            return EMPTY_ROOT
        node = self.frontier[-1]
        for left in reversed(self.frontier[:-1]):
            node = sha256(b"\x01" + left + node).digest()
        return node.hex()
