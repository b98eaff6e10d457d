"""A secret that stands literally in a plan is refused; in a call what only looks like one is encrypted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import skill
from reenact.errors import PlanError, UsageError
from reenact.record.reader import RunReader
from reenact.replay import replay
from tests.cli.harness import Command, error_line
from tests.runtime.running import Bench, outcome_of, plan, step
from tests.secrets.planting import leaks_in_files, leaks_in_store

API_KEY = "sk-live0Tk0nABCDEFGHIJKLMNOP"  # planted, so that the search knows it
KNOWN = "fin-Tk0n-5678"
SEAL_KEY = "a secret key of some length"


@skill("take", version="1.0.0", tool_class="read", redact=["card_number", "/deep/code"], public=["label"])
def take(label: str = "", headers: dict[str, str] = {}, deep: Any = None, card_number: str = "") -> str:  # noqa: B006 - never changed
    return f"{label}{len(card_number)}"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REENACT_SEAL_KEY", raising=False)


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"headers": {"authorization": "Bearer x"}}, "$.steps[1].parameters.headers.authorization"),
        ({"headers": {"x-note": f"use {API_KEY}"}}, "$.steps[1].parameters.headers['x-note']"),
        ({"deep": [{"a b": API_KEY}]}, "$.steps[1].parameters.deep[0]['a b']"),
        ({"card_number": "4242"}, "$.steps[1].parameters.card_number"),
        ({"deep": {"code": "x"}}, "$.steps[1].parameters.deep.code"),
        ({"label": KNOWN}, "$.steps[1].parameters.label"),
        ({"headers": {"authorization": f"{API_KEY}{{{{s0}}}}"}}, "$.steps[1].parameters.headers.authorization"),
    ],
)
def test_a_plan_with_a_secret_starts_no_run(tmp_path: Path, parameters: dict[str, object], place: str) -> None:
    bench = Bench(tmp_path, take, secrets={"KNOWN": KNOWN})
    with pytest.raises(PlanError) as refused:
        bench.run(step(take), step(take, parameters))
    assert f'plan: {place} looks like a secret, and a plan is stored as it is: write {{"$secret": "NAME"}}' in str(
        refused.value
    )
    assert bench.store.runs() == []
    assert leaks_in_files(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"goal": f"pay with {API_KEY}"}, "$.goal"),
        ({"agent_id": API_KEY}, "$.agent_id"),
        ({"context": {"workspace": f"/tmp/{API_KEY}"}}, "$.context.workspace"),
        ({"steps": [{"step_id": "a", "skill_id": "take", "idempotency_key": API_KEY}]}, "$.steps[0].idempotency_key"),
    ],
)
def test_nor_may_it_stand_anywhere_else_in_a_plan(tmp_path: Path, change: dict[str, object], place: str) -> None:
    bench = Bench(tmp_path, take)
    with pytest.raises(PlanError, match="looks like a secret") as refused:
        bench.runtime.run({**plan(step(take)), **change})
    assert f"plan: {place} " in str(refused.value)
    assert leaks_in_files(tmp_path) == []


def test_the_value_of_a_secret_that_the_plan_names_is_found_in_the_plan_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known before anything is written, not only once it was handed out."""
    monkeypatch.setenv("REENACT_SECRET_OUR_TOKEN", KNOWN)
    with pytest.raises(PlanError, match="label looks like a secret"):
        Bench(tmp_path, take).run(step(take, {"label": f"x {KNOWN}", "card_number": {"$secret": "OUR_TOKEN"}}))
    assert leaks_in_files(tmp_path) == []


def test_a_reference_may_stand_where_a_secret_may_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, take)
    result = bench.run(step(take, {"label": "none"}), step(take, {"card_number": "{{s0}}"}))
    assert result.outcomes[1].output == "5"
    bench.check(result)
    *_, second = RunReader(bench.store, result.run_id).steps()
    assert places_of_encrypted(second.parameters()) == ["/card_number"]


def test_the_command_says_it_in_one_line(reenact: Command) -> None:
    path = reenact.plan({"skill_id": "http_call", "parameters": {"url": "http://x", "headers": {"cookie": API_KEY}}})
    done = reenact("run", path)
    assert done.code == 2
    assert error_line(done).startswith(f"{path}: $.steps[0].parameters.headers.cookie looks like a secret")
    assert API_KEY not in done.err + done.out


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"label": API_KEY}, "/label"),
        ({"headers": {"Authorization": "Bearer x"}}, "/headers/Authorization"),
        ({"card_number": "4242"}, "/card_number"),
        ({"deep": {"code": "x"}}, "/deep/code"),
    ],
)
def test_what_only_looks_like_a_secret_in_a_call_of_a_session_is_encrypted_and_not_refused(
    tmp_path: Path, parameters: dict[str, object], place: str
) -> None:
    bench = Bench(tmp_path, take)
    with bench.runtime.session() as session:
        outcome = session.call("take", parameters)
    assert outcome.ok, outcome
    (recorded,) = RunReader(bench.store, session.run_id).steps()
    assert place in places_of_encrypted(recorded.parameters())
    bench.check(session.run_id)
    assert leaks_in_files(tmp_path) == []
    assert leaks_in_store(Path(bench.path)) == []


