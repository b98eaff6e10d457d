"""Idempotency keys and calls that their key answered: what the verifier accepts, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tools.vectors.pieces import DROP, KEY_SECRET, b64, kid_of, public_bytes, uid
from tools.vectors.scenarios import FETCH, SEND, plan
from tools.vectors.trace import Trace
from tools.vectors.writer import Run

from reenact.verify import verify_lines
from tests.verify.test_tampering import Kept

NOBODY_KNOWS = {"key_run": DROP}
"""A run of before there were key runs."""
FIRST = uid(0xBEEF)


def codes(run: Run, secret: bytes | None = None) -> list[str]:
    keys = {kid_of(run.key): b64(public_bytes(run.key))}
    return [finding.code for finding in verify_lines(run.bodies, Kept(run), keys=keys, key_secret=secret).findings]


def new_run(step: dict[str, Any], change: Any = None) -> Run:
    return Run(0x7, plan("keys", [step]), change=change)


def called(step: dict[str, Any], key: str | None = None, change: Any = None) -> Run:
    run = new_run(step, change)
    other = {} if key is None else {"change": {"idempotency_key": key}, "entry": {"idempotency_key": key}}
    risk = {"risk": "READ", "public": ["method"]} if step is FETCH else {}
    run.step(0).request(**risk).approve().call(**other)
    run.commit()
    return run


@pytest.mark.parametrize("change", [None, NOBODY_KNOWS])
@pytest.mark.parametrize("step", [FETCH, SEND])
def test_keys_hold_as_they_are_made(step: dict[str, Any], change: Any) -> None:
    for secret in (None, KEY_SECRET):
        assert codes(called(step, change=change), secret) == []


@pytest.mark.parametrize(
    ("step", "key"), [(FETCH, "s:" + "a" * 64), (SEND, "k:" + "a" * 64)], ids=["a step's own", "a caller's"]
)
def test_another_key_is_seen_with_the_secret_of_the_store_alone(step: dict[str, Any], key: str) -> None:
    assert codes(called(step, key)) == []
    assert codes(called(step, key), KEY_SECRET) == ["ARTIFACT_LINK"]
    assert codes(called(step, key), b"another secret") == ["ARTIFACT_LINK"]


@pytest.mark.parametrize("key", ["k:" + "a" * 64, "s:" + "A" * 64, "s:" + "a" * 63, "a" * 64, uid(0x1000)])
def test_a_steps_own_key_has_its_form(key: str) -> None:
    assert codes(called(FETCH, key)) == ["ARTIFACT_LINK"]


@pytest.mark.parametrize("key", ["s:" + "a" * 64, "k:" + "g" * 64, "order-42"])
def test_a_callers_key_has_its_form(key: str) -> None:
    assert codes(called(SEND, key)) == ["ARTIFACT_LINK"]


@pytest.mark.parametrize(("step", "key"), [(FETCH, "s:" + "a" * 64), (SEND, "k:" + "a" * 64)])
def test_keys_of_a_run_without_a_key_run_are_computed_again_by_everybody(step: dict[str, Any], key: str) -> None:
    assert codes(called(step, key, NOBODY_KNOWS)) == ["ARTIFACT_LINK"]


@pytest.mark.parametrize(("change", "source"), [(None, "trace"), (NOBODY_KNOWS, "step")])
def test_the_source_of_a_key_is_that_of_its_run(change: Any, source: str) -> None:
    run = new_run(FETCH, change)
    trace = run.step(0)
    trace.request(risk="READ", public=["method"])
    meta = {**trace.artifacts["action_request"]["meta"], "idempotency_source": source}
    run = new_run(FETCH, change)
    run.step(0).request(risk="READ", public=["method"], change={"meta": meta})
    run.commit()
    assert codes(run) == ["ARTIFACT_CONTENT"]


def test_a_run_that_continues_no_other_has_its_own_key_run() -> None:
    assert codes(called(SEND, change={"key_run": uid(99)})) == ["RUN_MISMATCH"]


# -- calls that their key answered -------------------------------------------------------------------------------------


def answered(end: Callable[[Trace], object], step: dict[str, Any] = SEND, **decision: Any) -> Run:
    run = new_run(step)
    trace = run.step(0).request(**({} if step is SEND else {"risk": "READ", "public": ["method"]}))
    trace.answer_by_key(**decision).call()
    end(trace)
    run.seal("completed" if trace.state == "COMPLETED" else "failed")
    return run


def served(trace: Trace) -> None:
    trace.served("OK").effect("OK", output={"queued": True}, served_from=FIRST)


def sent(trace: Trace) -> None:
    trace.attempt("OK").effect("OK", output=None)


def sent_again(trace: Trace) -> None:
    trace.redispatch().served("OK").effect("OK", output=None, served_from=FIRST)


def refused(trace: Trace) -> None:
    trace.effect("IDEMPOTENCY_CONFLICT", status="failure", raw="DENIED")


def from_nowhere(trace: Trace) -> None:
    trace.served("OK").effect("OK", output=None)


def served_and_failed(trace: Trace) -> None:
    trace.served("OK").effect("ERR_INTERNAL", status="failure", served_from=FIRST)


def test_a_call_that_its_key_answered_holds() -> None:
    assert codes(answered(served), KEY_SECRET) == []


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (sent, "ATTEMPT_CHAIN"),
        (sent_again, "ATTEMPT_CHAIN"),
        (refused, "EFFECT_MISMATCH"),
        (from_nowhere, "EFFECT_MISMATCH"),
        (served_and_failed, "EFFECT_MISMATCH"),
    ],
)
def test_it_is_served_once_and_nothing_else(end: Callable[[Trace], object], code: str) -> None:
    assert codes(answered(end))[0] == code


def constraints(targets: list[str], step: dict[str, Any] = SEND) -> dict[str, Any]:
    run = new_run(step)
    trace = run.step(0).request(**({} if step is SEND else {"risk": "READ", "public": ["method"]}))
    return {"constraints": {**trace.claims(read_only=step is FETCH)["constraints"], "target_allowlist": targets}}


@pytest.mark.parametrize("targets", [["mail.send"], ["reenact:no-dispatch", "mail.send"], []])
def test_its_approval_permits_no_dispatch(targets: list[str]) -> None:
    assert codes(answered(served, claims=constraints(targets))) == ["CAPABILITY_MISMATCH"]


def test_no_other_approval_has_that_allowlist() -> None:
    run = new_run(SEND)
    trace = run.step(0).request()
    trace.approve(claims=constraints(["reenact:no-dispatch"])).call()
    served(trace)
    run.seal()
    assert codes(run) == ["CAPABILITY_MISMATCH"]
    named = new_run(SEND)  # also where a skill calls a resource so
    resources = [{"kind": "service", "id": "reenact:no-dispatch"}]
    named.step(0).request(change={"resources": resources}).approve().call()
    named.commit()
    assert codes(named) == ["CAPABILITY_MISMATCH"]


def test_only_a_callers_key_answers() -> None:
    assert codes(answered(served, FETCH)) == ["ARTIFACT_CONTENT"]


@pytest.mark.parametrize(
    "decision", [{"change": {"rationale": "Approved by auto"}}, {"vote": "a" * 64}], ids=["rationale", "vote"]
)
def test_nobody_was_asked(decision: dict[str, Any]) -> None:
    assert codes(answered(served, **decision))[0] == "ARTIFACT_CONTENT"
