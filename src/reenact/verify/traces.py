"""One trace: its artifacts held against each other, its attempts against the effect that sums them up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from reenact.values.canonical import canonicalize
from reenact.values.digest import digest, hmac_hex, sha256_hex
from reenact.verify.calls.attempts import AttemptChain
from reenact.verify.capability import KeyRing, Token, check_capability, milliseconds
from reenact.verify.entries import EntryChain, artifact_problem, link_problem
from reenact.verify.lines import EntryLine, fit
from reenact.verify.payloads import PayloadCheck, Value
from reenact.verify.plan import Outputs, check_step
from reenact.verify.report import Problem, Where, first_difference
from reenact.verify.shapes import (
    ActionRequest,
    Attempt,
    Checkpoint,
    Claims,
    EffectError,
    EffectMeta,
    Entry,
    Outcome,
    Plan,
    RequestMeta,
    Run,
    SupervisorDecision,
    ToolCall,
    ToolEffect,
    Vote,
)

PLAIN_PART: Final = re.compile(r"[a-z0-9_-]{1,64}")
COMMITMENT: Final = re.compile(r"[0-9a-f]{64}")
STANDS_FOR: Final = re.compile(r"x-[0-9a-f]{32}")
NO_DISPATCH = ["reenact:no-dispatch"]
"""The allowlist of an approval under which nothing may be sent."""
BEGIN = {"caller": "k:", "step": "s:"}
TAKEN_OUT = (b'{"$sealed":', b"[redacted]")
"""What stands where a secret was: then the value that a key was made of is not known."""


class KeyCheck(msgspec.Struct, kw_only=True):
    """What the idempotency keys of a run must be, as far as can be told: all of it only with the store's secret."""

    secret: bytes | None = None
    salt: bytes | None = None
    """That of the run's plan, once it is known."""

    def expected(self, run: Run, request: ActionRequest, given: object, args: Value | None) -> str | None:
        """None where only the form can be asked for."""
        source, salt = request.meta.idempotency_source, self.salt
        if source == "trace":
            return request.trace_id
        if run.key_run is UNSET:
            return "k:" + hmac_hex(salt, given.encode()) if isinstance(given, str) and salt is not None else None
        place = (request.proposal.tool_server, request.proposal.tool_name)
        parts: list[object] = ["caller", *place, given]
        if source == "step":
            content = b"" if args is None else canonicalize(args.value)
            if salt is None or not content or any(mark in content for mark in TAKEN_OUT):
                return None
            parts = ["step", run.key_run, request.meta.step_id, *place, hmac_hex(salt, content)]
        elif not isinstance(given, str) or "[redacted]" in given:
            return None
        if run.mode in ("full_replay", "fork"):
            parts.append(run.run_id)
        return None if self.secret is None else BEGIN[source] + hmac_hex(self.secret, canonicalize(parts))


class Scene(msgspec.Struct, kw_only=True):
    """What a trace is checked against: the run around it."""

    run: Run
    plan: Plan | None
    payloads: PayloadCheck
    ring: KeyRing
    keys: KeyCheck
    votes: Mapping[str, Vote]
    outputs: Mapping[str, str | None]
    turns: int
    where: Where


