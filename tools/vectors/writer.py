"""Writes a run's journal straight from `docs/spec/`, with nothing of the runtime's: values in, bytes out.

Ids, salts, times and the signing key are derived from names and counters, so that the same calls give the same bytes
on every machine. Each method that makes a record takes `change`, a dict laid over the record before its digest is
computed (`DROP` removes a key): that is how evidence is made that is wrong and yet consistent with itself.
"""

from __future__ import annotations

import gzip
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, digest, sha256_hex
from reenact.values.envelope import make_envelope
from reenact.values.ids import project_uuid7
from tools.vectors.pieces import (
    DROP,
    STORE_ID,
    TERMINAL,
    VERSION,
    Json,
    at,
    b64,
    changed,
    key_of,
    kid_of,
    plan_hash,
    public_bytes,
    salt,
    tree_root,
    uid,
    with_digest,
)
from tools.vectors.trace import Trace


class Run:
    """A run being written. `commit()` closes the lines added so far into one commit body."""

    def __init__(self, number: int, plan: Json, *, kind: str = "plan", change: Mapping[str, Any] | None = None) -> None:
        self.run_id = uid(number)
        self.key_run = self.run_id if (change or {}).get("key_run") is not DROP else None
        self.kind, self.plan = kind, plan
        self.assembled = plan
        """The plan as its payload holds it: that of a session names what its calls were made with."""
        self.key = key_of("store")
        self.plan_id = project_uuid7(plan["plan_id"]) if kind == "plan" else self.run_id
        self.agent_id = project_uuid7(plan["agent_id"])
        self.salt: str = plan["context"]["pins"]["salt"]
        self.pinned: dict[str, str] = plan["context"]["pins"]["skills"]
        self.payloads: dict[str, bytes] = {}
        self.by_content: dict[bytes, str] = {}
        self.traces: list[Trace] = []
        self.attempts: list[Json] = []
        self.bodies: list[bytes] = []
        self.lines: list[bytes] = []
        self.seal_record: Json | None = None
        self._clock = 0
        planned = kind == "plan"
        record = {
            "schema": "reenact.run.v1",
            "run_id": self.run_id,
            "key_run": self.run_id,
            "kind": kind,
            "mode": "live",
            "parent_run": None,
            "plan_id": self.plan_id,
            "agent_id": self.agent_id,
            "plan_hash": plan_hash(plan) if planned else None,
            "plan": self.put(plan, f"{self.run_id}/plan") if planned else None,
            "steps_planned": len(plan["steps"]) if planned else None,
            "capability_key": kid_of(self.key),
            "reenact_version": VERSION,
            "started_at": self.now(),
        }
        self.record = changed(record, change)
        self.add({"kind": "run", "run": self.record})

    def now(self) -> str:
        return at(self._clock)

    def wait(self, ms: int) -> None:
        self._clock += ms

    def put(self, value: Any, name: str) -> str:
        """The commitment of `value`; equal content of a run is stored once."""
        content = canonicalize(value)
        if content not in self.by_content:
            commitment, envelope = make_envelope(value, salt(name))
            self.by_content[content] = commitment
            self.payloads[commitment] = envelope
        return self.by_content[content]

    def add(self, line: Json) -> None:
        self.start_lines()
        self.lines.append(canonicalize(line) + b"\n")

    def commit(self) -> bytes:
        body = b"".join(self.lines)
        self.bodies.append(body)
        self.lines = []
        return body

    def step(self, index: int, *, step: Json | None = None) -> Trace:
        trace = Trace(self, step or self.plan["steps"][index], index, 0x1000 + 0x10 * index)
        self.traces.append(trace)
        return trace

    def event(self, kind: str, *, trace_id: str | None = None, data: Any = None, **fields: Any) -> None:
        named = None if data is None else self.put(data, f"{self.run_id}/event/{kind}/{len(self.bodies)}")
        record = {"schema": "reenact.event.v1", "type": kind, "ts": self.now(), "who": None, "reason": None}
        self.add({"kind": "event", "event": {**record, "trace_id": trace_id, "data": named, **fields}})

    def finish(self, *, named: bool = True) -> None:
        """The event that names a session's plan."""
        if named:
            steps = [{**step, **trace.names()} for step, trace in zip(self.plan["steps"], self.traces, strict=True)]
            self.assembled = {**self.plan, "steps": steps}
        self.event("finish", data=self.assembled)

    def vote(self, trace: Trace, decision: str, who: str, *, change: Mapping[str, Any] | None = None) -> str:
        record = {
            "schema": "reenact.vote.v1",
            "trace_id": trace.trace_id,
            "action_request_digest": trace.artifacts["action_request"]["_digest"],
            "decision": decision,
            "who": who,
            "reason": None,
            "ts": self.now(),
        }
        record = with_digest(changed(record, change))
        self.add({"kind": "vote", "vote": record})
        return str(record["digest"])

    def root(self, *, terminal_only: bool = False) -> str:
        chosen = [t for t in self.traces if t.sequence and (t.state in TERMINAL or not terminal_only)]
        return tree_root([t.leaf for t in sorted(chosen, key=lambda t: (t.index, t.trace_id))])

    def _head(self) -> str:
        return sha256_hex(b"".join(self.lines))

    def run_checkpoint(self, *, change: Mapping[str, Any] | None = None) -> None:
        record = {
            "schema": "reenact.run_checkpoint.v1",
            "run_id": self.run_id,
            "commits": len(self.bodies) + 1,
            "run_head": self._head(),
            "root": self.root(terminal_only=True),
            "open": [trace.trace_id for trace in self.traces if trace.state not in TERMINAL],
            "spent_exact": str(sum(int(record["cost_exact"]) for record in self.attempts)),
            "reserved_exact": "0",
            "duplicates": digest([]),
            "ts": self.now(),
        }
        self.add({"kind": "run_checkpoint", "run_checkpoint": with_digest(changed(record, change))})

    def attempts_root(self) -> str:
        keys = ("trace_id", "ordinal", "digest")
        return tree_root([canonicalize({key: record[key] for key in keys}) for record in self.attempts])

    def start_lines(self) -> None:
        """Begin a commit that holds nothing but what follows."""
        if not self.lines:
            prev = sha256_hex(self.bodies[-1]) if self.bodies else ZERO_DIGEST
            head = {"kind": "commit", "n": len(self.bodies) + 1, "prev": prev, "run_id": self.run_id}
            self.lines.append(canonicalize(head) + b"\n")

    def seal(
        self, status: str = "completed", *, prev: str = ZERO_DIGEST, change: Mapping[str, Any] | None = None
    ) -> Json:
        self.start_lines()
        record = {
            "schema": "reenact.seal.v1",
            "run_id": self.run_id,
            "plan_hash": plan_hash(self.assembled),
            "status": status,
            "steps_planned": len(self.plan["steps"]),
            "traces": len(self.traces),
            "commits": len(self.bodies) + 1,
            "run_head": self._head(),
            "root": self.root(),
            "attempts_root": self.attempts_root(),
            "prev_store_seal": prev,
            "sealed_at": self.now(),
        }
        self.seal_record = with_digest(changed(record, change), "seal_digest")
        self.add({"kind": "seal", "seal": self.seal_record})
        self.commit()
        return self.seal_record


