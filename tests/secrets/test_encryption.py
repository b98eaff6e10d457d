"""A secret that a tool returns: stored only encrypted, readable with the key, shut without it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.errors import ConcurrentExecution, SecretError
from reenact.record.export import export_run
from reenact.replay import replay
from reenact.runtime.people.decisions import vote
from reenact.store.encryption import decrypt_text, encrypt_text, given_key
from tests.cli.harness import Command
from tests.crash.harness import KILLED, in_child
from tests.runtime.running import Bench, plan, step
from tests.secrets.leaky_skills import losing_its_lease
from tests.secrets.planting import leaks_in_files, leaks_in_store

TOKEN = "sk-live0Tk0nABCDEFGHIJKLMNOP"  # planted, so that the search knows it
KEY = "the first secret key, long enough"
OTHER_KEY = "another secret key, long enough"


@skill("log_in", version="1.0.0", tool_class="read")
def log_in() -> dict[str, Any]:
    return {"access_token": TOKEN, "note": f"valid: {TOKEN}", "hours": 1}


@skill("use", version="1.0.0", tool_class="write", honours_key=True)
def use(ctx: SkillContext, token: str, header: str) -> dict[str, int]:
    if token != TOKEN or header != f"Bearer {TOKEN}":
        raise ValueError("this is not the token")
    return {"length": len(token)}


PLAN = plan(
    step(log_in, step_id="log_in"),
    step(use, {"token": "{{log_in.access_token}}", "header": "Bearer {{log_in.access_token}}"}, step_id="use"),
)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_SEAL_KEY", KEY)


def clean(folder: Path) -> None:
    assert leaks_in_files(folder) == []
    assert leaks_in_store(folder / "store.db") == []


def test_with_the_key_the_next_step_uses_it_and_nothing_of_it_is_readable_on_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path, log_in, use)
    result = bench.runtime.run(PLAN)
    assert result.status == "completed", result.outcomes
    export_run(bench.path, result.run_id, tmp_path / "bundle")
    bench.check(result)
    clean(tmp_path)


def test_where_none_is_given_a_key_of_its_own_lies_beside_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REENACT_SEAL_KEY")
    bench = Bench(tmp_path, log_in, use)
    result = bench.runtime.run(PLAN)
    assert result.status == "completed", result.outcomes
    assert set(result.outcomes[0].output["access_token"]) == {"$sealed"}  # type: ignore[index]
    assert (tmp_path / "store.db.encryption-key").stat().st_mode & 0o777 == 0o600
    export_run(bench.path, result.run_id, tmp_path / "bundle")
    bench.check(result)
    clean(tmp_path)


def test_a_session_gets_what_the_tool_returned_and_the_disk_does_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, log_in, use)
    with bench.runtime.session() as session:
        token = session.call("log_in").output["access_token"]  # type: ignore[index]
        done = session.call("use", {"token": token, "header": f"Bearer {token}"})
    assert (token, done.code) == (TOKEN, "OK")
    bench.check(session.run_id)
    clean(tmp_path)


def test_a_resumed_session_sees_its_history_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, log_in, use)
    with pytest.raises(ZeroDivisionError), bench.runtime.session() as session:
        session.call("log_in")
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), bench.runtime.session(resume=session.run_id) as again:
        assert TOKEN in str(again.history())
        raise ZeroDivisionError
    monkeypatch.delenv("REENACT_SEAL_KEY")
    with Bench(tmp_path, log_in, use).runtime.session(resume=session.run_id) as shut:
        assert "$sealed" in str(shut.history())
        assert TOKEN not in str(shut.history())
    clean(tmp_path)


@pytest.mark.parametrize("point", ["before_dispatch:2", "after_dispatch:2"])
def test_recovery_without_the_key_is_held_and_with_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    assert in_child(lambda: Bench(tmp_path, log_in, use).runtime.run(PLAN), crash_at=point) == KILLED
    check_held_until_the_key_is_back(tmp_path, monkeypatch)


def check_held_until_the_key_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (None, OTHER_KEY):
        monkeypatch.delenv("REENACT_SEAL_KEY", raising=False)
        if wrong is not None:
            monkeypatch.setenv("REENACT_SEAL_KEY", wrong)
        (held,) = Bench(tmp_path, log_in, use, losing_its_lease).runtime.recover()
        assert held.status == "held"
        assert "REENACT_SEAL_KEY" in str(held.reason)
        assert TOKEN not in str(held.reason)
    monkeypatch.setenv("REENACT_SEAL_KEY", KEY)
    bench = Bench(tmp_path, log_in, use, losing_its_lease)
    (done,) = bench.runtime.recover()
    assert done.status == "completed", done.outcomes
    bench.check(done)
    clean(tmp_path)


def test_a_step_that_reads_an_encrypted_value_is_held_before_it_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run stops between two steps; the one before was made without the key, and is not made again."""
    made: list[int] = []

    @skill("ask_me", version="1.0.0", tool_class="write")
    def ask_me() -> None:
        made.append(1)

    @skill("read_with", version="1.0.0", tool_class="read")
    def read_with(token: str) -> bool:
        return token == TOKEN

    skills = (log_in, ask_me, read_with)
    steps = (step(log_in, step_id="log_in"), step(ask_me), step(read_with, {"token": "{{log_in.access_token}}"}))
    waiting = Bench(tmp_path, *skills).runtime.run(plan(*steps, supervisor="ask"))
    assert waiting.status == "waiting"
    asyncio.run(vote(Bench(tmp_path, *skills).runtime, waiting.run_id, None, approve=True, reason="fine"))
    monkeypatch.delenv("REENACT_SEAL_KEY")
    for _ in range(2):
        held = Bench(tmp_path, *skills).runtime.resume(waiting.run_id)
        assert (held.status, made) == ("held", [1])
        assert "step s2 needs a value that is encrypted: set REENACT_SEAL_KEY" in str(held.reason)
    monkeypatch.setenv("REENACT_SEAL_KEY", KEY)
    bench = Bench(tmp_path, *skills)
    done = bench.runtime.resume(waiting.run_id)
    assert (done.status, made, done.get_step("s2").outcome.output) == ("completed", [1], True)
    bench.check(done)


