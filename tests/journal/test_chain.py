"""Bytes and digests: the fast encoder writes what canonical JSON says, for every record there is."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.contracts.artifacts import ActionRequest, LogEntry, Record, SupervisorDecision, ToolCall, ToolEffect
from reenact.contracts.records import Attempt, CommitLine, Event, RunCheckpoint, RunRecord, Seal, Vote
from reenact.errors import SkillDeclarationError
from reenact.journal import chain
from reenact.journal.lines import decode_line
from reenact.skills.declare import skill
from reenact.values.canonical import canonicalize, parse_canonical
from tests.journal.records import CLASSES, TEXT, of, plain


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_encoder_writes_canonical_json_for(kind: type[Record]) -> None:
    @settings(max_examples=120)
    @given(of(kind))
    def check(record: Record) -> None:
        assert chain.encode(record) == canonicalize(plain(record)) == rfc8785.dumps(plain(record))

    check()


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_fields_stand_in_canonical_order_in(kind: type[Record]) -> None:
    assert list(kind.__struct_encode_fields__) == sorted(kind.__struct_encode_fields__)


@given(st.dictionaries(TEXT.filter(str.isascii), TEXT))
def test_leaves_of_the_trees_are_canonical(leaf: dict[str, str]) -> None:
    assert chain.encode(leaf) == rfc8785.dumps(leaf)


def test_names_in_the_chain_are_ascii_so_that_their_order_is_the_same_in_every_language() -> None:
    """By code points `﨎` stands before `𐀀`, by UTF-16 units after it."""
    with pytest.raises(SkillDeclarationError, match="public"):

        @skill("odd", version="1.0.0", public=["𐀀"])
        def odd(𐀀: int) -> None: ...  # noqa: PLC2401 - such a name is what the test is about


def hexdigest(value: Any) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != key}


TYPES = {
    "action_request": ActionRequest,
    "supervisor_decision": SupervisorDecision,
    "tool_call": ToolCall,
    "tool_effect": ToolEffect,
}


@pytest.mark.parametrize("artifact_type", TYPES)
def test_a_logged_line_holds_both_digests_and_is_canonical(artifact_type: Any) -> None:
    @settings(max_examples=60)
    @given(of(TYPES[artifact_type]), TEXT, TEXT)
    def check(artifact: Any, artifact_id: str, prev: str) -> None:
        bare = msgspec.structs.replace(artifact, digest=msgspec.UNSET)
        logged = chain.log(
            bare, artifact_type, artifact_id, sequence=1, prev=prev, from_state="PENDING", to_state="PENDING"
        )
        line = parse_canonical(logged.line[:-1])
        assert isinstance(line, dict)
        assert logged.line == rfc8785.dumps(line) + b"\n"
        assert line["artifact"]["_digest"] == hexdigest(without(line["artifact"], "_digest"))
        assert line["entry"]["artifact_digest"] == line["artifact"]["_digest"] == logged.artifact.digest
        assert line["entry"]["entry_digest"] == hexdigest(without(line["entry"], "entry_digest"))
        assert chain.entry_digest(logged.entry) == logged.entry.entry_digest

    check()


@given(of(LogEntry))
def test_an_entry_is_hashed_over_thirteen_keys_with_nulls_where_a_value_is_absent(entry: LogEntry) -> None:
    covered = without(plain(entry), "entry_digest")
    assert len(covered) == 13
    assert {"tool_call_id", "idempotency_key"} < covered.keys()
    assert chain.entry_digest(entry) == hexdigest(covered)


LINES = {
    "attempt": (Attempt, chain.attempt_line),
    "event": (Event, chain.event_line),
    "run": (RunRecord, chain.run_line),
    "run_checkpoint": (RunCheckpoint, chain.run_checkpoint_line),
    "seal": (Seal, chain.seal_line),
    "vote": (Vote, chain.vote_line),
}


@pytest.mark.parametrize("kind", LINES)
def test_a_line_is_canonical_and_reads_back_as_its_record(kind: str) -> None:
    cls, write = LINES[kind]

    @settings(max_examples=60)
    @given(of(cls))
    def check(record: Any) -> None:
        line = write(record)
        assert line == rfc8785.dumps({"kind": kind, kind: plain(record)}) + b"\n"
        assert getattr(decode_line(line[:-1], where="here"), kind) == record

    check()


@given(of(CommitLine))
def test_a_commit_line_is_flat(commit: CommitLine) -> None:
    line = chain.commit_line(commit.n, commit.prev, commit.run_id)
    assert (
        line == rfc8785.dumps({"kind": "commit", "n": commit.n, "prev": commit.prev, "run_id": commit.run_id}) + b"\n"
    )


@given(of(Attempt), of(Vote), of(RunCheckpoint), of(Seal))
def test_a_digest_covers_everything_but_itself(
    attempt: Attempt, vote: Vote, checkpoint: RunCheckpoint, seal: Seal
) -> None:
    for record in (attempt, vote, checkpoint):
        made = plain(chain.with_digest(record))
        assert made["digest"] == hexdigest(without(made, "digest"))
    made = plain(chain.sealed(seal))
    assert made["seal_digest"] == hexdigest(without(made, "seal_digest"))
