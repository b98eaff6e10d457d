"""Whatever a skill says of itself, and whoever says a word about a run: what is recorded can be verified."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, SkillError, skill
from reenact.errors import UsageError
from reenact.record.erase import erase
from reenact.runtime.people import decisions as people
from reenact.store.checks.verification import verify_run
from tests.engines.places import store_at

SECRET = "a-secret-that-nobody-may-see"


class Odd(Exception):
    pass


Odd.__qualname__ = "Odd" * 200


@skill("says", version="1.0.0", tool_class="read", retry={"max_retries": 0})
def says(ctx: SkillContext, what: str, key: str = "") -> int:
    if what == "request id":
        ctx.request_id("r" * 5000)
    elif what == "side effect":
        ctx.side_effect("t" * 300, "https://example.org/?q=" + "x" * 5000)
        ctx.side_effect("", "")
    elif what == "many side effects":
        for _ in range(3000):
            ctx.side_effect("http_request", "\x01" * 2000)
    elif what == "finish reason":
        ctx.finish_reason("f" * 300)
    elif what == "exception":
        raise Odd
    elif what == "status":
        ctx.http_status(999)
    elif what == "secret":
        ctx.side_effect("http_request", "x" * 1010 + key)
        ctx.request_id("x" * 245 + key)
    return 1


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(store_at(tmp_path / "s.db"), skills=[says], secrets={"KEY": SECRET})


def assert_sound(runtime: Runtime, run_id: str) -> None:
    report = verify_run(runtime.store.url, run_id).report
    assert report.first_break is None, report.first_break


@pytest.mark.parametrize(
    "what", ["request id", "side effect", "many side effects", "finish reason", "exception", "status"]
)
def test_what_a_skill_says_at_length_is_cut_to_what_a_record_holds(runtime: Runtime, what: str) -> None:
    with runtime.session() as session:
        session.call("says", {"what": what})
    assert_sound(runtime, session.run_id)
    assert runtime.replay(session.run_id).matches


def test_a_status_that_http_does_not_have_is_a_failure_of_the_server(runtime: Runtime) -> None:
    with runtime.session() as session:
        assert session.call("says", {"what": "status"}).code == "ERR_HTTP_5XX"


def test_no_piece_of_a_secret_is_left_where_a_text_is_cut(runtime: Runtime, tmp_path: Path) -> None:
    with runtime.session() as session:
        outcome = session.call("says", {"what": "secret"}, secrets={"/key": "KEY"})
    assert outcome.side_effects[0].target.endswith("x[redacted]")
    assert_sound(runtime, session.run_id)
    runtime.close()
    assert SECRET[:6].encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("s.db*"))


@pytest.mark.parametrize("code", ["my code", "err_lower", "X" * 65, "", "OK", "OK_HTTP_CALL"])
def test_what_is_no_code_of_a_failure_cannot_be_raised_as_one(code: str) -> None:
    with pytest.raises(UsageError, match="is no code of a failure"):
        SkillError.of(code, "oh")
    assert SkillError.of("MY_OWN_CODE").code == "MY_OWN_CODE"


@pytest.mark.parametrize("word", ["approve", "cancel", "erase"])
def test_a_name_that_no_record_holds_is_refused(runtime: Runtime, word: str) -> None:
    plan: dict[str, Any] = {
        "plan_id": "p",
        "agent_id": "a",
        "steps": [{"step_id": "s", "skill_id": "kv_store", "parameters": {"operation": "incr", "key": "k"}}],
        "context": {"supervisor": "ask"},
    }
    run_id = runtime.run(plan).run_id
    who = "k" * 256
    with pytest.raises(UsageError, match="at most 255 characters"):
        if word == "approve":
            asyncio.run(people.vote(runtime, run_id, None, approve=True, reason="x", who=who))
        elif word == "cancel":
            asyncio.run(people.cancel(runtime, run_id, reason="x", who=who))
        else:
            erase(runtime.store, run_id, None, who=who, reason="x")
    asyncio.run(people.cancel(runtime, run_id, reason="x", who="k" * 255))
    assert_sound(runtime, run_id)


def test_a_reason_for_erasing_that_no_record_holds_is_refused(runtime: Runtime) -> None:
    with runtime.session() as session:
        session.call("says", {"what": "nothing"})
    with pytest.raises(UsageError, match="at most 1000 characters; this has 1001"):
        erase(runtime.store, session.run_id, None, who="kim", reason="r" * 1001)
    erase(runtime.store, session.run_id, None, who="kim", reason="r" * 1000)
    assert_sound(runtime, session.run_id)