def test_what_was_kept_late_is_shut_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, losing_its_lease, secrets={"LATE": "lat-Tk0n-cafe"})
    parameters = {"store": bench.path, "secret": {"$secret": "LATE"}}
    with pytest.raises(ConcurrentExecution):
        bench.run(step(losing_its_lease, parameters))
    clean(tmp_path)
    monkeypatch.setenv("REENACT_SECRET_LATE", "lat-Tk0n-cafe")
    check_held_until_the_key_is_back(tmp_path, monkeypatch)


def test_a_key_hit_serves_the_opened_value(tmp_path: Path) -> None:
    bench = Bench(tmp_path, log_in)
    with bench.runtime.session() as session:
        first = session.call("log_in", idempotency_key="k")
        second = session.call("log_in", idempotency_key="k")
    assert second.output == first.output
    assert second.details is not None
    assert second.details["served_from"] == first.observability.trace_id
    bench.check(session.run_id)
    clean(tmp_path)


def test_kept_values_are_encrypted_and_decrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    get = {"operation": "get", "key": "k"}
    with bench.runtime.session() as session:
        session.call("kv_store", {"operation": "set", "key": "k", "value": {"token": TOKEN}})
        assert session.call("kv_store", get).output == {"found": True, "value": {"token": TOKEN}}
    clean(tmp_path)
    monkeypatch.delenv("REENACT_SEAL_KEY")
    with Bench(tmp_path).runtime.session() as session:
        shut = session.call("kv_store", get)
    assert shut.code == "ERR_SECRET_UNAVAILABLE"
    assert "REENACT_SEAL_KEY" in shut.message