class Trace:
    """Folds the lines of one trace. After the last entry only what the seal needs is kept."""

    __slots__ = (
        "attempts",
        "call",
        "chain",
        "claims",
        "damaged",
        "decision",
        "expected_key",
        "expires",
        "index",
        "overruled",
        "request",
        "step_id",
        "trace_id",
    )

    def __init__(self, trace_id: str, index: int) -> None:
        self.trace_id = trace_id
        self.index = index
        self.step_id: str | None = None
        self.chain = EntryChain()
        self.request: ActionRequest | None = None
        self.decision: SupervisorDecision | None = None
        self.claims: Claims | None = None
        self.call: ToolCall | None = None
        self.attempts: AttemptChain | None = None
        self.expires: int | None = None  # Unix milliseconds, set when the call came too late
        self.expected_key: str | None = None
        self.damaged = False  # set once the chain is broken: what follows would only repeat it
        self.overruled = False  # a person or a late result decided the outcome

    def leaf(self) -> bytes:
        return canonicalize(
            {
                "head": self.chain.head,
                "state": self.chain.state,
                "step_index": self.index,
                "trace_id": self.trace_id,
            }
        )

    def entry(self, line: EntryLine, value: Mapping[str, Any], scene: Scene, /) -> Iterator[Problem]:
        """Append an entry with its artifact; yields what is wrong, the most telling first."""
        broken = self.damaged
        if self.step_id is None and isinstance(line.artifact, ActionRequest):
            self.step_id = line.artifact.meta.step_id
        # Step 4.2: the artifact itself and the entry beside it.
        problem = artifact_problem(line, value["artifact"], scene.run.plan_id) or link_problem(line)
        # Step 4.1: the entry's place in the chain.
        chained = self.chain.append(value["entry"])
        problem = problem or chained
        if problem is not None:
            self.damaged = True
        if broken:
            return
        if problem is not None:
            yield problem
            return
        artifact = line.artifact
        if isinstance(artifact, ActionRequest):
            yield from self._request(artifact, scene)
        elif isinstance(artifact, SupervisorDecision):
            yield from self._decide(artifact, scene)
        elif isinstance(artifact, ToolCall):
            yield from self._call(artifact, line.entry)
        else:
            yield from self._effect(artifact, line.entry, scene)
        if self.chain.terminal:
            self.request = self.decision = self.claims = self.call = self.attempts = None

    def _request(self, request: ActionRequest, scene: Scene) -> Iterator[Problem]:
        self.request = request
        meta = request.meta
        where = msgspec.structs.replace(scene.where, step_id=meta.step_id)
        server, dot, tool = meta.skill_id.partition(".")
        own = "trace" if scene.run.key_run is UNSET else "step"
        difference = first_difference(
            "ARTIFACT_CONTENT",
            (
                ("meta.run_id", scene.run.run_id, meta.run_id),
                ("agent_id", scene.run.agent_id, request.agent_id),
                ("meta.step_index", self.index, meta.step_index),
                ("intent", _intent(meta), request.intent),
                ("tool_server", _projected(server if dot else "local"), request.proposal.tool_server),
                ("tool_name", _projected(tool if dot else server), request.proposal.tool_name),
                ("meta.idempotency_source", own if meta.key is UNSET else "caller", meta.idempotency_source),
                ("meta.turn is not ahead of the turns", True, meta.turn <= scene.turns),
            ),
        )
        if difference is not None:
            yield difference
        yield from _check_args(request.proposal.args, scene.payloads, where)
        args = scene.payloads.value(fit_commitment(request.proposal.args), where)
        if scene.plan is not None and scene.run.kind == "plan":
            outputs = Outputs(scene.outputs, lambda named: scene.payloads.value(named, where))
            yield from check_step(scene.plan, meta, scene.run.mode, args, outputs)
        given = None if meta.key is UNSET else scene.payloads.value(str(meta.key), where)
        if given is not None and not isinstance(given.value, str):
            yield Problem("PAYLOAD_CONTENT", "the caller's idempotency key is not a string")
        self.expected_key = scene.keys.expected(scene.run, request, given and given.value, args)

    def _decide(self, decision: SupervisorDecision, scene: Scene) -> Iterator[Problem]:
        request = self.request
        assert request is not None  # the chain is whole, so the request came first
        self.decision = decision
        meta, approved = decision.meta, self.chain.state == "AUTHORIZED"
        refusal = f"Refused by gate {meta.gate}: {meta.code}"
        of_key = meta.gate == "key"
        difference = first_difference(
            "ARTIFACT_LINK",
            (
                ("action_request_id", request.action_request_id, decision.action_request_id),
                ("action_request_digest", request.digest, decision.action_request_digest),
                ("the decision", "APPROVE" if approved else "DENY", decision.decision),
                ("minted_capability is there", approved, decision.minted_capability is not UNSET),
            ),
        ) or first_difference(
            "ARTIFACT_CONTENT",
            (
                ("meta.gate", "supervisor" if approved and not of_key else meta.gate, meta.gate),
                ("the gate `key` decides about a caller's key", of_key, of_key and request.meta.key is not UNSET),
                ("meta.vote of the gate `key`", None, meta.vote if of_key else None),
                ("meta.code is OK", approved, meta.code == "OK"),
                ("rationale", _approval(decision) if approved else refusal, decision.rationale),
            ),
        )
        if difference is not None:
            yield difference
        if meta.vote is not None:
            yield from _check_vote(meta.vote, decision, scene)
        scene.payloads.see(meta.details, scene.where)
        # Step 4.3: the capability.
        if decision.minted_capability is not UNSET:
            token = Token(str(decision.minted_capability))
            self.claims = token.claims
            targets = NO_DISPATCH if of_key else [resource.id for resource in request.resources]
            kid = scene.ring.kid_at(scene.run.run_id, scene.run.capability_key, scene.where.commit)
            yield from check_capability(token, scene.run, kid, request, decision, scene.ring, targets)
            if targets == NO_DISPATCH and not of_key:
                yield Problem("CAPABILITY_MISMATCH", "an approval of the supervisor under which nothing may be sent")

    def _call(self, call: ToolCall, entry: Entry) -> Iterator[Problem]:
        request, decision = self.request, self.decision
        assert request is not None
        assert decision is not None
        self.call = call
        self.attempts = AttemptChain(call.digest)
        proposed, called = canonicalize(request.proposal), canonicalize(call.call)
        difference = first_difference(
            "ARTIFACT_LINK",
            (
                ("supervisor_decision_id", decision.supervisor_decision_id, call.supervisor_decision_id),
                ("supervisor_decision_digest", decision.digest, call.supervisor_decision_digest),
                ("capability_digest", _text_digest(decision.minted_capability), call.capability_digest),
                ("call", proposed.decode(), called.decode()),
                ("the entry's tool_call_id", call.tool_call_id, entry.tool_call_id),
                ("the entry's idempotency_key", call.idempotency_key, entry.idempotency_key),
                ("idempotency_key", self._expected_key(call.idempotency_key), call.idempotency_key),
            ),
        ) or first_difference(
            "ARTIFACT_CONTENT",
            (("the class of a call of this risk", _class_of(request, call), call.tool_class),),
        )
        if difference is not None:
            yield difference
        yield from self._check_limits(call)

    def _check_limits(self, call: ToolCall) -> Iterator[Problem]:
        """Step 4.3: `read_only` and the lifetime, the two claims that only the call can be held against."""
        claims = self.claims
        if claims is None:
            return
        if claims.constraints.read_only != (call.tool_class == "read"):
            expected, got = call.tool_class == "read", claims.constraints.read_only
            yield Problem("CAPABILITY_MISMATCH", "the capability's read_only", expected, got)
        called = milliseconds(call.ts)
        if called is None or not claims.iat * 1000 <= called < claims.exp * 1000:
            self.expires = claims.exp * 1000

    def _expected_key(self, got: str) -> str:
        """What the key must be; its form alone where that cannot be told."""
        assert self.request is not None
        if self.expected_key is not None:
            return self.expected_key
        begin = BEGIN[self.request.meta.idempotency_source]
        keyed = got.startswith(begin) and len(got) == 66 and set(got[2:]) <= set("0123456789abcdef")
        return got if keyed else f"{begin} and 64 hex digits"

    @property
    def _answered(self) -> bool:
        """By its key: nothing is sent for such a call."""
        return self.decision is not None and self.decision.meta.gate == "key"

    def attempt(self, record: Attempt, value: Mapping[str, Any], /) -> Iterator[Problem]:
        """Append an attempt record."""
        if self.damaged:
            return
        if self.attempts is None or self.chain.state != "EXECUTING":
            self.damaged = True
            what = "an attempt is recorded while the call is not executing"
            yield Problem("ATTEMPT_CHAIN", what, "EXECUTING", self.chain.state)
            return
        problem = self.attempts.append(record, value)
        if problem is None and self._answered and record.kind != "served":
            what = "a dispatch of a call that its key answered"
            problem = Problem("ATTEMPT_CHAIN", what, "served", record.kind)
        if problem is not None:
            self.damaged = True
            yield problem
        elif self.expires is not None and record.kind != "served":
            yield Problem("CAPABILITY_EXPIRED", "a dispatch under an expired capability")

    def loss_problem(self, told: Value) -> Problem | None:
        """What is wrong with the outcome that a caller got whose answer was lost."""
        outcome = fit(told.value, Outcome, "PAYLOAD_CONTENT")
        if isinstance(outcome, Problem):
            return outcome.of("PAYLOAD_CONTENT", "the outcome of a lost answer")
        return first_difference(
            "PAYLOAD_CONTENT",
            (
                ("the outcome's step_id", self.step_id, outcome.step_id),
                ("the outcome's trace_id", self.trace_id, outcome.observability.trace_id),
                ("the outcome of a lost answer", ("failure", "ERR_IN_DOUBT"), (outcome.status, outcome.code)),
                ("whether it may be called again", False, outcome.retryable),
            ),
        )

    def _effect(self, effect: ToolEffect, entry: Entry, scene: Scene) -> Iterator[Problem]:
        call, attempts = self.call, self.attempts
        assert call is not None
        assert attempts is not None
        # Step 4.2: the link to the call.
        linked = first_difference(
            "ARTIFACT_LINK",
            (
                ("tool_call_id", call.tool_call_id, effect.tool_call_id),
                ("tool_call_digest", call.digest, effect.tool_call_digest),
                ("the entry's tool_call_id", call.tool_call_id, entry.tool_call_id),
                ("the entry's idempotency_key", call.idempotency_key, entry.idempotency_key),
            ),
        )
        if linked is not None:
            yield linked
        # Step 4.4: what follows from the attempts.
        summed = attempts.summary_problem(effect.meta) or self._status_problem(effect, attempts)
        if summed is not None:
            yield summed
        if self.expires is not None and effect.outcome.status != "DENIED":
            yield Problem("CAPABILITY_EXPIRED", "the call's capability had expired when it was made")
        yield from self._check_documents(effect, scene)

    def _status_problem(self, effect: ToolEffect, attempts: AttemptChain) -> Problem | None:
        meta, outcome = effect.meta, effect.outcome
        good = self.chain.state == "COMPLETED"
        wanted = None
        if not good:
            message = f"Step {self.step_id} ended with {meta.code}"
            wanted = EffectError(code=meta.code, message=message[:200], retryable=meta.retryable)
        told = None if outcome.error is UNSET else outcome.error
        pairs: list[tuple[str, object, object]] = [
            ("outcome.status is SUCCESS", good, outcome.status == "SUCCESS"),
            ("meta.status is a success", good, meta.status in ("success", "partial")),
            ("outcome.error", wanted, told),
        ]
        if self._answered:
            pairs.append(("a call that its key answered succeeds, served once", 1, attempts.count if good else 0))
        if good and attempts.last is not None and not self.overruled:
            pairs.append(("the code of the last attempt", attempts.last.code, meta.code))
        return first_difference("EFFECT_MISMATCH", pairs)

    def _check_documents(self, effect: ToolEffect, scene: Scene) -> Iterator[Problem]:
        """Step 4.7: output and outcome."""
        pointers = [item.pointer for item in effect.document_hashes]
        if pointers != ["/output", "/outcome"]:
            yield Problem("ARTIFACT_CONTENT", "document_hashes", "/output, /outcome", ", ".join(pointers))
            return
        output, outcome = effect.document_hashes
        scene.payloads.see(output.hash, scene.where, size=output.size_bytes)
        if self.chain.state == "FAILED":
            found = scene.payloads.value(output.hash, scene.where)
            if found is not None and found.value is not None:
                yield Problem("PAYLOAD_CONTENT", "the output of a failed step is not null")
        scene.payloads.see(outcome.hash, scene.where, size=outcome.size_bytes)
        told = scene.payloads.value(outcome.hash, scene.where)
        if told is not None and self.request is not None:
            yield from _check_outcome(told, effect.meta, self.request)

    def checkpoint(self, record: Checkpoint, plan_id: str) -> Problem | None:
        """A checkpoint of this trace against what its entries fold to."""
        if self.damaged:
            return None
        inner = record.checkpoint_state
        return first_difference(
            "STATE_CHECKSUM_MISMATCH",
            (
                ("checkpoint_digest", digest(inner), record.checkpoint_digest),
                ("checkpoint_state.trace_id", record.trace_id, inner.trace_id),
                (
                    "checkpoint_sequence_number",
                    inner.last_sequence_number,
                    record.checkpoint_sequence_number,
                ),
                ("checkpoint_state.plan_id", plan_id, inner.plan_id),
                ("checkpoint_state.current_state", self.chain.state, inner.current_state),
                ("checkpoint_state.last_sequence_number", self.chain.sequence, inner.last_sequence_number),
                ("checkpoint_state.last_entry_digest", self.chain.head, inner.last_entry_digest),
            ),
        )


