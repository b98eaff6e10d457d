"""A secret that is not there: refused at the start, held at recovery, named in both."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.runtime import crash_points
from reenact.runtime.people.decisions import vote
from tests.crash.harness import KILLED, in_child
from tests.runtime.running import Bench, outcome_of, step


@skill("use", version="1.0.0", tool_class="write", honours_key=True)
def use(ctx: SkillContext, token: str) -> int:
    return len(token)


STEP = step(use, {"token": {"$secret": "A_TOKEN_OF_OURS"}})


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A_TOKEN_OF_OURS", "REENACT_SECRETS_FILE", "REENACT_SEAL_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_at_the_start_the_step_is_refused_and_the_name_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, use)
    result = bench.run(STEP)
    outcome = outcome_of(result)
    assert result.status == "failed"
    assert outcome.code == "ERR_SECRET_UNAVAILABLE"
    assert outcome.details is not None
    assert outcome.details["secret"] == "A_TOKEN_OF_OURS"
    assert "A_TOKEN_OF_OURS" in str(outcome.details["reason"])
    bench.check(result)


def test_the_host_the_environment_and_the_file_are_asked_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secrets.json"
    file.write_text(json.dumps({"A_TOKEN_OF_OURS": "from the file"}))
    monkeypatch.setenv("REENACT_SECRETS_FILE", str(file))
    assert outcome_of(Bench(tmp_path / "1", use).run(STEP)).output == len("from the file")
    monkeypatch.setenv("REENACT_SECRET_A_TOKEN_OF_OURS", "environment")
    assert outcome_of(Bench(tmp_path / "2", use).run(STEP)).output == len("environment")
    bound = Bench(tmp_path / "3", use, secrets={"A_TOKEN_OF_OURS": "bound"})
    assert outcome_of(bound.run(STEP)).output == len("bound")


@pytest.mark.parametrize("content", ["not json", "[]", '{"A_TOKEN_OF_OURS": 7}'])
def test_a_file_that_does_not_hold_it_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    file = tmp_path / "secrets.json"
    file.write_text(content)
    monkeypatch.setenv("REENACT_SECRETS_FILE", str(file))
    assert outcome_of(Bench(tmp_path, use).run(STEP)).code == "ERR_SECRET_UNAVAILABLE"


@pytest.mark.parametrize("point", ["before_dispatch", "after_dispatch"])
def test_at_recovery_the_run_is_held_until_the_secret_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    def crash() -> None:
        monkeypatch.setenv("REENACT_SECRET_A_TOKEN_OF_OURS", "the value")
        Bench(tmp_path, use).run(STEP, STEP)

    assert in_child(crash, crash_at=point) == KILLED
    crash_points.arm(None)
    bench = Bench(tmp_path, use)
    (held,) = bench.runtime.recover()
    assert held.status == "held"
    assert "A_TOKEN_OF_OURS" in str(held.reason)
    bench.check(held, exit_code=4)
    monkeypatch.setenv("REENACT_SECRET_A_TOKEN_OF_OURS", "the value")
    (done,) = bench.runtime.recover()
    assert done.status == "completed"
    assert [outcome.output for outcome in done.outcomes] == [9, 9]
    bench.check(done)


def test_a_session_binds_by_pointer_and_misses_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, use)
    with bench.runtime.session() as session:
        missing = session.call("use", {}, secrets={"/token": "A_TOKEN_OF_OURS"})
        monkeypatch.setenv("A_TOKEN_OF_OURS", "here now")
        there = session.call("use", {}, secrets={"/token": "A_TOKEN_OF_OURS"})
    assert missing.code == "ERR_SECRET_UNAVAILABLE"
    assert there.output == 8
    bench.check(session.run_id)


def test_an_approved_step_is_held_for_it_and_goes_on_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is taken up again is not given up for what is missing here."""
    bench = Bench(tmp_path, use)
    monkeypatch.setenv("REENACT_SECRET_A_TOKEN_OF_OURS", "abcdef")
    run_id = bench.run(STEP, supervisor="ask").run_id
    asyncio.run(vote(bench.runtime, run_id, None, approve=True, reason="seen", who="kim"))
    monkeypatch.delenv("REENACT_SECRET_A_TOKEN_OF_OURS")
    held = Runtime(bench.store, skills=[use]).resume(run_id)
    assert held.status == "held"
    assert "A_TOKEN_OF_OURS" in str(held.reason)
    monkeypatch.setenv("REENACT_SECRET_A_TOKEN_OF_OURS", "abcdef")
    done = Runtime(bench.store, skills=[use]).resume(run_id)
    assert done.status == "completed"
    bench.check(done)