def test_replays_match_with_the_key_and_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, log_in, use)
    run_id = bench.runtime.run(PLAN).run_id
    with bench.runtime.session() as session:
        token = session.call("log_in").output["access_token"]  # type: ignore[index]
        session.call("use", {"token": token, "header": f"Bearer {token}"})
    for value in (KEY, None):
        monkeypatch.delenv("REENACT_SEAL_KEY", raising=False)
        if value is not None:
            monkeypatch.setenv("REENACT_SEAL_KEY", value)
        for recorded in (run_id, session.run_id):
            for registry in (bench.runtime.registry, None):
                result = replay(bench.store, recorded, registry=registry)
                assert result.verdict == "matched", (value, recorded, result.divergence)


def test_a_full_replay_opens_what_a_session_was_called_with(tmp_path: Path) -> None:
    bench = Bench(tmp_path, log_in, use)
    with bench.runtime.session() as session:
        session.call("use", {"token": TOKEN, "header": f"Bearer {TOKEN}"})
    result = replay(bench.runtime, session.run_id, mode="full_replay", execute=["c1"])
    assert result.verdict == "matched", result.divergence
    clean(tmp_path)


def test_forks_serve_what_was_recorded_and_go_on_with_the_opened_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = Bench(tmp_path, log_in, use).runtime.run(PLAN).run_id
    for live in (False, True):
        fork = Bench(tmp_path, log_in, use).runtime.fork(run_id, "use", live=live)
        assert (fork.status, fork.verdict) == ("completed", "matched"), fork.reason
    monkeypatch.delenv("REENACT_SEAL_KEY")
    assert Bench(tmp_path, log_in, use).runtime.fork(run_id, "use").status == "completed"
    shut = Bench(tmp_path, log_in, use).runtime.fork(run_id, "use", live=True)
    assert shut.status == "held"
    assert "REENACT_SEAL_KEY" in str(shut.reason)
    clean(tmp_path)


def test_values_are_shown_opened_only_when_asked(reenact: Command) -> None:
    skills = ("--skills", str(Path(__file__)))
    path = reenact.plan({"skill_id": "log_in"})
    assert reenact("run", path, *skills, REENACT_SEAL_KEY=KEY).code == 0
    shut = reenact("show", "last", "--values", "--json", REENACT_SEAL_KEY=KEY)
    assert TOKEN not in shut.out
    assert "$sealed" in shut.out
    opened = reenact("show", "last", "--values", "--unseal", "--json", REENACT_SEAL_KEY=KEY)
    assert opened.json["steps"][0]["output"]["access_token"] == TOKEN
    for environment in ({"REENACT_SEAL_KEY": OTHER_KEY}, {}):
        refused = reenact("show", "last", "--values", "--unseal", **environment)
        assert refused.code == 4
        assert "REENACT_SEAL_KEY" in refused.err
        assert TOKEN not in refused.err + refused.out


def test_what_is_encrypted_opens_with_its_own_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first = given_key()
    monkeypatch.setenv("REENACT_SEAL_KEY", OTHER_KEY)
    second = given_key()
    assert first is not None
    assert second is not None
    text = encrypt_text(first, {"a": TOKEN})
    assert text == encrypt_text(first, {"a": TOKEN}), "equal secrets are stored once"
    assert decrypt_text(first, text) == {"a": TOKEN}
    with pytest.raises(SecretError, match="encrypted with another key"):
        decrypt_text(second, text)
    for changed in (text[:-4] + "AAAA", text[:20], "v1", "", text.replace("v1.", "v2.")):
        with pytest.raises(SecretError):
            decrypt_text(first, changed)


def test_a_key_that_is_too_short_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_SEAL_KEY", "short")
    with pytest.raises(SecretError, match="too short"):
        Runtime(str(tmp_path / "store.db"), skills=[log_in]).run(plan(step(log_in)))
