"""The runs that vectors, examples and tests are about. Each shows what the ones before it do not."""

from __future__ import annotations

from typing import Any

from reenact.values.digest import digest
from tools.vectors.pieces import DROP, Json, at, salt
from tools.vectors.writer import Run


def definition(skill_id: str, version: str, **declared: Any) -> Json:
    """A complete SkillMetadata."""
    return {
        "skill_id": skill_id,
        "name": skill_id,
        "version": version,
        "description": "",
        "input_schema": {"type": "object"},
        "output_schema": {},
        "timeout_ms": 30000,
        "cost_estimate_cents": 0,
        "cost_model": None,
        "failure_modes": [],
        "high_risk": False,
        "honours_key": False,
        "idempotent": False,
        "in_doubt": "redispatch",
        "isolation": "thread",
        "owner": None,
        "permissions": [],
        "public": [],
        "read_when": {},
        "redact": [],
        "resources": {"reads": [], "writes": []},
        "retry": None,
        "side_effects": [],
        "stable_fields": [],
        "tags": [],
        "tool_class": "write",
        **declared,
    }


# In versions that no release has: the examples are about their bytes, not about what the built-in skills declare.
SKILLS = [
    definition("http_call", "0.9.0", tool_class="read", side_effects=["http_request"], public=["method"]),
    definition("llm_invoke", "0.9.0", cost_model="tokens", side_effects=["llm_request"]),
    definition("mail.send", "2.0.1", honours_key=True, side_effects=["email_queued"]),
]
PINNED = {f"{skill['skill_id']}@{skill['version']}": digest(skill) for skill in SKILLS}
RETRY = {
    "max_retries": 3,
    "backoff_base_ms": 100,
    "backoff_multiplier": 2.0,
    "max_backoff_ms": 5000,
    "jitter_enabled": False,
    "jitter_max_ms": 0,
    "retryable_codes": [
        "ERR_CONNECTION_REFUSED",
        "ERR_DNS_FAILURE",
        "ERR_HTTP_429",
        "ERR_HTTP_500",
        "ERR_HTTP_502",
        "ERR_HTTP_503",
        "ERR_HTTP_504",
        "ERR_HTTP_5XX",
        "ERR_HTTP_TIMEOUT",
        "ERR_INTERNAL",
        "ERR_LLM_API_ERROR",
        "ERR_LLM_RATE_LIMIT",
        "ERR_RATE_LIMIT_CONCURRENT",
        "ERR_RATE_LIMIT_INTERNAL",
        "ERR_TIMEOUT",
    ],
}


def price(skill: Json) -> Json:
    """A row of the pinned price table."""
    return {"cost_estimate_cents": skill["cost_estimate_cents"], "cost_model": skill["cost_model"]}


PRICES = {f"{skill['skill_id']}@{skill['version']}": price(skill) for skill in SKILLS}


def plan(name: str, steps: list[Json], **context: Any) -> Json:
    used = sorted({f"{step['skill_id']}@{step['skill_version']}" for step in steps})
    pins = {
        "taxonomy": "1.1.0",
        "prices": {
            "models": {"example-model": {"input": "3000000", "output": "15000000"}},
            "skills": {key: PRICES[key] for key in used},
            "version": "2026-01",
        },
        "retry": {"default": RETRY},
        "skills": {key: PINNED[key] for key in used},
        "salt": salt(f"plan:{name}").hex(),
    }
    return {
        "plan_id": name,
        "created_at": at(-1000),
        "agent_id": "example-agent",
        "goal": "Tell the team what changed",
        "steps": steps,
        "context": {"budget_cents": 1000, **context, "pins": pins},
    }


def step(step_id: str, skill: str, parameters: Json, **more: Any) -> Json:
    skill_id, _, version = skill.partition("@")
    return {"step_id": step_id, "skill_id": skill_id, "skill_version": version, "parameters": parameters, **more}


FETCH = step("fetch", "http_call@0.9.0", {"method": "GET", "url": "http://127.0.0.1:8080/changes"})
SUM_UP = step("sum-up", "llm_invoke@0.9.0", {"model": "example-model", "prompt": "Sum up {{fetch.body}}"})
SEND = step(
    "send",
    "mail.send@2.0.1",
    {"to": "team@example.com", "body": "{{sum-up.text}}", "password": {"$secret": "SMTP_PASSWORD"}},
    idempotency_key="digest-2026-01-01",
)
CHANGES = {"status": 200, "body": ["1.0.1 is out"]}
BUSY = {"http_status": 503}
REQUEST = ("http_request", "127.0.0.1:8080")


