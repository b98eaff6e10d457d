"""Targets that read what others send about a log: checkpoints, proofs, requests, policies, time stamps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from reenact.values.canonical import canonicalize
from reenact.verify.log.anchoring import Anchoring, Believed, FileSource
from reenact.verify.log.checkpoint import cosigned_by, read_checkpoint, read_checkpoints, split_notes
from reenact.verify.log.policy import Witness, all_of, read_policy, write_policy
from reenact.verify.log.proof import read_proof, write_proof
from reenact.verify.log.timestamp import forged, read_response, untrusted, write_request
from reenact.verify.report import Findings
from reenact.verify.signed.signed_note import read_vkey, signed_by, write_note
from reenact.witness.cosigner import read_request
from reenact.witness.cosigner import write_request as write_asking

PAGE = Path(__file__).parents[2] / "docs" / "spec" / "log.md"


@cache
def blocks() -> dict[str, bytes]:
    text = PAGE.read_text(encoding="utf-8")
    return {
        name: body.encode() for name, body in re.findall(r"<!-- log: (\w+) -->\n```text\n(.*?)```", text, re.DOTALL)
    }


def of_page(*names: str) -> Sequence[bytes]:
    return [blocks()[name] for name in names]


def read_head(data: bytes) -> None:
    assert b"".join(split_notes(data)) == data, "something is lost between the notes of a file"
    read_checkpoints(data)
    checkpoint = read_checkpoint(data)
    again = write_note(checkpoint.note.text, checkpoint.note.signatures)
    assert read_checkpoint(again) == checkpoint, "what was written is not read back"
    log, witness = (read_vkey(line) for line in blocks()["keys"].decode().split())
    signed_by(checkpoint.note, log)
    cosigned_by(checkpoint.note, witness)


def judge_proof(data: bytes) -> None:
    """Whatever comes, it is a verdict; and what is changed is not what the witness saw."""
    keys = [read_vkey(line) for line in blocks()["keys"].decode().split()]
    believed = Believed(all_of([Witness("w", keys[1])], 1, [keys[0]]))
    leaf, findings = canonicalize({"no": "seal"}), Findings()
    verdict, _ = Anchoring(believed, {}, None, findings).judge(FileSource(data, data), leaf)
    assert verdict != "holds", "a proof of something else holds"
    proof = read_proof(data)
    if write_proof(proof.place, proof.path, proof.raw) != data:
        assert b"\nextra " in data, "what was read is said otherwise"


def read_asking(data: bytes) -> None:
    request = read_request(data)
    assert write_asking(request.old, request.path, request.note) == data, "what was read is said otherwise"


def read_rules(data: bytes) -> None:
    policy = read_policy(data)
    policy.is_met({witness.name for witness in policy.witnesses[:1]})
    assert read_policy(write_policy(policy).encode("utf-8", "surrogateescape")) == policy, "not read back"


def read_stamp(data: bytes) -> None:
    stamp = read_response(data)
    assert forged(stamp, b"text") or sha256(b"text").digest() == stamp.imprint
    untrusted(stamp, ())


def policies() -> Sequence[bytes]:
    log, witness = blocks()["keys"].split()
    return [b"log %b\nwitness w %b https://w.example\ngroup g any w\nquorum g\n" % (log, witness), b"quorum none\n"]


def stamps() -> Sequence[bytes]:
    return [write_request(b"text", 7), bytes.fromhex("3003020100")]
