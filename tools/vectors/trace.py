"""One step's records, as `docs/spec/` says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from reenact.values.canonical import canonicalize
from reenact.values.clock import parse_ts
from reenact.values.digest import ZERO_DIGEST, digest, sha256_hex
from tools.vectors.pieces import STORE_ID, Json, callers_key, changed, mint, salted_key, steps_key, uid, with_digest

if TYPE_CHECKING:
    from tools.vectors.writer import Run


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
        self.args: Json = {}

    @property
    def leaf(self) -> bytes:
        return canonicalize(
            {"step_index": self.index, "trace_id": self.trace_id, "head": self.head, "state": self.state}
        )

    @property
    def key(self) -> str:
        given, run = self.step.get("idempotency_key"), self.run
        if run.key_run is None:
            return self.trace_id if given is None else salted_key(run.salt, given)
        if given is not None:
            return callers_key(*self.tool, given)
        return steps_key(run.key_run, self.step["step_id"], *self.tool, run.salt, self.args)

    @property
    def tool(self) -> tuple[str, str]:
        """(server, tool)"""
        server, dot, tool = self.step["skill_id"].partition(".")
        return (server, tool) if dot else ("local", server)

    def names(self) -> Json:
        """What a session's plan says of the call: what it was made with, by commitments."""
        request = self.artifacts["action_request"]
        names = {"parameters": {"$commit": request["proposal"]["args"]["$commit"]}}
        return names | ({"idempotency_key": {"$commit": request["meta"]["key"]}} if "key" in request["meta"] else {})

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
        values = self.args = step.get("parameters", {}) if args is None else args
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
            "idempotency_source": "caller" if given is not None else "trace" if self.run.key_run is None else "step",
        }
        if given is not None:
            meta["key"] = self.run.put(given, f"{self.trace_id}/key")
        fields = {
            "agent_id": self.run.agent_id,
            "risk_level": risk,
            "intent": f"Run {step['skill_id']}@{step['skill_version']} for step {step['step_id']}",
            "resources": [{"kind": "service", "id": step["skill_id"]}],
            "proposal": {
                "tool_server": self.tool[0],
                "tool_name": self.tool[1],
                "args": committed,
            },
            "meta": meta,
        }
        artifact = changed(self._artifact("action_request", 1, fields), change)
        self._append("action_request", artifact, "PENDING", entry)
        return self

    def bound(self, by: str, vote: str | None) -> dict[str, str]:
        """What an approval is bound to; sessions as earlier releases wrote them bind the arguments alone."""
        request, run = self.artifacts["action_request"], self.run
        if run.key_run is None:
            return {}
        bindings = {
            "agent": run.agent_id,
            "approver": by,
            "arguments": request["proposal"]["args"]["$commit"],
            "definition": request["meta"]["definition_digest"],
            "mode": run.record["mode"],
            "plan": run.record["plan_hash"],
            "request": request["_digest"],
            "run": run.run_id,
            "vote": vote,
        }
        return {"$bounds": sha256(canonicalize(bindings)).hexdigest()[:32]}

    def claims(self, *, read_only: bool, by: str = "auto", vote: str | None = None) -> Json:
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
                "arg_constraints": {"$commit": request["proposal"]["args"]["$commit"], **self.bound(by, vote)},
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
        own = self.claims(read_only=read_only, by=by, vote=vote)
        minted = capability or mint(self.run.key, changed(own, claims))
        meta = {"gate": "supervisor", "code": "OK", "vote": vote, **self._amounts()}
        artifact = self._decide("APPROVE", f"Approved by {by}", meta, {"minted_capability": minted})
        self._append("supervisor_decision", changed(artifact, change), "AUTHORIZED", entry)
        return self

    def _amounts(self) -> Json:
        """What the budget was asked: nothing more than was spent before, out of the run's limit."""
        cents = self.run.plan["context"].get("budget_cents")
        spent = sum(trace.cost_exact for trace in self.run.traces)
        limited = {"limit_exact": f"{cents}0000000000", "spent_exact": str(spent), "required_exact": "0"}
        return {} if cents is None else limited

    def answer_by_key(
        self, *, claims: Mapping[str, Any] | None = None, change: Mapping[str, Any] | None = None, **meta: Any
    ) -> Trace:
        """The approval of a call that its key answers: nothing may be dispatched under it."""
        read_only = self.artifacts["action_request"]["risk_level"] == "READ"
        allowed = self.claims(read_only=read_only, by="key")
        allowed["constraints"]["target_allowlist"] = ["reenact:no-dispatch"]
        facts = {"gate": "key", "code": "OK", **meta}
        fields = {"minted_capability": mint(self.run.key, changed(allowed, claims))}
        artifact = self._decide("APPROVE", "Answered by its idempotency key", facts, fields)
        self._append("supervisor_decision", changed(artifact, change), "AUTHORIZED", None)
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

    def lost(self, cause: str, exception: str, *, change: Mapping[str, Any] | None = None) -> Trace:
        """The answer is lost; its caller is told so."""
        started = self.run.now()
        self.run.wait(40)
        told = self.outcome("ERR_IN_DOUBT", "failure", retryable=False, details={"cause": cause})
        facts = {"http_status": None, "exceptions": [{"type": exception, "errno": None}]}
        record = {
            "kind": "lost",
            "facts": {**facts, "usage": None, "finish_reason": None},
            "code": "ERR_IN_DOUBT",
            "response": self.run.put(told, f"{self.trace_id}/told/{len(self.attempts)}"),
            "started_at": started,
            "ended_at": self.run.now(),
        }
        return self._record(record, change)

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
