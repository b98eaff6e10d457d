"""The commands: what they print as JSON, their exit codes, and that a mistake is one line on stderr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact.cli.main import main

SKILLS = """
from reenact import skill

@skill("price", version="1.0.0", tool_class="read", cost_estimate_cents=2)
def price(item: str) -> int:
    return len(item)

@skill("pay", version="1.0.0", tool_class="write")
def pay(cents: int) -> str:
    return f"paid {cents}"
"""
PLAN = {
    "plan_id": "shopping", "agent_id": "buyer",
    "steps": [
        {"step_id": "look", "skill_id": "price", "parameters": {"item": "tea"}},
        {"step_id": "pay", "skill_id": "pay", "parameters": {"cents": "{{look}}"}},
    ],
}  # fmt: skip


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store in which one run was made."""
    monkeypatch.setenv("REENACT_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "shop.py").write_text(SKILLS)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    assert code("run", str(tmp_path / "plan.json"), "--skills", str(tmp_path / "shop.py")) == 0
    return tmp_path


def code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


class Printed:
    """What a command printed, as JSON or as its one line of error."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def json(self, *arguments: str, exit_code: int = 0) -> Any:
        self._capsys.readouterr()
        assert code(*arguments, "--json") == exit_code
        return json.loads(self._capsys.readouterr().out)

    def error(self, *arguments: str, exit_code: int) -> str:
        self._capsys.readouterr()
        assert code(*arguments) == exit_code
        printed = self._capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("error: ")
        assert printed.err.count("\n") == 1
        return printed.err


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    return Printed(capsys)


def test_every_mode_prints_its_comparison(shop: Path, printed: Printed) -> None:
    skills = ("--skills", str(shop / "shop.py"))
    (original,) = printed.json("ls")

    mock = printed.json("replay", original["run_id"])
    assert (mock["verdict"], mock["original_run_id"]) == ("matched", original["run_id"])
    live = printed.json("replay", original["run_id"], "--mode", "full_replay", *skills)
    assert [step["how"] for step in live["steps"]] == ["live", "skipped"]
    dry = printed.json("replay", original["run_id"], "--mode", "dry_run", *skills)
    assert dry["estimate"]["cost_cents"] == 2
    runs = printed.json("ls")
    assert [(run["mode"], run["parent_run"]) for run in runs] == [
        ("full_replay", original["run_id"]), ("live", None),
    ]  # fmt: skip
    assert runs[0]["run_id"] == live["run_id"]


def test_a_fork_and_a_diff_print_values(shop: Path, printed: Printed) -> None:
    (original,) = printed.json("ls")
    forked = printed.json(
        "fork", original["run_id"], "--at", "pay", "--set", "outputs.look=9", "--live",
        "--skills", str(shop / "shop.py"),
    )  # fmt: skip
    assert (forked["mode"], forked["verdict"]) == ("fork", "matched")

    sides = printed.json("diff", original["run_id"], forked["run_id"], exit_code=1)
    assert sides["same"] is False
    assert {"step_id": "pay", "where": "output", "left": "paid 3", "right": "paid 9"} in sides["values"]
    assert printed.json("diff", original["run_id"], original["run_id"])["same"] is True


def test_metrics_print_as_text_and_as_json(shop: Path, printed: Printed, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed.json("metrics")
    assert {"name": "reenact_runs_total", "labels": {"status": "completed"}, "value": 1.0} in found
    capsys.readouterr()
    assert code("metrics") == 0
    assert '# TYPE reenact_runs_total counter\nreenact_runs_total{status="completed"} 1.0' in capsys.readouterr().out


MISTAKES: dict[str, tuple[list[str], int, str]] = {
    "no such mode": (["replay", "last", "--mode", "wet_run"], 2, "there is no replay mode 'wet_run'"),
    "no such run": (["replay", "ffff"], 2, "no run 'ffff'"),
    "no such folder": (["replay", "./nowhere"], 3, "nowhere"),
    "no such step": (["fork", "last", "--at", "nowhere"], 2, "has no such step"),
    "no such value": (["fork", "last", "--at", "pay", "--set", "colour"], 2, "write path=value"),
    "no such policy": (["fork", "last", "--at", "pay", "--policy", "none.json"], 3, "none.json"),
    "a skill is missing": (["replay", "last", "--mode", "full_replay"], 1, "price@1.0.0 is pinned, but no longer"),
    "saved live": (["replay", "last", "--mode", "dry_run", "--save"], 2, "only a mock replay needs to be saved"),
}


@pytest.mark.parametrize("case", MISTAKES)
@pytest.mark.usefixtures("shop")
def test_a_mistake_is_one_line_with_its_exit_code(case: str, printed: Printed) -> None:
    arguments, exit_code, words = MISTAKES[case]

    assert words in printed.error(*arguments, exit_code=exit_code)


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, printed: Printed) -> None:
    store = tmp_path / "none.db"
    for command in (["replay", "last"], ["diff", "a", "b"], ["fork", "last", "--at", "x"], ["metrics"]):
        assert "there is no store" in printed.error(*command, "--store", str(store), exit_code=3)
    assert not store.exists()