def erasure(commitment: str, run_id: str, prev: str, *, who: str, reason: str, ms: int) -> Json:
    record = {
        "schema": "reenact.erasure.v1",
        "commitment": commitment,
        "run_id": run_id,
        "who": who,
        "ts": at(ms),
        "reason": reason,
        "prev": prev,
    }
    return with_digest(record)


def removal(commitment: str, after: Json, kind: str, bundle: str | None) -> Json:
    """A record of the second version that follows another one."""
    record = {key: value for key, value in after.items() if key != "digest"}
    record |= {"schema": "reenact.erasure.v2", "commitment": commitment, "prev": after["digest"]}
    return with_digest({**record, "type": kind, "bundle": bundle})


def note(key: Ed25519PrivateKey, schema: str, digest: str) -> Json:
    """What the store's key signs beside a journal."""
    text = f"{schema}\n{STORE_ID}\n{digest}\n"
    signature = b64(key.sign(text.encode()))
    return {"digest": digest, "kid": kid_of(key), "schema": schema, "signature": signature, "store_id": STORE_ID}


def signed_note(key: Ed25519PrivateKey, schema: str, digest: str) -> bytes:
    """The same as C2SP writes it, put together here by hand."""
    name, text = f"reenact/{STORE_ID}", f"{schema}\n{STORE_ID}\n{digest}\n"
    key_id = sha256(name.encode() + b"\n\x01" + public_bytes(key)).digest()[:4]
    signature = b64encode(key_id + key.sign(text.encode())).decode()
    return f"{text}\n\u2014 {name} {signature}\n".encode()


