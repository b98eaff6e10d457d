"""Evidence that is wrong and yet consistent with itself: every digest recomputes, and the verifier still sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tools.vectors.pieces import DROP, at, b64, key_of, kid_of, mint, plan_hash, public_bytes, uid
from tools.vectors.scenarios import CHANGES, FETCH, SUM_UP, plan, session, three_steps
from tools.vectors.trace import Trace
from tools.vectors.writer import Run

from reenact.verify import Report, verify_lines
from reenact.verify.order import RANKS
from tests.verify.test_tampering import Kept


def judge(run: Run) -> Report:
    return verify_lines(run.bodies, Kept(run), keys={kid_of(run.key): b64(public_bytes(run.key))})


def new_run(*steps: Any, change: Any = None, **context: Any) -> Run:
    return Run(0x7, plan("wrong", list(steps) or [FETCH], **context), change=change)


def one_step(
    *,
    request: Any = None,
    approve: Any = None,
    call: Any = None,
    attempt: Any = None,
    effect: Any = None,
    seal: Any = None,
    run: Run | None = None,
) -> Run:
    """A run of one step with changes laid over its records before their digests are made."""
    run = run or new_run()
    trace = run.step(0).request(**{"risk": "READ", "public": ["method"], **(request or {})})
    trace.approve(**(approve or {})).call(**(call or {}))
    run.commit()
    trace.attempt("OK_HTTP_CALL", **{"facts": {"http_status": 200}, "response": CHANGES, **(attempt or {})})
    trace.effect("OK_HTTP_CALL", **{"output": CHANGES, **(effect or {})})
    run.seal(change=seal)
    return run


GOOD = one_step()
REQUEST_META = GOOD.traces[0].artifacts["action_request"]["meta"]
DECISION_META = GOOD.traces[0].artifacts["supervisor_decision"]["meta"]
ARGS = GOOD.traces[0].artifacts["action_request"]["proposal"]["args"]


def proposal(**changes: Any) -> dict[str, Any]:
    return {"change": {"proposal": {"tool_server": "local", "tool_name": "http_call", "args": ARGS, **changes}}}


def intent(text: str) -> dict[str, Any]:
    return {"request": {"change": {"intent": text}}}


def called(**changes: Any) -> dict[str, Any]:
    return {"call": {"change": {"call": {"tool_server": "local", "tool_name": "http_call", "args": ARGS, **changes}}}}


def at_time(ts: str) -> dict[str, Any]:
    return {"call": {"change": {"ts": ts}, "entry": {"ts": ts}}}


def request_meta(**changes: Any) -> dict[str, Any]:
    return {"request": {"change": {"meta": {**REQUEST_META, **changes}}}}


def decision_meta(**changes: Any) -> dict[str, Any]:
    return {"approve": {"change": {"meta": {**DECISION_META, **changes}}}}


def effect_meta(**changes: Any) -> dict[str, Any]:
    return {"effect": {"meta": changes}}


def claims(**changes: Any) -> dict[str, Any]:
    return {"approve": {"claims": changes}}


def constraint(**changes: Any) -> dict[str, Any]:
    given = GOOD.traces[0].claims(read_only=True)["constraints"]
    return claims(constraints={**given, **changes})


ERROR = {"code": "X", "message": "x", "retryable": True}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    # request
    "a request of another run": (request_meta(run_id=uid(99)), "ARTIFACT_CONTENT"),
    "a request out of order": (request_meta(step_index=1), "ARTIFACT_CONTENT"),
    "a request in a turn that has not come": (request_meta(turn=1), "ARTIFACT_CONTENT"),
    "a request of a step that the plan has not": (
        {"request": {"change": {"meta": {**REQUEST_META, "step_id": "x"}, "intent": "Run http_call@0.9.0 for step x"}}},
        "PLAN_MISMATCH",
    ),
    "a request with another definition": (request_meta(definition_digest="a" * 64), "PLAN_MISMATCH"),
    "a request that tells the goal": (
        {"request": {"change": {"intent": "Tell the team what changed"}}},
        "ARTIFACT_CONTENT",
    ),
    "a request of another agent": ({"request": {"change": {"agent_id": uid(98)}}}, "ARTIFACT_CONTENT"),
    "a request for another tool": ({"request": proposal(tool_name="shell")}, "ARTIFACT_CONTENT"),
    "a public argument that the payload has not": (
        {"request": proposal(args={**ARGS, "method": "PUT"})},
        "PAYLOAD_CONTENT",
    ),
    "a caller's key that nobody gave": (request_meta(key="a" * 64), "ARTIFACT_CONTENT"),
    "a plan id that is not the run's": ({"request": {"change": {"plan_id": uid(97)}}}, "ARTIFACT_LINK"),
    # entry
    "an entry with another time": ({"request": {"entry": {"ts": at(5)}}}, "ARTIFACT_LINK"),
    "an entry with another artifact's id": ({"request": {"entry": {"artifact_id": uid(96)}}}, "ARTIFACT_LINK"),
    "an entry with another artifact's digest": ({"request": {"entry": {"artifact_digest": "a" * 64}}}, "ARTIFACT_LINK"),
    "an entry of another type": ({"request": {"entry": {"artifact_type": "tool_call"}}}, "ARTIFACT_LINK"),
    "a request's entry with a key": ({"request": {"entry": {"idempotency_key": "x"}}}, "ARTIFACT_LINK"),
    "a call's entry with another key": ({"call": {"entry": {"idempotency_key": "x"}}}, "ARTIFACT_LINK"),
    "a call's entry with another call's id": ({"call": {"entry": {"tool_call_id": uid(95)}}}, "ARTIFACT_LINK"),
    "an effect's entry with another key": ({"effect": {"entry": {"idempotency_key": "x"}}}, "ARTIFACT_LINK"),
    # decision
    "a decision on another request": ({"approve": {"change": {"action_request_id": uid(94)}}}, "ARTIFACT_LINK"),
    "a decision on a changed request": ({"approve": {"change": {"action_request_digest": "a" * 64}}}, "ARTIFACT_LINK"),
    "an approval by another gate": (decision_meta(gate="budget"), "ARTIFACT_CONTENT"),
    "an approval with an error's code": (decision_meta(code="ERR_INTERNAL"), "ARTIFACT_CONTENT"),
    "an approval in other words": ({"approve": {"change": {"rationale": "It looked fine to me"}}}, "ARTIFACT_CONTENT"),
    "an approval by a person who did not vote": ({"approve": {"by": "person"}}, "ARTIFACT_CONTENT"),
    "an approval by a vote that was not cast": ({"approve": {"by": "person", "vote": "a" * 64}}, "VOTE_MISMATCH"),
    # capability
    "a capability for another trace": (claims(trace_id=uid(93)), "CAPABILITY_MISMATCH"),
    "a capability for another plan": (claims(plan_id=uid(92)), "CAPABILITY_MISMATCH"),
    "a capability that lives longer": (claims(exp=1_767_229_200), "CAPABILITY_MISMATCH"),
    "a capability from before the decision": (claims(iat=1_767_225_598, exp=1_767_225_898), "CAPABILITY_MISMATCH"),
    "a capability from after the decision": (claims(iat=1_767_225_601, exp=1_767_225_901), "CAPABILITY_MISMATCH"),
    "a capability with a claim more": (claims(nbf=1), "CAPABILITY_MISMATCH"),
    "a capability with a claim less": (claims(nonce=DROP), "CAPABILITY_MISMATCH"),
    "a capability for another audience": (claims(aud="somebody"), "CAPABILITY_MISMATCH"),
    "a capability for another tool": (constraint(tool_name="shell"), "CAPABILITY_MISMATCH"),
    "a capability for another server": (constraint(tool_server="shell"), "CAPABILITY_MISMATCH"),
    "a capability for other targets": (constraint(target_allowlist=["everything"]), "CAPABILITY_MISMATCH"),
    "a capability for other arguments": (constraint(arg_constraints={}), "CAPABILITY_MISMATCH"),
    "a capability that lets a read write": (constraint(read_only=False), "CAPABILITY_MISMATCH"),
    "a capability that is no token": ({"approve": {"capability": "a.b"}}, "CAPABILITY_MISMATCH"),
    "a capability without a signature": ({"approve": {"capability": "e30.e30."}}, "CAPABILITY_MISMATCH"),
    # call
    "a call of another decision": ({"call": {"change": {"supervisor_decision_id": uid(91)}}}, "ARTIFACT_LINK"),
    "a call of a changed decision": ({"call": {"change": {"supervisor_decision_digest": "a" * 64}}}, "ARTIFACT_LINK"),
    "a call under another capability": ({"call": {"change": {"capability_digest": "a" * 64}}}, "ARTIFACT_LINK"),
    "a call with other arguments": (called(args={**ARGS, "method": "PUT"}), "ARTIFACT_LINK"),
    "a call of another tool": (called(tool_name="shell"), "ARTIFACT_LINK"),
    "a write that is a read": (
        {"request": {"risk": "WRITE"}, "call": {"change": {"tool_class": "read"}}},
        "ARTIFACT_CONTENT",
    ),
    "a read that is a write": ({"call": {"change": {"tool_class": "write"}}}, "ARTIFACT_CONTENT"),
    "a call too late for its capability": (at_time(at(301_000)), "CAPABILITY_EXPIRED"),
    "a call before its capability": (at_time(at(-1)), "CAPABILITY_EXPIRED"),
    # attempts and effect
    "an attempt of another place": ({"attempt": {"change": {"ordinal": 1}}}, "ATTEMPT_CHAIN"),
    "an effect of another call": ({"effect": {"change": {"tool_call_id": uid(90)}}}, "ARTIFACT_LINK"),
    "an effect of a changed call": ({"effect": {"change": {"tool_call_digest": "a" * 64}}}, "ARTIFACT_LINK"),
    "an effect that hides a cost": (
        {"attempt": {"cost": "10000000001"}, **effect_meta(cost_cents=1)},
        "EFFECT_MISMATCH",
    ),
    "an effect with more retries": (effect_meta(retries=1), "EFFECT_MISMATCH"),
    "an effect with other side effects": (
        {"attempt": {"effects": [("x", "y")]}, **effect_meta(side_effects="a" * 64)},
        "EFFECT_MISMATCH",
    ),
    "an effect that was not served": (effect_meta(served_from=uid(89)), "EFFECT_MISMATCH"),
    "a success that calls itself a failure": (effect_meta(status="failure"), "EFFECT_MISMATCH"),
    "a success with another code than its attempt": (effect_meta(code="OK"), "EFFECT_MISMATCH"),
    "a success with an error": (
        {
            "effect": {
                "change": {"outcome": {"status": "SUCCESS", "error": {"code": "X", "message": "x", "retryable": True}}}
            }
        },
        "EFFECT_MISMATCH",
    ),
    "an effect without its outcome": (
        {"effect": {"change": {"document_hashes": []}}},
        "ARTIFACT_CONTENT",
    ),
    "an outcome of another status": ({"effect": {"outcome": {"status": "partial"}}}, "PAYLOAD_CONTENT"),
    "an outcome of another cost": ({"effect": {"outcome": {"cost_cents": 5}}}, "PAYLOAD_CONTENT"),
    "an outcome of another step": ({"effect": {"outcome": {"step_id": "other"}}}, "PAYLOAD_CONTENT"),
    "an outcome that holds the output": ({"effect": {"outcome": {"details": {"output": 1}}}}, "PAYLOAD_CONTENT"),
    "an outcome with a field more": ({"effect": {"outcome": {"note": "hi"}}}, "PAYLOAD_CONTENT"),
    # seal
    "a seal of a failed run that counts as completed": ({"seal": {"traces": 0}}, "SEAL_COUNT"),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_record_that_contradicts_another_is_found(name: str) -> None:
    changes, code = CASES[name]
    report = judge(one_step(**changes))
    assert report.exit_code == 1
    assert report.first_break is not None
    assert report.first_break.code == code, report.findings
    assert report.first_break.where.commit in (1, 2)
    assert report.first_break.where.line is not None


def test_the_run_that_the_cases_start_from_holds() -> None:
    assert judge(one_step()).findings == ()


def test_a_request_without_a_commitment_is_found() -> None:
    run = new_run()
    run.step(0).request(risk="READ", change=proposal(args={"url": "x"})["change"]).deny(
        "permission", "ERR_PERMISSION_DENIED"
    )
    run.seal("failed")
    assert [finding.code for finding in judge(run).findings] == ["ARTIFACT_CONTENT"]


def test_a_denial_that_authorizes_is_found() -> None:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"])
    refusal = trace._decide("DENY", "Refused by gate budget: X", {"gate": "budget", "code": "X"}, {})
    trace._append("supervisor_decision", refusal, "AUTHORIZED", None)
    run.commit()
    report = judge(run)
    assert [finding.code for finding in report.findings] == ["ARTIFACT_LINK"]


def test_a_signature_by_another_key_breaks_authenticity_and_nothing_else() -> None:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"])
    header = {"alg": "EdDSA", "kid": kid_of(run.key), "typ": "JWT"}
    forged = mint(key_of("somebody else"), trace.claims(read_only=True), header)
    trace.approve(capability=forged).call()
    run.commit()
    trace.attempt("OK_HTTP_CALL", facts={"http_status": 200}, response=CHANGES)
    trace.effect("OK_HTTP_CALL", output=CHANGES)
    run.seal()
    report = judge(run)
    assert [finding.code for finding in report.findings] == ["CAPABILITY_SIGNATURE"]
    assert (report.integrity, report.completeness, report.authenticity) == ("holds", "holds", "broken")
    assert report.exit_code == 1


def test_a_capability_minted_just_before_the_second_of_its_decision_holds() -> None:
    assert judge(one_step(**claims(iat=1_767_225_599, exp=1_767_225_899))).findings == ()


def test_a_capability_of_another_key_than_the_runs_is_found() -> None:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"])
    trace.approve(capability=mint(key_of("somebody else"), trace.claims(read_only=True))).call()
    run.commit()
    assert judge(run).findings[0].code == "CAPABILITY_MISMATCH"


def test_an_expired_capability_may_lead_to_a_refusal_and_to_nothing_else() -> None:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"]).approve()
    run.commit()
    run.wait(3_600_000)
    trace.call()
    trace.effect("ERR_PERMISSION_DENIED", status="failure", raw="DENIED")
    run.seal("failed")
    assert judge(run).findings == ()


def test_a_failed_step_has_null_as_its_output() -> None:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
    trace.attempt("ERR_HTTP_404", facts={"http_status": 404}, response=CHANGES)
    trace.effect("ERR_HTTP_404", status="failure", output=CHANGES)
    run.seal("failed")
    assert [finding.code for finding in judge(run).findings] == ["PAYLOAD_CONTENT"]


def test_two_steps_of_a_plan_are_never_open_at_once() -> None:
    run = new_run(FETCH, SUM_UP)
    run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    run.step(1).request()
    run.commit()
    assert [finding.code for finding in judge(run).findings] == ["LINE_ORDER"]


Tail = Callable[[Run, Trace], None]


def with_tail(tail: Tail) -> Report:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    tail(run, trace)
    return judge(run)


def finish(run: Run, trace: Trace) -> None:
    trace.attempt("OK_HTTP_CALL", facts={"http_status": 200}, response=CHANGES)
    trace.effect("OK_HTTP_CALL", output=CHANGES)


def sealed_open(run: Run, trace: Trace) -> None:
    run.seal("failed")


def cancelled_open(run: Run, trace: Trace) -> None:
    run.event("cancel")
    run.seal("cancelled")


def cancelled_by_nobody(run: Run, trace: Trace) -> None:
    run.seal("cancelled")


def cancelled_and_completed(run: Run, trace: Trace) -> None:
    run.event("cancel")
    finish(run, trace)
    run.seal()


def failed_without_a_failure(run: Run, trace: Trace) -> None:
    finish(run, trace)
    run.seal("failed")


def line_after_seal(run: Run, trace: Trace) -> None:
    finish(run, trace)
    run.seal()
    run.event("finish")
    run.commit()


def second_run_record(run: Run, trace: Trace) -> None:
    run.add({"kind": "run", "run": GOOD_RUN_RECORD})
    run.commit()


def checkpoint_ahead(run: Run, trace: Trace) -> None:
    trace.checkpoint(change={"checkpoint_sequence_number": 4})
    run.commit()


def late_result(run: Run, trace: Trace) -> None:
    run.event("resolve", trace_id=trace.trace_id, who="kim@example.com")
    trace.attempt("ERR_HTTP_TIMEOUT", facts={"exceptions": [{"type": "builtins.TimeoutError", "errno": None}]})
    trace.effect("OK_HTTP_CALL", output=CHANGES)
    run.seal()


def checkpoint_elsewhere(run: Run, trace: Trace) -> None:
    finish(run, trace)
    run.run_checkpoint(change={"spent_exact": "1"})
    run.commit()


def events_backwards(run: Run, trace: Trace) -> None:
    run.event("verify", ts=at(10))
    run.event("verify", ts=at(5))
    run.commit()


GOOD_RUN_RECORD = {
    "schema": "reenact.run.v1",
    "run_id": uid(7),
    "kind": "session",
    "mode": "live",
    "parent_run": None,
    "plan_id": uid(7),
    "agent_id": uid(6),
    "plan_hash": None,
    "plan": None,
    "steps_planned": None,
    "capability_key": "a" * 16,
    "reenact_version": "0.1.0",
    "started_at": at(0),
}


@pytest.mark.parametrize(
    ("tail", "codes"),
    [
        (sealed_open, ["SEAL_STATUS"]),
        (cancelled_open, []),
        (cancelled_by_nobody, ["SEAL_STATUS"]),
        (cancelled_and_completed, ["SEAL_STATUS"]),
        (failed_without_a_failure, ["SEAL_STATUS"]),
        (line_after_seal, ["LINE_ORDER", "LINE_ORDER"]),
        (second_run_record, ["RUN_MISPLACED"]),
        (checkpoint_ahead, ["STATE_CHECKSUM_MISMATCH"]),
        (late_result, []),
        (checkpoint_elsewhere, ["STATE_CHECKSUM_MISMATCH"]),
        (events_backwards, ["LINE_ORDER"]),
    ],
)
def test_what_may_follow_a_call_in_the_journal(tail: Tail, codes: list[str]) -> None:
    assert [finding.code for finding in with_tail(tail).findings] == codes


def test_a_run_record_must_name_its_plan_as_its_kind_does() -> None:
    run = one_step(run=new_run(change={"plan_hash": "sha256:" + "a" * 64}))
    assert judge(run).findings[0].code == "PLAN_MISMATCH"
    run = one_step(run=new_run(change={"plan": None}))
    assert judge(run).findings[0].code == "PLAN_MISMATCH"


def test_a_session_is_compared_with_the_plan_that_it_assembled() -> None:
    run = session(seal=False)
    told = {**run.plan, "steps": list(reversed(run.plan["steps"]))}
    run.event("finish", data=told)
    run.seal(change={"plan_hash": plan_hash(told)})
    assert [finding.code for finding in judge(run).findings] == ["PLAN_MISMATCH"]


def test_a_sessions_plan_names_what_its_calls_were_made_with() -> None:
    for field in ("parameters", "idempotency_key"):
        run = session(seal=False)
        steps = [{**step, **trace.names()} for step, trace in zip(run.plan["steps"], run.traces, strict=True)]
        steps[2][field] = steps[0]["parameters"]
        told = {**run.plan, "steps": steps}
        run.event("finish", data=told)
        run.seal(change={"plan_hash": plan_hash(told)})
        assert [finding.code for finding in judge(run).findings] == ["PLAN_MISMATCH"], field


@pytest.mark.parametrize("named", ["nowhere", "by an event of another type", "without its plan"])
def test_a_sealed_session_has_named_the_plan_that_it_assembled(named: str) -> None:
    run = session(seal=False)
    if named == "by an event of another type":
        run.event("verify", data=run.plan)
    elif named == "without its plan":
        run.event("finish")
    run.seal(change={"plan_hash": plan_hash(run.plan)})
    assert [finding.code for finding in judge(run).findings] == ["PLAN_MISMATCH"]


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        ({}, []),
        ({"facts": None}, ["LINE_MALFORMED"]),
        ({"ended_at": None}, ["LINE_MALFORMED"]),
        ({"code": "ERR_TIMEOUT"}, ["LINE_MALFORMED"]),
        ({"cost_exact": "1"}, ["LINE_MALFORMED"]),
    ],
    ids=["as it is", "no facts", "no end", "another code", "a cost"],
)
def test_a_lost_answer_says_what_was_seen_of_it(change: dict[str, Any], codes: list[str]) -> None:
    run = new_run(SUM_UP)
    trace = run.step(0).request().approve().call()
    run.commit()
    trace.lost("no answer", "builtins.TimeoutError", change=change)
    run.commit()
    assert [finding.code for finding in judge(run).findings][:1] == codes


WENT_ON = {"lane": "main", "why": "cancelled", "waited_ms": 1, "open_ms": 2}


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (WENT_ON, []),
        ({"lane": "main", "why": "waiting", "status": "waiting", "message": "a person is asked"}, []),
        ({"lane": "main", "why": "answered"}, []),
        (None, ["RUN_MISMATCH"]),
        ({**WENT_ON, "why": "bored"}, ["PAYLOAD_CONTENT"]),
        ({**WENT_ON, "message": "more than it says"}, ["PAYLOAD_CONTENT"]),
        ({"lane": "main", "why": "waiting"}, ["PAYLOAD_CONTENT"]),
    ],
)
def test_a_caller_that_went_on_says_how_and_only_in_a_session(data: dict[str, Any] | None, codes: list[str]) -> None:
    run = session(seal=False)
    about = run.traces[0].trace_id
    run.event("went_on", data=data, trace_id=about)
    run.event("finish", data=run.plan)
    run.seal()
    assert [finding.code for finding in judge(run).findings] == codes
    planned = new_run()
    trace = planned.step(0).request(risk="READ", public=["method"]).approve().call()
    planned.commit()
    planned.event("went_on", data=data, trace_id=trace.trace_id)
    finish(planned, trace)
    planned.seal()
    assert [finding.code for finding in judge(planned).findings] == ["RUN_MISMATCH"]


@pytest.mark.parametrize("kind", ["resolve", "synthesized", "late"])
@pytest.mark.parametrize("about", [None, uid(91)])
def test_an_event_about_a_call_names_one_of_the_run(kind: str, about: str | None) -> None:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    run.event(kind, trace_id=about)
    finish(run, trace)
    run.seal()
    assert [finding.code for finding in judge(run).findings] == ["RUN_MISMATCH"]


PINNED = GOOD.plan["context"]["pins"]["skills"]["http_call@0.9.0"]


def accepted(**changes: Any) -> dict[str, Any]:
    return {"data": {"skill": "http_call@0.9.0", "pinned": PINNED, "found": "0" * 64, **changes}, "who": "kim"}


@pytest.mark.parametrize(
    ("event", "codes"),
    [
        (accepted(), []),
        ({**accepted(), "who": None}, ["RUN_MISMATCH"]),
        ({"who": "kim"}, ["RUN_MISMATCH"]),
        (accepted(found="x"), ["PAYLOAD_CONTENT"]),
        (accepted(more=1), ["PAYLOAD_CONTENT"]),
        (accepted(pinned="0" * 64), ["PLAN_MISMATCH"]),
        (accepted(skill="shell@1.0.0"), ["PLAN_MISMATCH"]),
    ],
)
def test_a_changed_skill_is_accepted_by_somebody_and_was_pinned_as_it_says(
    event: dict[str, Any], codes: list[str]
) -> None:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    run.event("accept_changed", **event)
    finish(run, trace)
    run.seal()
    assert [finding.code for finding in judge(run).findings] == codes


PINNED_HERE = {
    "skills": {"pay@1.0.0": {"definition_digest": PINNED, "price": {}, "retry": None, "side_effects": False}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (PINNED_HERE, []),
        (None, ["RUN_MISMATCH"]),
        ({"skills": {"pay@1.0.0": {"definition_digest": "x"}}}, ["PAYLOAD_CONTENT"]),
        ({**PINNED_HERE, "more": 1}, ["PAYLOAD_CONTENT"]),
    ],
)
def test_only_a_session_pins_later_and_says_what(data: dict[str, Any] | None, codes: list[str]) -> None:
    run = session(seal=False)
    run.event("pinned", data=data)
    run.commit()
    assert [finding.code for finding in judge(run).findings] == codes
    planned = new_run()
    trace = planned.step(0).request(risk="READ", public=["method"]).approve().call()
    planned.commit()
    planned.event("pinned", data=data)
    finish(planned, trace)
    planned.seal()
    assert [finding.code for finding in judge(planned).findings] == ["RUN_MISMATCH"]


def test_the_example_runs_show_every_kind_of_line() -> None:
    bodies = three_steps().bodies + session().bodies
    kinds = {json.loads(line)["kind"] for body in bodies for line in body.splitlines()}
    assert kinds == set(RANKS)
