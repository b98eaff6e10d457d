"""Writes a run's journal straight from `docs/spec/`, with nothing of the runtime's: values in, bytes out.

Ids, salts, times and the signing key are derived from names and counters, so that the same calls give the same bytes
on every machine. Each method that makes a record takes `change`, a dict laid over the record before its digest is
computed (`DROP` removes a key): that is how evidence is made that is wrong and yet consistent with itself.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reenact.values.canonical import canonicalize
from reenact.values.clock import format_ts, parse_ts
from reenact.values.digest import ZERO_DIGEST, digest, hmac_hex, sha256_hex
from reenact.values.envelope import make_envelope
from reenact.values.ids import project_uuid7

Json = dict[str, Any]
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00.000Z
VERSION = "0.1.0"
STORE_ID = "example-store"
DROP = object()
TERMINAL = ("COMPLETED", "FAILED", "DENIED")


def uid(number: int) -> str:
    """A UUIDv7 that says which one it is."""
    return f"019b76da-a800-7000-8000-{number:012x}"


def salt(name: str) -> bytes:
    """32 bytes that stand for a random salt."""
    return sha256(f"salt:{name}".encode()).digest()


def at(ms: int) -> str:
    """A time, `ms` after the examples begin."""
    return format_ts(START_MS + ms)


def key_of(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(sha256(f"key:{name}".encode()).digest())


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def kid_of(key: Ed25519PrivateKey) -> str:
    return sha256(public_bytes(key)).hexdigest()[:16]


def b64(data: bytes) -> str:
    """base64url without padding (RFC 7515, section 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def changed(record: Json, change: Mapping[str, Any] | None) -> Json:
    merged = {**record, **(change or {})}
    return {key: value for key, value in merged.items() if value is not DROP}


def with_digest(record: Json, field: str = "digest") -> Json:
    """The record with `field` computed over everything else, unless a change has already put one in."""
    if field in record:
        return record
    return {**record, field: digest(record)}


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def tree_root(leaves: list[bytes]) -> str:
    """RFC 6962, section 2.1, as its recursive definition says it."""
    return _tree_hash(leaves).hex()


def _tree_hash(leaves: list[bytes]) -> bytes:
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaf_hash(leaves[0])
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\x01" + _tree_hash(leaves[:split]) + _tree_hash(leaves[split:])).digest()


def plan_hash(plan: Json) -> str:
    return "sha256:" + digest({key: value for key, value in plan.items() if key != "created_at"})


def mint(key: Ed25519PrivateKey, claims: Json, header: Json | None = None) -> str:
    """A capability: compact JWS over canonical header and payload."""
    head = header or {"alg": "EdDSA", "kid": kid_of(key), "typ": "JWT"}
    signed = f"{b64(canonicalize(head))}.{b64(canonicalize(claims))}"
    return f"{signed}.{b64(key.sign(signed.encode()))}"


def idempotency_key(plan_salt: str, given: str) -> str:
    return "k:" + hmac_hex(bytes.fromhex(plan_salt), given.encode())


class Trace:
    """The life of one step; the run appends what its methods return."""

    def __init__(self, run: Run, step: Json, index: int, number: int) -> None:
        self.run, self.step, self.index = run, step, index
        self.number = number
        self.trace_id = uid(number)
        self.state = "PENDING"
        self.head = ZERO_DIGEST
        self.sequence = 0
        self.artifacts: dict[str, Json] = {}
        self.attempts: list[Json] = []

    @property
    def leaf(self) -> bytes:
        return canonicalize(
            {"step_index": self.index, "trace_id": self.trace_id, "head": self.head, "state": self.state}
        )

    @property
    def key(self) -> str:
        given = self.step.get("idempotency_key")
        return self.trace_id if given is None else idempotency_key(self.run.salt, given)

    def _append(self, kind: str, artifact: Json, to_state: str, change: Mapping[str, Any] | None) -> None:
        artifact = with_digest(artifact, "_digest")
        called = kind in ("tool_call", "tool_effect")
        entry = {
            "schema_id": "talos.tga.execution_log_entry",
            "schema_version": "v1",
            "trace_id": self.trace_id,
            "sequence_number": self.sequence + 1,
            "prev_entry_digest": self.head,
            "ts": artifact["ts"],
            "from_state": self.state,
            "to_state": to_state,
            "artifact_type": kind,
            "artifact_id": artifact[f"{kind}_id"],
            "artifact_digest": artifact["_digest"],
            "tool_call_id": artifact["tool_call_id"] if called else None,
            "idempotency_key": self.key if called else None,
        }
        entry = with_digest(changed(entry, change), "entry_digest")
        self.head, self.state, self.sequence = entry["entry_digest"], to_state, self.sequence + 1
        self.artifacts[kind] = artifact
        self.run.add({"kind": "entry", "entry": entry, "artifact": artifact})

    def _artifact(self, kind: str, number: int, fields: Json) -> Json:
        return {
            "schema_id": f"talos.tga.{kind}",
            "schema_version": "tga.v1",
            "trace_id": self.trace_id,
            "plan_id": self.run.plan_id,
            f"{kind}_id": uid(self.number + number),
            "ts": self.run.now(),
            "_digest_alg": "sha256",
            **fields,
        }

    def request(
        self,
        *,
        risk: str = "WRITE",
        args: Json | None = None,
        public: Iterable[str] = (),
        turn: int = 0,
        change: Mapping[str, Any] | None = None,
        entry: Mapping[str, Any] | None = None,
    ) -> Trace:
        step = self.step
        values = step.get("parameters", {}) if args is None else args
        server, dot, tool = step["skill_id"].partition(".")
        committed = {
            "$commit": self.run.put(values, f"{self.trace_id}/args"),
            **{k: values[k] for k in public},
        }
        given = step.get("idempotency_key")
        meta = {
            "run_id": self.run.run_id,
            "step_id": step["step_id"],
            "step_index": self.index,
            "turn": turn,
            "skill_id": step["skill_id"],
            "skill_version": step["skill_version"],
            "definition_digest": self.run.pinned.get(f"{step['skill_id']}@{step['skill_version']}"),
            "idempotency_source": "trace" if given is None else "caller",
        }
        if given is not None:
            meta["key"] = self.run.put(given, f"{self.trace_id}/key")
        fields = {
            "agent_id": self.run.agent_id,
            "risk_level": risk,
            "intent": f"Run {step['skill_id']}@{step['skill_version']} for step {step['step_id']}",
            "resources": [{"kind": "service", "id": step["skill_id"]}],
            "proposal": {
                "tool_server": server if dot else "local",
                "tool_name": tool if dot else server,
                "args": committed,
            },
            "meta": meta,
        }
        artifact = changed(self._artifact("action_request", 1, fields), change)
        self._append("action_request", artifact, "PENDING", entry)
        return self

    def claims(self, *, read_only: bool) -> Json:
        request = self.artifacts["action_request"]
        issued = parse_ts(self.run.now()) // 1000
        return {
            "iss": f"reenact:{STORE_ID}",
            "aud": "reenact",
            "iat": issued,
            "exp": issued + 300,
            "nonce": sha256(f"nonce:{self.trace_id}".encode()).hexdigest()[:32],
            "trace_id": self.trace_id,
            "plan_id": self.run.plan_id,
            "constraints": {
                "tool_server": request["proposal"]["tool_server"],
                "tool_name": request["proposal"]["tool_name"],
                "target_allowlist": [resource["id"] for resource in request["resources"]],
                "arg_constraints": {"$commit": request["proposal"]["args"]["$commit"]},
                "read_only": read_only,
            },
        }

    def _decide(self, decision: str, rationale: str, meta: Json, fields: Json) -> Json:
        request = self.artifacts["action_request"]
        unused = ("limit_exact", "spent_exact", "required_exact", "day_spent_exact", "model_spent_exact")
        return self._artifact(
            "supervisor_decision",
            2,
            {
                "action_request_id": request["action_request_id"],
                "action_request_digest": request["_digest"],
                "decision": decision,
                "rationale": rationale,
                "meta": {
                    "vote": None,
                    "duplicate_of": None,
                    "details": None,
                    **dict.fromkeys(unused),
                    **meta,
                },
                **fields,
            },
        )

    def approve(
        self,
        *,
        by: str = "auto",
        vote: str | None = None,
        claims: Mapping[str, Any] | None = None,
        capability: str | None = None,
        change: Mapping[str, Any] | None = None,
        entry: Mapping[str, Any] | None = None,
    ) -> Trace:
        read_only = self.artifacts["action_request"]["risk_level"] == "READ"
        minted = capability or mint(self.run.key, changed(self.claims(read_only=read_only), claims))
        meta = {"gate": "supervisor", "code": "OK", "vote": vote}
        artifact = self._decide("APPROVE", f"Approved by {by}", meta, {"minted_capability": minted})
        self._append("supervisor_decision", changed(artifact, change), "AUTHORIZED", entry)
        return self

    def deny(self, gate: str, code: str, *, change: Mapping[str, Any] | None = None, **meta: Any) -> Trace:
        facts = {"gate": gate, "code": code, **meta}
        artifact = self._decide("DENY", f"Refused by gate {gate}: {code}", facts, {})
        self._append("supervisor_decision", changed(artifact, change), "DENIED", None)
        return self

    def call(self, *, change: Mapping[str, Any] | None = None, entry: Mapping[str, Any] | None = None) -> Trace:
        request, decision = self.artifacts["action_request"], self.artifacts["supervisor_decision"]
        fields = {
            "supervisor_decision_id": decision["supervisor_decision_id"],
            "supervisor_decision_digest": decision["_digest"],
            "capability_digest": sha256_hex(decision["minted_capability"].encode()),
            "call": request["proposal"],
            "tool_class": "read" if request["risk_level"] == "READ" else "write",
            "idempotency_key": self.key,
        }
        artifact = changed(self._artifact("tool_call", 3, fields), change)
        self._append("tool_call", artifact, "EXECUTING", entry)
        return self

    def _record(self, fields: Json, change: Mapping[str, Any] | None) -> Trace:
        prev = self.attempts[-1]["digest"] if self.attempts else self.artifacts["tool_call"]["_digest"]
        done = sum(record["kind"] == "attempt" for record in self.attempts)
        record = {
            "schema": "reenact.attempt.v1",
            "trace_id": self.trace_id,
            "ordinal": len(self.attempts),
            "attempt": done,
            "facts": None,
            "code": None,
            "cost_exact": "0",
            "side_effects": [],
            "request_id": None,
            "retry_after_ms": None,
            "backoff_ms": None,
            "response": None,
            "started_at": self.run.now(),
            "ended_at": None,
            "fence": 1,
            "prev": prev,
            **fields,
        }
        record = with_digest(changed(record, change))
        self.attempts.append(record)
        self.run.attempts.append(record)
        self.run.add({"kind": "attempt", "attempt": record})
        return self

    def attempt(
        self,
        code: str,
        *,
        cost: str = "0",
        response: Any = None,
        effects: Iterable[tuple[str, str]] = (),
        facts: Json | None = None,
        change: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Trace:
        done = sum(record["kind"] == "attempt" for record in self.attempts)
        started = self.run.now()
        self.run.wait(40)
        named = None if response is None else self.run.put(response, f"{self.trace_id}/response/{done}")
        return self._record(
            {
                "kind": "attempt",
                "facts": {
                    "http_status": None,
                    "exceptions": [],
                    "usage": None,
                    "finish_reason": None,
                    **(facts or {}),
                },
                "code": code,
                "cost_exact": cost,
                "side_effects": [{"type": t, "target": to, "attempt": done} for t, to in effects],
                "response": named,
                "started_at": started,
                "ended_at": self.run.now(),
                **fields,
            },
            change,
        )

    def redispatch(self, *, cost: str = "0", change: Mapping[str, Any] | None = None, **fields: Any) -> Trace:
        return self._record({"kind": "redispatch", "cost_exact": cost, "started_at": None, **fields}, change)

    def served(self, code: str, *, response: str | None = None, change: Mapping[str, Any] | None = None) -> Trace:
        return self._record({"kind": "served", "code": code, "response": response, "ended_at": self.run.now()}, change)

    def outcome(self, code: str, status: str, *, retryable: bool, details: Json | None = None) -> Json:
        """The StructuredOutcome without `details.output`, as it goes into its envelope."""
        effects = [effect for record in self.attempts for effect in record["side_effects"]]
        return {
            "run_id": self.run.run_id,
            "step_id": self.step["step_id"],
            "status": status,
            "code": code,
            "message": f"Step {self.step['step_id']} ended with {code}",
            "details": details,
            "cost_cents": self.cost_cents,
            "latency_ms": 40,
            "retryable": retryable,
            "side_effects": [{**effect, "timestamp": self.run.now()} for effect in effects],
            "metadata": {"skill_id": self.step["skill_id"], "skill_version": self.step["skill_version"]},
            "observability": {"trace_id": self.trace_id, "span_id": None, "backend_retries": self.retries},
            "timestamp": self.run.now(),
        }

    @property
    def retries(self) -> int:
        return max(0, sum(record["kind"] == "attempt" for record in self.attempts) - 1)

    @property
    def cost_exact(self) -> int:
        return sum(int(record["cost_exact"]) for record in self.attempts)

    @property
    def cost_cents(self) -> int:
        return -(-self.cost_exact // 10**10)

    def effect(
        self,
        code: str,
        *,
        output: Any = None,
        status: str = "success",
        raw: str | None = None,
        retryable: bool = False,
        served_from: str | None = None,
        meta: Mapping[str, Any] | None = None,
        outcome: Mapping[str, Any] | None = None,
        change: Mapping[str, Any] | None = None,
        entry: Mapping[str, Any] | None = None,
    ) -> Trace:
        call = self.artifacts["tool_call"]
        good = status in ("success", "partial")
        told = changed(self.outcome(code, status, retryable=retryable), outcome)
        hashes = []
        for pointer, value in (("/output", output), ("/outcome", told)):
            named = self.run.put(value, f"{self.trace_id}{pointer}")
            size = len(self.run.payloads[named])
            hashes.append({"pointer": pointer, "hash": named, "size_bytes": size})
        effects = [[e["type"], e["target"]] for record in self.attempts for e in record["side_effects"]]
        facts = {
            "code": code,
            "status": status,
            "retryable": retryable,
            "cost_cents": self.cost_cents,
            "cost_exact": str(self.cost_exact),
            "retries": self.retries,
            "attempts": len(self.attempts),
            "attempts_head": self.attempts[-1]["digest"] if self.attempts else call["_digest"],
            "served_from": served_from,
            "side_effects": digest(effects),
        }
        result: Json = {"status": raw or ("SUCCESS" if good else "FAILURE")}
        if not good:
            message = f"Step {self.step['step_id']} ended with {code}"
            result["error"] = {"code": code, "message": message, "retryable": retryable}
        fields = {
            "tool_call_id": call["tool_call_id"],
            "tool_call_digest": call["_digest"],
            "outcome": result,
            "document_hashes": hashes,
            "content_hash_alg": "sha256",
            "meta": changed(facts, meta),
        }
        artifact = changed(self._artifact("tool_effect", 4, fields), change)
        self._append("tool_effect", artifact, "COMPLETED" if good else "FAILED", entry)
        return self

    def checkpoint(self, *, change: Mapping[str, Any] | None = None) -> Trace:
        state = {
            "trace_id": self.trace_id,
            "plan_id": self.run.plan_id,
            "current_state": self.state,
            "last_sequence_number": self.sequence,
            "last_entry_digest": self.head,
        }
        record = {
            "schema_id": "talos.tga.execution_checkpoint",
            "schema_version": "v1",
            "trace_id": self.trace_id,
            "checkpoint_sequence_number": self.sequence,
            "checkpoint_state": state,
            "checkpoint_digest": digest(state),
            "ts": self.run.now(),
        }
        self.run.add({"kind": "checkpoint", "checkpoint": changed(record, change)})
        return self


class Run:
    """A run being written. `commit()` closes the lines added so far into one commit body."""

    def __init__(self, number: int, plan: Json, *, kind: str = "plan", change: Mapping[str, Any] | None = None) -> None:
        self.run_id = uid(number)
        self.kind, self.plan = kind, plan
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
        self.add({"kind": "run", "run": changed(record, change)})

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
            "plan_hash": plan_hash(self.plan),
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


def bundle_files(run: Run, *, payloads: str = "full", erasures: Iterable[Json] = ()) -> dict[str, bytes]:
    """Every file of the run's bundle, manifest included."""
    erased = list(erasures)
    gone = {record["commitment"] for record in erased}
    files = {"journal.jsonl": b"".join(run.bodies)}
    files["keys.json"] = canonicalize({kid_of(run.key): b64(public_bytes(run.key))}) + b"\n"
    if run.seal_record is not None:
        files["seal.json"] = canonicalize(run.seal_record) + b"\n"
    if erased:
        files["erasures.jsonl"] = b"".join(canonicalize(record) + b"\n" for record in erased)
    if payloads == "full":
        files |= {f"payloads/{name}": data for name, data in run.payloads.items() if name not in gone}
        plan = run.by_content.get(canonicalize(run.plan))
        if plan is not None and plan not in gone:
            files["plan.json"] = canonicalize(run.plan) + b"\n"
    return with_manifest(files, run.run_id, payloads)


def with_manifest(files: Mapping[str, bytes], run_id: str, payloads: str = "full") -> dict[str, bytes]:
    """The files with a manifest that fits them: what an attacker would do too."""
    others = {name: data for name, data in files.items() if name != "manifest.json"}
    manifest = {
        "schema": "reenact.bundle.v1",
        "run_id": run_id,
        "reenact_version": VERSION,
        "payloads": payloads,
        "files": {name: sha256_hex(data) for name, data in others.items()},
    }
    return {**others, "manifest.json": canonicalize(manifest) + b"\n"}