def bundle_files(
    run: Run, *, payloads: str = "full", erasures: Iterable[Json] = (), packed: bool = False
) -> dict[str, bytes]:
    """Every file of the run's bundle, manifest included; `packed` as the second version has payloads."""
    erased = list(erasures)
    gone = {record["commitment"] for record in erased}
    files = {"journal.jsonl": b"".join(run.bodies)}
    files["keys.json"] = canonicalize({kid_of(run.key): b64(public_bytes(run.key))}) + b"\n"
    if run.seal_record is not None:
        files["seal.json"] = canonicalize(run.seal_record) + b"\n"
        about_it = ("reenact.seal.v1", run.seal_record["seal_digest"])
        files["notes.jsonl"] = canonicalize(note(run.key, *about_it)) + b"\n"
        files["seal.note"] = signed_note(run.key, *about_it)
    if erased:
        files["erasures.jsonl"] = b"".join(canonicalize(record) + b"\n" for record in erased)
        signed = (note(run.key, record["schema"], record["digest"]) for record in erased)
        files["notes.jsonl"] = files.get("notes.jsonl", b"") + b"".join(canonicalize(each) + b"\n" for each in signed)
    if payloads == "full":
        values = {name: data for name, data in run.payloads.items() if name not in gone}
        if packed:
            files["payloads.jsonl.gz"] = gzipped(packed_lines(values))
        else:
            files |= {f"payloads/{name}": data for name, data in values.items()}
        plan = run.by_content.get(canonicalize(run.assembled))
        if plan is not None and plan not in gone:
            files["plan.json"] = canonicalize(whole_plan(run, gone)) + b"\n"
    return with_manifest(files, run.run_id, payloads)


def packed_lines(payloads: Mapping[str, bytes]) -> bytes:
    lines = ({"commitment": name, "envelope": b64encode(payloads[name]).decode()} for name in sorted(payloads))
    return b"".join(canonicalize(line) + b"\n" for line in lines)


def gzipped(lines: bytes) -> bytes:
    return gzip.compress(lines, mtime=0)


def content(name: str, data: bytes) -> bytes:
    """What the digest of a file covers: of packed payloads the lines, as far as they can be unpacked."""
    if not name.endswith(".gz"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return data


def whole_plan(run: Run, gone: set[str]) -> Json:
    """The plan with what its steps name, and a mark where that was erased."""
    steps = []
    for stored in run.assembled["steps"]:
        step = dict(stored)
        for field, named in stored.items():
            if not isinstance(named, dict) or set(named) != {"$commit"}:
                continue
            commitment = named["$commit"]
            if commitment not in gone:
                step[field] = msgspec.json.decode(run.payloads[commitment][32:])
            elif field == "parameters":
                step[field] = {"$erased": commitment}
            else:
                del step[field]
        steps.append(step)
    return {**run.assembled, "steps": steps}


def with_manifest(files: Mapping[str, bytes], run_id: str, payloads: str = "full") -> dict[str, bytes]:
    """The files with a manifest that fits them: what an attacker would do too."""
    others = {name: data for name, data in files.items() if name != "manifest.json"}
    manifest = {
        "schema": f"reenact.bundle.v{2 if any(name.endswith('.gz') for name in others) else 1}",
        "run_id": run_id,
        "reenact_version": VERSION,
        "payloads": payloads,
        "files": {name: sha256_hex(content(name, data)) for name, data in others.items()},
    }
    return {**others, "manifest.json": manifest_bytes(manifest)}


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """With the digest that fits it."""
    record = {key: value for key, value in manifest.items() if key != "digest"}
    return canonicalize({**record, "digest": digest(record)}) + b"\n"
