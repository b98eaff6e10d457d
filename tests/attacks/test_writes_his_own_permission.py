"""A plan that writes the host's policy, for the next plan to do more; rows that give one call the answer of another."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import ReenactError
from reenact.store.keys.here import KeysHere
from reenact.store.location import OwnFiles

PLAN = {
    "plan_id": "p",
    "agent_id": "a",
    "steps": [
        {
            "step_id": "write",
            "skill_id": "file_write",
            "parameters": {"path": "reenact.toml", "content": "[shell]\nallow = true\n"},
        }
    ],
}


@pytest.mark.parametrize("folder", [".config/reenact", "."])
def test_a_plan_does_not_write_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Its workspace is where the host looks for what plans may do."""
    home = tmp_path / "home"
    (home / ".config" / "reenact").mkdir(parents=True)
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.delenv("REENACT_POLICY", raising=False)
    result = Runtime(str(tmp_path / "store.db")).run({**PLAN, "context": {"workspace": folder}})
    assert result.status == "failed"
    assert not (home / folder / "reenact.toml").exists()


def test_a_plan_does_not_say_whom_the_host_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line with a key of his own, in the list that `verify` believes."""
    (tmp_path / ".config" / "reenact").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    write = {
        "step_id": "w",
        "skill_id": "file_write",
        "parameters": {"path": ".config/reenact/trusted_keys", "content": "x"},
    }
    result = Runtime("store.db").run({**PLAN, "steps": [write], "context": {"workspace": "."}})
    assert result.outcomes[0].code == "ERR_PERMISSION_DENIED"


def test_a_plan_does_not_read_the_file_of_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the policy lets no plan name stand in it too, and nobody has looked them up yet."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secrets.json").write_text('{"OTHER": "correct horse"}')
    monkeypatch.setenv("REENACT_SECRETS_FILE", "secrets.json")
    read = {"step_id": "read", "skill_id": "file_read", "parameters": {"path": "secrets.json"}}
    result = Runtime("store.db", policy={"secrets": ["SHOP"]}).run(
        {**PLAN, "steps": [read], "context": {"workspace": "."}}
    )
    assert result.outcomes[0].code == "ERR_PERMISSION_DENIED"


def test_a_plan_does_not_write_the_command_that_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would run on the host, the next time that something is signed."""
    command = tmp_path / "signer"
    monkeypatch.setenv("REENACT_SIGNING_KEY", f"exec:{command}")
    own = OwnFiles(tmp_path / "store.db", KeysHere(tmp_path / "store.db").elsewhere)
    assert own.has(command)


def test_a_row_does_not_give_a_key_the_answer_of_another_call(tmp_path: Path) -> None:
    """The rows of two keys, swapped: what was paid to one is not told to who asks for the other."""
    paid: list[str] = []

    @skill("pay", version="1.0.0", tool_class="write")
    def pay(to: str) -> dict[str, str]:
        paid.append(to)
        return {"paid": to}

    path = tmp_path / "store.db"
    with Runtime(str(path), skills=[pay]).session(agent_id="a") as session:
        for name in ("kim", "lee"):
            assert session.call("pay", {"to": name}, idempotency_key=name).ok
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        (one, other) = [row[0] for row in db.execute("SELECT trace_id FROM idempotency WHERE key > ''")]
        db.execute("UPDATE idempotency SET trace_id = 'x' WHERE trace_id = ?", (one,))
        db.execute("UPDATE idempotency SET trace_id = ? WHERE trace_id = ?", (one, other))
        db.execute("UPDATE idempotency SET trace_id = ? WHERE trace_id = 'x'", (other,))
    with (
        pytest.raises(ReenactError, match="not what was written"),
        Runtime(str(path), skills=[pay]).session(agent_id="a") as session,
    ):
        session.call("pay", {"to": "kim"}, idempotency_key="kim")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE idempotency SET request_digest = NULL, trace_id = ? WHERE trace_id = ?", (one, other))
    assert paid == ["kim", "lee"]