def _text_digest(text: object) -> str:
    return sha256_hex(text.encode()) if isinstance(text, str) else "none"


def _projected(part: str) -> str:
    """A server or a tool as an artifact names it (docs/spec/README.md, "Identifiers")."""
    if PLAIN_PART.fullmatch(part) and not STANDS_FOR.fullmatch(part):
        return part
    return f"x-{sha256_hex(part.encode())[:32]}"


def _intent(meta: RequestMeta) -> str:
    return f"Run {meta.skill_id}@{meta.skill_version or 'unknown'} for step {meta.step_id}"


def _approval(decision: SupervisorDecision) -> str:
    """The rationale that an approval must have: `person` if and only if a vote decided."""
    if decision.meta.gate == "key":
        return "Answered by its idempotency key"
    if decision.meta.vote is not None:
        return "Approved by person"
    automatic = ("Approved by auto", "Approved by policy")
    return decision.rationale if decision.rationale in automatic else automatic[0]


def _class_of(request: ActionRequest, call: ToolCall) -> str:
    """READ reads and WRITE writes; of high risk may be either."""
    return {"READ": "read", "WRITE": "write"}.get(request.risk_level, call.tool_class)


def fit_commitment(args: Mapping[str, Any]) -> str | None:
    """The commitment of the arguments; None where what stands there is none."""
    named = args.get("$commit")
    return named if isinstance(named, str) and COMMITMENT.fullmatch(named) else None


