"""Runs that are signed by the store's own key, of which every digest fits, and that contradict themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tools.vectors.pieces import DROP, at, key_of, kid_of, mint, uid
from tools.vectors.scenarios import CHANGES, FETCH, SEND, SUM_UP, plan, session
from tools.vectors.trace import Trace
from tools.vectors.writer import Run, bundle_files

from tests.tampering.forging import remade
from tests.tampering.kinds.kind import Change, Kind, drop
from tests.verify import test_contradictions as cases
from tests.verify import test_keys as keys
from tests.verify.test_contradictions import finish, new_run, one_step

ONE = "one step"


def made(name: str, make: Callable[[], Run], of: str = ONE, then: Change = lambda files: files) -> Kind:
    def bundle(_: dict[str, bytes]) -> dict[str, bytes]:
        run = make()
        if run.lines:
            run.commit()
        journal = b"".join(run.bodies)
        run.payloads = {name: data for name, data in run.payloads.items() if name.encode() in journal}
        return remade(then(bundle_files(run)))

    return Kind(name, of, bundle)


def begun() -> tuple[Run, Trace]:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    return run, trace


def tailed(tail: Callable[[Run, Trace], object]) -> Callable[[], Run]:
    """What follows a call that was sent."""

    def make() -> Run:
        run, trace = begun()
        tail(run, trace)
        return run

    return make


def ended(*lines: Callable[[Run, Trace], object]) -> Callable[[], Run]:
    """The same, and then it ends as it should, and is sealed."""

    def tail(run: Run, trace: Trace) -> None:
        for line in lines:
            line(run, trace)
        finish(run, trace)
        run.seal()

    return tailed(tail)


def event(kind: str, **fields: Any) -> Callable[[Run, Trace], object]:
    return lambda run, trace: run.event(kind, **fields)


def lost(**changes: Any) -> Callable[[], Run]:
    def make() -> Run:
        run = new_run(SEND | {"parameters": {"to": "x", "body": "y"}})
        trace = run.step(0).request().approve().call()
        trace.lost("no answer", "builtins.TimeoutError", change=changes)
        trace.attempt("OK", response={"queued": True})
        trace.effect("OK", output={"queued": True})
        run.seal()
        return run

    return make


def lost_outcome(**changes: Any) -> Callable[[], Run]:
    """What the caller of a lost answer was told."""

    def make() -> Run:
        run = new_run(SEND | {"parameters": {"to": "x", "body": "y"}})
        trace = run.step(0).request().approve().call()
        told = trace.outcome("ERR_IN_DOUBT", "failure", retryable=False, details={"cause": "?"})
        trace.lost("?", "builtins.TimeoutError", change={"response": run.put({**told, **changes}, "told")})
        trace.attempt("OK", response={"queued": True})
        trace.effect("OK", output={"queued": True})
        run.seal()
        return run

    return make


def sealed_session(said: Callable[[Run], object], **seal: Any) -> Callable[[], Run]:
    def make() -> Run:
        run = session(seal=False)
        said(run)
        run.seal(change=seal)
        return run

    return make


def told_otherwise(run: Run, told: dict[str, Any]) -> None:
    run.event("finish", data=told)
    run.assembled = told


def _parameters_exchanged(run: Run) -> None:
    steps = [{**step, **trace.names()} for step, trace in zip(run.plan["steps"], run.traces, strict=True)]
    steps[2]["parameters"] = steps[0]["parameters"]
    told_otherwise(run, {**run.plan, "steps": steps})


def voted(decision: str = "APPROVE", change: Any = None, twice: bool = False) -> Callable[[], Run]:
    def make() -> Run:
        run = new_run(supervisor="ask")
        trace = run.step(0).request(risk="READ", public=["method"])
        run.commit()
        vote = run.vote(trace, decision, "kim", change=change)
        run.commit()
        trace.approve(by="person", vote=vote).call()
        if twice:
            run.commit()
            run.vote(trace, decision, "kim")
        finish(run, trace)
        run.seal()
        return run

    return make


def forged_signature() -> Run:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"])
    header = {"alg": "EdDSA", "kid": kid_of(run.key), "typ": "JWT"}
    token = mint(key_of("somebody else"), trace.claims(read_only=True), header)
    trace.approve(capability=token).call()
    finish(run, trace)
    run.seal()
    return run


def other_kid() -> Run:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"])
    trace.approve(capability=mint(key_of("somebody else"), trace.claims(read_only=True))).call()
    finish(run, trace)
    run.seal()
    return run


def failed_with_output() -> Run:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
    trace.attempt("ERR_HTTP_404", facts={"http_status": 404}, response=CHANGES)
    trace.effect("ERR_HTTP_404", status="failure", output=CHANGES)
    run.seal("failed")
    return run


def two_at_once() -> Run:
    run = new_run(FETCH, SUM_UP)
    fetch = run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    sum_up = run.step(1).request(args={"model": "example-model", "prompt": 'Sum up ["1.0.1 is out"]'})
    run.commit()
    finish(run, fetch)
    sum_up.approve().call()
    sum_up.attempt("OK_LLM_INVOKE", facts={"finish_reason": "stop"}).effect("OK_LLM_INVOKE", output={"text": "x"})
    run.seal()
    return run


def answered(end: Callable[[Trace], object], step: dict[str, Any] = SEND, **decision: Any) -> Callable[[], Run]:
    return lambda: keys.answered(end, step, **decision)


def refused_with_permission() -> Run:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"])
    token = mint(run.key, trace.claims(read_only=True, by="key"))
    trace.deny("permission", "ERR_PERMISSION_DENIED", change={"minted_capability": token})
    run.seal("failed")
    return run


def approved_without_permission() -> Run:
    run = new_run()
    run.step(0).request(risk="READ", public=["method"]).approve(change={"minted_capability": DROP})
    run.commit()
    run.event("cancel")
    run.seal("cancelled")
    return run


def answered_with_a_vote() -> Run:
    """A person said yes, and its key answered the call."""
    run = keys.new_run(SEND)
    trace = run.step(0).request()
    run.commit()
    vote = run.vote(trace, "APPROVE", "kim")
    run.commit()
    allowed = trace.claims(read_only=False, by="key", vote=vote)["constraints"]
    allowed["target_allowlist"] = ["reenact:no-dispatch"]
    keys.served(trace.answer_by_key(vote=vote, claims={"constraints": allowed}).call())
    run.seal()
    return run


def voted_on_the_other() -> Run:
    """Two calls wait for a person, who speaks of the first, and the second is made."""
    document = plan("placeholder", [{**SEND, "step_id": name, "parameters": {"to": name}} for name in ("c1", "c2")])
    run = Run(0x3, document, kind="session")
    document["plan_id"] = run.run_id
    first, second = run.step(0).request(), run.step(1).request()
    run.commit()
    vote = run.vote(first, "APPROVE", "kim")
    run.commit()
    first.deny("permission", "ERR_PERMISSION_DENIED")
    second.approve(by="person", vote=vote).call()
    run.commit()
    second.attempt("OK", response={"queued": True}).effect("OK", output={"queued": True})
    run.commit()
    run.finish()
    run.seal()
    return run


def step_beyond_the_plan() -> Run:
    run = new_run()
    finish(run, run.step(0).request(risk="READ", public=["method"]).approve().call())
    run.commit()
    more = run.step(1, step={**FETCH, "step_id": "more"}).request(risk="READ", public=["method"])
    more.deny("permission", "ERR_PERMISSION_DENIED")
    run.seal("failed")
    return run


def nothing_done(**change: Any) -> Callable[[], Run]:
    """A run that was cancelled before its first call."""

    def make() -> Run:
        run = new_run(change=change)
        run.event("cancel")
        run.seal("cancelled")
        return run

    return make


def never_begun() -> Run:
    """Somebody asked for it to stop, and no record says what it is."""
    run = new_run()
    run.lines = run.lines[:1]
    run.event("cancel")
    run.commit()
    return run


def runs() -> dict[str, Callable[[], Run]]:
    went_on = {"lane": "main", "why": "cancelled", "waited_ms": 1, "open_ms": 2}
    read_only = cases.constraint(read_only=False)
    return {
        "a refusal with a permission": refused_with_permission,
        "an approval without a permission, never used": approved_without_permission,
        "a key's answer with a vote that was cast": answered_with_a_vote,
        "a vote on another call that waits": voted_on_the_other,
        "a step more than the plan has": step_beyond_the_plan,
        "a run record of another run, which did nothing": nothing_done(run_id=uid(0x66), key_run=uid(0x66)),
        "a read that is a write, and was permitted as one": lambda: one_step(
            **read_only, call={"change": {"tool_class": "write"}}
        ),
        "a lost answer without facts": lost(facts=None),
        "a lost answer that cost something": lost(cost_exact="1"),
        "a lost answer with another code": lost(code="ERR_TIMEOUT"),
        "a lost answer that is to be tried again": lost(backoff_ms=5),
        "what a caller was told of another step": lost_outcome(step_id="other"),
        "a caller who was told of a success": lost_outcome(status="success"),
        "a caller who was told to call again": lost_outcome(retryable=True),
        "a caller who was told of another trace": lost_outcome(
            observability={"trace_id": uid(99), "span_id": None, "backend_retries": 0}
        ),
        "a caller who was told nothing that has a form": lost_outcome(more=1),
        "a run sealed while a call is open": tailed(cases.sealed_open),
        "a run cancelled by nobody": tailed(cases.cancelled_by_nobody),
        "a run cancelled and completed": tailed(cases.cancelled_and_completed),
        "a run failed without a failure": tailed(cases.failed_without_a_failure),
        "a second run record, signed": ended(lambda run, _: run.add({"kind": "run", "run": cases.GOOD_RUN_RECORD})),
        "a checkpoint ahead of its trace": ended(
            lambda _, trace: trace.checkpoint(change={"checkpoint_sequence_number": 4})
        ),
        "events that go back in time": ended(event("verify", ts=at(10)), event("verify", ts=at(5))),
        "an event about a call that nobody made": ended(event("resolve", trace_id=uid(91))),
        "an event about no call": ended(event("late")),
        "a changed skill that nobody accepted": ended(event("accept_changed", data={"skill": "x", "pinned": "0" * 64})),
        "a changed skill that is not said in its form": ended(event("accept_changed", who="kim", data={"more": 1})),
        "a changed skill that the plan did not pin so": ended(
            event("accept_changed", **cases.accepted(pinned="0" * 64))
        ),
        "something pinned in a run of a plan": ended(event("pinned", data=cases.PINNED_HERE)),
        "something pinned in a form that nobody reads": sealed_session(
            lambda run: (run.event("pinned", data={"more": 1}), run.finish())
        ),
        "a program that went on in a run of a plan": ended(
            lambda run, trace: run.event("went_on", data=went_on, trace_id=trace.trace_id)
        ),
        "a program that went on in two ways": sealed_session(
            lambda run: (
                run.event("went_on", data={**went_on, "message": "?"}, trace_id=run.traces[0].trace_id),
                run.finish(),
            )
        ),
        "a program that went on in a way that nobody knows": sealed_session(
            lambda run: (
                run.event("went_on", data={**went_on, "why": "bored"}, trace_id=run.traces[0].trace_id),
                run.finish(),
            )
        ),
        "a session sealed with another plan": sealed_session(lambda run: run.finish(), plan_hash="sha256:" + "a" * 64),
        "a session sealed without its plan": sealed_session(lambda run: None),
        "a session whose plan has other calls": sealed_session(
            lambda run: told_otherwise(run, {**run.plan, "steps": run.plan["steps"][::-1]})
        ),
        "a session whose plan names other arguments": sealed_session(_parameters_exchanged),
        "a session whose plan is of another run": sealed_session(
            lambda run: told_otherwise(run, {**run.plan, "plan_id": uid(0x66)})
        ),
        "a run sealed with another plan": lambda: one_step(seal={"plan_hash": "sha256:" + "a" * 64}),
        "a seal that counts more commits": lambda: one_step(seal={"commits": 9}),
        "a seal that counts more steps": lambda: one_step(seal={"steps_planned": 2}),
        "a seal of another run": lambda: one_step(seal={"run_id": uid(0x66)}),
        "a seal over other traces": lambda: one_step(seal={"root": "a" * 64}),
        "a seal over other attempts": lambda: one_step(seal={"attempts_root": "a" * 64}),
        "a seal of other lines": lambda: one_step(seal={"run_head": "a" * 64}),
        "a seal with another digest": lambda: one_step(seal={"seal_digest": "a" * 64}),
        "a run of a plan with another hash": lambda: one_step(run=new_run(change={"plan_hash": "sha256:" + "a" * 64})),
        "a run of a plan that it does not name": lambda: one_step(run=new_run(change={"plan": None})),
        "a run record of another run": lambda: one_step(run=new_run(change={"run_id": uid(0x66)})),
        "a live run with a parent": lambda: one_step(run=new_run(change={"parent_run": uid(0x66)})),
        "a replay without a parent": lambda: one_step(run=new_run(change={"mode": "full_replay"})),
        "a run with the keys of another": lambda: one_step(run=new_run(change={"key_run": uid(0x66)})),
        "a run of another agent than its plan": lambda: one_step(run=new_run(change={"agent_id": uid(0x66)})),
        "a run of more steps than its plan": lambda: one_step(run=new_run(change={"steps_planned": 2})),
        "a vote for the opposite": voted("DENY"),
        "a vote on another request": voted(change={"action_request_digest": "a" * 64}),
        "a vote with another digest": voted(change={"digest": "a" * 64}),
        "a vote on another trace": voted(change={"trace_id": uid(0x66)}),
        "a vote after the decision": voted(twice=True),
        "a capability signed by somebody else": forged_signature,
        "a capability of another key": other_kid,
        "a failed step with an output": failed_with_output,
        "two steps of a plan at once": two_at_once,
        "a key's answer that was sent": answered(keys.sent),
        "a key's answer that was sent and served": answered(keys.sent_again),
        "a key's answer that was refused": answered(keys.refused),
        "a key's answer from nowhere": answered(keys.from_nowhere),
        "a key's answer that failed": answered(keys.served_and_failed),
        "a key that nobody gave, and that answers": answered(keys.served, FETCH),
        "a key's answer in other words": answered(keys.served, change={"rationale": "Approved by auto"}),
        "a key's answer with a vote": answered(keys.served, vote="a" * 64),
        "a key's answer that may be sent": answered(keys.served, claims=keys.constraints(["mail.send"])),
        "an approval under which nothing may be sent": nothing_may_be_sent,
        "a step's key without its form": lambda: keyed(FETCH, "a" * 64),
        "a caller's key without its form": lambda: keyed(SEND, "order-42"),
        "a key of before that is another": lambda: keyed(SEND, "k:" + "a" * 64, {"key_run": DROP}),
    }


def sent(*parts: Callable[[Trace], object]) -> Callable[[], Run]:
    """A mail, of which these attempts are on record."""

    def make() -> Run:
        run = new_run(SEND | {"parameters": {"to": "x", "body": "y"}})
        trace = run.step(0).request().approve().call()
        for part in parts:
            part(trace)
        trace.effect(
            "OK", output={"queued": True}, served_from=keys.FIRST if trace.attempts[-1]["kind"] == "served" else None
        )
        run.seal()
        return run

    return make


def attempts() -> dict[str, Callable[[], Run]]:
    effect = [{"type": "email_queued", "target": "x", "attempt": 0}]
    timed_out = ("no answer", "builtins.TimeoutError")
    return {
        "an attempt after one that was served": sent(lambda t: t.served("OK"), lambda t: t.attempt("OK")),
        "an answer lost twice": sent(
            lambda t: t.lost(*timed_out), lambda t: t.lost(*timed_out), lambda t: t.attempt("OK")
        ),
        "an attempt without its facts": sent(lambda t: t.attempt("OK", change={"facts": None})),
        "an attempt without its end": sent(lambda t: t.attempt("OK", change={"ended_at": None})),
        "an answer from the record with a cost": sent(lambda t: t.served("OK", change={"cost_exact": "1"})),
        "an answer from the record without a code": sent(lambda t: t.served("OK", change={"code": None})),
        "a second sending with side effects": sent(
            lambda t: t.redispatch(change={"side_effects": effect}), lambda t: t.attempt("OK")
        ),
        "a second sending with an answer": sent(
            lambda t: t.redispatch(change={"code": "OK"}), lambda t: t.attempt("OK")
        ),
    }


def nothing_may_be_sent() -> Run:
    run = keys.new_run(SEND)
    resources = [{"kind": "service", "id": "reenact:no-dispatch"}]
    trace = run.step(0).request(change={"resources": resources}).approve().call()
    trace.attempt("OK", response={"queued": True}).effect("OK", output={"queued": True})
    run.seal()
    return run


def keyed(step: dict[str, Any], key: str, change: Any = None) -> Run:
    run = keys.new_run({**step, "parameters": {"method": "GET", "url": "x"}}, change)
    other = {"change": {"idempotency_key": key}, "entry": {"idempotency_key": key}}
    trace = run.step(0).request().approve().call(**other)
    trace.attempt("OK").effect("OK", output=None, entry={"idempotency_key": key})
    run.seal()
    return run


def kinds() -> Iterator[Kind]:
    for name, (changes, _) in cases.CASES.items():
        yield made(f"{name}, and signed", lambda changes=changes: one_step(**changes))
    for name, make in (runs() | attempts()).items():
        yield made(name, make)
    yield made("an open run that nothing says the beginning of", never_begun, "open", drop("plan.json"))
    yield made(
        "a run of a plan that neither it nor the bundle has",
        lambda: one_step(run=new_run(change={"plan": None})),
        ONE,
        drop("plan.json"),
    )