def places_of_encrypted(value: Any, path: str = "") -> list[str]:
    if isinstance(value, dict):
        if "$sealed" in value:
            return [path]
        return [found for key, item in value.items() for found in places_of_encrypted(item, f"{path}/{key}")]
    return []


@pytest.mark.parametrize("key", [None, SEAL_KEY])
@pytest.mark.parametrize(
    ("parameters", "place"), [({"deep": [f"see {KNOWN}"]}, "/deep/0"), ({"label": KNOWN}, "/label")]
)
def test_a_secret_of_the_host_in_a_call_is_refused_and_its_host_told_how_to_bind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, object], place: str, key: str | None
) -> None:
    if key is not None:
        monkeypatch.setenv("REENACT_SEAL_KEY", key)
    bench = Bench(tmp_path, take, secrets={"KNOWN": KNOWN})
    with bench.runtime.session() as session:
        outcome = session.call("take", parameters)
    assert outcome.code == "ERR_VALIDATION_FAILED"
    assert outcome.details is not None
    assert outcome.details["secret_at"] == [place]
    reason = str(outcome.details["reason"])
    assert f'write secrets={{"{place}": "NAME"}}' in reason
    bench.check(session.run_id)
    assert replay(bench.store, session.run_id).verdict == "matched"
    assert leaks_in_files(tmp_path) == []
    assert leaks_in_store(Path(bench.path)) == []


@pytest.mark.parametrize("key", [None, SEAL_KEY])
def test_a_key_of_a_call_must_not_be_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    if key is not None:
        monkeypatch.setenv("REENACT_SEAL_KEY", key)
    bench = Bench(tmp_path, take)
    with bench.runtime.session() as session:
        outcome = session.call("take", {}, idempotency_key=API_KEY)
    assert outcome.code == "ERR_VALIDATION_FAILED"
    bench.check(session.run_id)
    assert leaks_in_files(tmp_path) == []


def test_names_are_written_as_they_are_and_so_must_not_be_secrets(tmp_path: Path) -> None:
    bench = Bench(tmp_path, take)
    for arguments in ({"agent_id": API_KEY}, {"context": {"workspace": API_KEY}}):
        with pytest.raises(UsageError, match="looks like a secret"), bench.runtime.session(**arguments):
            pass
    with bench.runtime.session(goal=f"use {API_KEY} for it") as session:
        with pytest.raises(UsageError, match="looks like a secret"):
            session.call("take", {}, step_id=API_KEY)
        assert session.call(API_KEY.lower(), {}).code == "ERR_SKILL_NOT_FOUND"
    bench.check(session.run_id)
    assert leaks_in_files(tmp_path) == []
    assert leaks_in_store(Path(bench.path)) == []


def test_with_a_key_the_call_of_a_session_goes_on_and_its_literal_is_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_SEAL_KEY", SEAL_KEY)
    bench = Bench(tmp_path, take)
    with bench.runtime.session() as session:
        outcome = session.call("take", {"label": f"use {API_KEY}", "card_number": "4242"})
    assert outcome.output == f"use {API_KEY}4"
    bench.check(session.run_id)
    assert leaks_in_files(tmp_path) == []
    assert leaks_in_store(Path(bench.path)) == []


def test_a_caller_may_say_the_words_of_the_mark(tmp_path: Path) -> None:
    """A host's secret is hidden from a model by them, and the model says them again."""
    bench = Bench(tmp_path, take, secrets={"KNOWN": KNOWN})
    with bench.runtime.session() as session:
        hidden = session.call("take", {}, secrets={"/label": "KNOWN"}).output
        assert hidden == "[redacted]0"
        assert session.call("take", {"label": f"you said {hidden}"}).output == f"you said {hidden}0"
        assert not session.call("take", {"label": KNOWN}).ok
    bench.check(session.run_id)
    assert replay(bench.store, session.run_id).verdict == "matched"


def test_a_plan_is_refused_with_a_key_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_SEAL_KEY", SEAL_KEY)
    with pytest.raises(PlanError, match="looks like a secret"):
        Bench(tmp_path, take).run(step(take, {"label": API_KEY}))


def test_a_user_name_is_no_secret(tmp_path: Path) -> None:
    mail = {
        "to": ["a@example.com"], "subject": "s", "body": "b", "sender": "b@example.com", "smtp_host": "127.0.0.1",
        "username": "reports", "password": {"$secret": "NOT_SET_ANYWHERE"},
    }  # fmt: skip
    assert outcome_of(Bench(tmp_path).run(step("email_send", mail))).code == "ERR_SECRET_UNAVAILABLE"