def _check_args(args: Mapping[str, Any], payloads: PayloadCheck, where: Where) -> Iterator[Problem]:
    named = fit_commitment(args)
    if named is None:
        yield Problem("ARTIFACT_CONTENT", "args.$commit is not a commitment")
        return
    payloads.see(named, where)
    public = {key: item for key, item in args.items() if key != "$commit"}
    found = payloads.value(named, where) if public else None
    if found is None:
        return
    told = {key: found.value[key] for key in public if key in found.value} if isinstance(found.value, dict) else {}
    if canonicalize(told) != canonicalize(public):
        yield Problem("PAYLOAD_CONTENT", "public arguments differ from those in the payload")


def _check_vote(named: str, decision: SupervisorDecision, scene: Scene) -> Iterator[Problem]:
    vote = scene.votes.get(named)
    if vote is None:
        yield Problem("VOTE_MISMATCH", "the decision names a vote that was not cast before it")
        return
    difference = first_difference(
        "VOTE_MISMATCH",
        (
            ("the vote's trace_id", decision.trace_id, vote.trace_id),  # of which it was held against the request
            ("the vote's decision", decision.decision, vote.decision),
        ),
    )
    if difference is not None:
        yield difference


def _check_outcome(told: Value, meta: EffectMeta, request: ActionRequest) -> Iterator[Problem]:
    outcome = fit(told.value, Outcome, "PAYLOAD_CONTENT")
    if isinstance(outcome, Problem):
        yield outcome.of("PAYLOAD_CONTENT", "the outcome")
        return
    effects = [[effect.type, effect.target] for effect in outcome.side_effects]
    took = outcome.latency_ms if meta.latency_ms is UNSET else meta.latency_ms
    difference = first_difference(
        "PAYLOAD_CONTENT",
        (
            ("the outcome's run_id", request.meta.run_id, outcome.run_id),
            ("the outcome's step_id", request.meta.step_id, outcome.step_id),
            ("the outcome's status", meta.status, outcome.status),
            ("the outcome's code", meta.code, outcome.code),
            ("the outcome's retryable", meta.retryable, outcome.retryable),
            ("the outcome's cost_cents", meta.cost_cents, outcome.cost_cents),
            ("the outcome's backend_retries", meta.retries, outcome.observability.backend_retries),
            ("the outcome's trace_id", request.trace_id, outcome.observability.trace_id),
            ("the outcome's skill_id", request.meta.skill_id, outcome.metadata.skill_id),
            ("the outcome's side_effects", meta.side_effects, digest(effects)),
            ("the outcome's latency_ms", took, outcome.latency_ms),
            ("the outcome leaves out details.output", True, "output" not in (outcome.details or {})),
        ),
    )
    if difference is not None:
        yield difference
