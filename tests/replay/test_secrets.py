"""What redaction took out does not break matching: the same rules hold on both sides of a replay."""

from __future__ import annotations

from typing import Any

import pytest

from reenact import Registry, SkillContext, skill
from reenact.replay import Runtime, load_recording
from reenact.values.clock import FixedClock
from tests.engines.places import opened
from tests.replay.recording import mocked

SECRET = "correct-horse-battery-staple"
TOKEN = "sk-abcdefghijklmnopqrstuvwxyz0123456789"


@skill("login", version="1.0.0", tool_class="read", side_effects=["http_request"])
async def login(ctx: SkillContext, password: str) -> dict[str, str]:
    """Gives back a token, and the password for all to see."""
    ctx.side_effect("http_request", f"bank.example/{password}")
    return {"token": TOKEN, "echo": password, "name": "kim"}


@skill("use", version="1.0.0", tool_class="read")
async def use(what: Any) -> Any:
    return what


PLAN: dict[str, Any] = {
    "plan_id": "secrets",
    "agent_id": "agent",
    "steps": [
        {"step_id": "login", "skill_id": "login", "parameters": {"password": {"$secret": "BANK_PASSWORD"}}},
        {"step_id": "name", "skill_id": "use", "parameters": {"what": "{{login.name}}"}},
        {"step_id": "token", "skill_id": "use", "parameters": {"what": "{{login.token}}"}},
    ],
    "context": {"on_error": "continue"},
}


def run() -> tuple[Runtime, str]:
    clock = FixedClock()
    runtime = Runtime(
        opened(":memory:", clock=clock),
        skills=Registry([login, use]),
        secrets={"BANK_PASSWORD": SECRET},
        clock=clock,
    )
    return runtime, runtime.run(PLAN).run_id


@pytest.mark.parametrize("encryption_key", [None, "a key outside the store"])
@pytest.mark.parametrize("with_code", [True, False])
def test_a_run_with_secrets_replays_without_them(
    monkeypatch: pytest.MonkeyPatch, encryption_key: str | None, with_code: bool
) -> None:
    monkeypatch.delenv("REENACT_SEAL_KEY", raising=False)
    if encryption_key is not None:
        monkeypatch.setenv("REENACT_SEAL_KEY", encryption_key)
    runtime, run_id = run()
    result = mocked(load_recording(runtime.store, run_id), Registry([login, use]) if with_code else Registry())

    assert result.verdict == "matched", result.divergence


@pytest.mark.parametrize("with_code", [True, False])
def test_encrypted_values_replay_where_their_key_is_not(monkeypatch: pytest.MonkeyPatch, with_code: bool) -> None:
    monkeypatch.setenv("REENACT_SEAL_KEY", "a key outside the store")
    runtime, run_id = run()
    monkeypatch.delenv("REENACT_SEAL_KEY")
    result = mocked(load_recording(runtime.store, run_id), Registry([login, use]) if with_code else Registry())

    assert result.verdict == "matched", result.divergence


def test_no_secret_reaches_a_replays_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REENACT_SEAL_KEY", raising=False)
    runtime, run_id = run()
    runtime.replay(run_id, save=True)
    runtime.replay(run_id, mode="full_replay")
    kept = [
        envelope for row in runtime.store.runs() for _, envelope in runtime.store.payloads(row.run_id)
    ] + [body for row in runtime.store.runs() for body in runtime.store.bodies(row.run_id)]  # fmt: skip

    assert not [data for data in kept if SECRET.encode() in data or TOKEN.encode() in data]