def three_steps(*, seal: bool = True) -> Run:
    """A plan whose first step is retried, whose last one is dispatched again after a crash; sealed."""
    run = Run(0x1, plan("release-notes", [FETCH, SUM_UP, SEND]))
    fetch = run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    fetch.attempt("ERR_HTTP_503", facts=BUSY, effects=[REQUEST], backoff_ms=100, retry_after_ms=None)
    run.commit()
    run.wait(100)
    fetch.attempt("OK_HTTP_CALL", facts={"http_status": 200}, response=CHANGES, effects=[REQUEST], request_id="r-7")
    fetch.effect("OK_HTTP_CALL", output=CHANGES)
    prompt = {"model": "example-model", "prompt": 'Sum up ["1.0.1 is out"]'}
    sum_up = run.step(1).request(args=prompt).approve().call()
    run.commit()
    usage = {"usage": {"input_tokens": 1000, "output_tokens": 500}, "finish_reason": "stop"}
    sum_up.attempt(
        "OK_LLM_INVOKE",
        facts=usage,
        cost="10500000000",
        response={"text": "1.0.1 is out"},
        effects=[("llm_request", "example/example-model")],
    )
    sum_up.effect("OK_LLM_INVOKE", output={"text": "1.0.1 is out"})
    letter = {"to": "team@example.com", "body": "1.0.1 is out", "password": {"$secret": "SMTP_PASSWORD"}}
    send = run.step(2).request(args=letter).approve().call()
    run.commit()
    run.wait(60_000)
    send.redispatch()
    run.commit()
    send.attempt("OK", response={"queued": True}, effects=[("email_queued", "example.com")])
    send.effect("OK", output={"queued": True})
    if seal:
        run.run_checkpoint()
        run.seal()
    else:
        run.commit()
    return run


def refusals(*, seal: bool = True) -> Run:
    """Steps refused before and after the call, and steps that their key answers, at its gate and at its reservation."""
    steps = [
        FETCH,
        {**FETCH, "step_id": "again", "on_error": "continue"},
        {**SEND, "step_id": "served", "on_error": "continue"},
        {**SEND, "step_id": "conflict", "on_error": "continue"},
        {**SEND, "step_id": "answered", "on_error": "continue"},
        {**SEND, "step_id": "refused", "on_error": "continue"},
        SUM_UP,
    ]
    run = Run(0x2, plan("refusals", steps, dedupe=True))
    fetch = run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    fetch.attempt("OK_HTTP_CALL", facts={"http_status": 200}, response=CHANGES, effects=[REQUEST])
    fetch.effect("OK_HTTP_CALL", output=CHANGES)
    again = run.step(1).request(risk="READ", public=["method"])
    again.deny("duplicate", "DENIED_DUPLICATE", duplicate_of=fetch.trace_id)
    served = run.step(2).request().approve().call().served("OK")
    served.effect("OK", output={"queued": True}, served_from="019b76da-a800-7000-8000-00000000beef")
    conflict = run.step(3).request().approve().call()
    conflict.effect("IDEMPOTENCY_CONFLICT", status="failure", raw="DENIED")
    answered = run.step(4).request().answer_by_key().call().served("OK")
    answered.effect("OK", output={"queued": True}, served_from="019b76da-a800-7000-8000-00000000beef")
    run.step(5).request().deny("key", "IDEMPOTENCY_CONFLICT")
    over = run.step(6).request()
    over.deny(
        "budget",
        "ERR_BUDGET_EXCEEDED",
        limit_exact="10000000000000",
        spent_exact="0",
        required_exact="10000000000001",
    )
    if seal:
        run.seal("failed")
    else:
        run.commit()
    return run


def lost_answer() -> Run:
    """A mail whose server does not answer in time; the answer comes late. Sealed."""
    run = Run(0x4, plan("lost-answer", [{**SEND, "parameters": {"to": "team@example.com", "body": "hello"}}]))
    send = run.step(0).request().approve().call()
    run.commit()
    send.lost("no answer within 30000 ms", "builtins.TimeoutError")
    run.commit()
    run.wait(60_000)
    send.attempt("OK", response={"queued": True}, effects=[("email_queued", "example.com")])
    send.effect("OK", output={"queued": True})
    run.seal()
    return run


def session(*, seal: bool = True, named: bool = True) -> Run:
    """A session: two calls in flight at once, a person's approval, a parked trace, a second turn.

    `named` as sessions name what their calls were made with; else as earlier releases repeated it, without `key_run`.
    """
    calls = [
        step("c1", "http_call@0.9.0", {"method": "GET", "url": "http://127.0.0.1:8080/a"}),
        step("c2", "http_call@0.9.0", {"method": "GET", "url": "http://127.0.0.1:8080/b"}),
        step("c3", "mail.send@2.0.1", {"to": "team@example.com", "body": "hello"}, idempotency_key="hello-1"),
    ]
    document = plan("placeholder", calls, supervisor="ask")
    run = Run(0x3, document, kind="session", change=None if named else {"key_run": DROP})
    document["plan_id"] = run.run_id
    first = run.step(0).request(risk="READ").approve(by="policy").call()
    second = run.step(1).request(risk="READ").approve(by="policy").call()
    run.commit()
    first.attempt("OK_HTTP_CALL", facts={"http_status": 200}, response={"status": 200, "body": "a"})
    first.effect("OK_HTTP_CALL", output={"status": 200, "body": "a"})
    timed_out = {"exceptions": [{"type": "builtins.TimeoutError", "errno": None}]}
    second.attempt("ERR_HTTP_TIMEOUT", facts=timed_out)
    second.effect("ERR_HTTP_TIMEOUT", status="failure", raw="ERROR", retryable=True)
    run.commit()
    run.event("turn")
    third = run.step(2).request(turn=1)
    third.checkpoint()
    run.commit()
    run.wait(3_600_000)
    vote = run.vote(third, "APPROVE", "kim@example.com")
    run.commit()
    third.approve(by="person", vote=vote).call()
    run.commit()
    third.attempt("OK", response={"queued": True}, effects=[("email_queued", "example.com")])
    third.effect("OK", output={"queued": True})
    run.commit()
    if seal:
        run.finish(named=named)
        run.seal("completed")
    return run
