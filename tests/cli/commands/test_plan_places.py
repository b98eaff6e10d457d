"""A mistake in a plan is told with the line and column where it stands, however deep, pinned or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import SKILLS, Command, error_line

UNPINNED = "take context.pins out and pin the plan again"


def spoiled(reenact: Command, *, old: str, new: str) -> tuple[Path, str]:
    """A pinned plan with one text replaced, and `(line …, column …)` of where the new one begins."""
    plan = reenact.plan({"skill_id": "flaky"}, {"skill_id": "steady", "retry": {"max_retries": 1}})
    pinned = reenact("pin", plan, "--skills", SKILLS)
    assert pinned.code == 0, pinned.err
    at = pinned.out.index(old)
    text = pinned.out[:at] + new + pinned.out[at + len(old) :]
    at += len(new) - len(new.split(": ", 1)[-1])
    path = reenact.folder / "spoiled.json"
    path.write_text(text, encoding="utf-8")
    return path, f"(line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)})"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"cost_estimate_cents": 1', '"cost_estimate_cents": -1', UNPINNED),
        ('"cost_estimate_cents": 1', '"cost_estimate_cents": 1.5', UNPINNED),
        ('"taxonomy": "1.1.0"', '"taxonomy": "9.9.9"', UNPINNED),
        ('"max_retries": 1', '"zz": 1', "unknown field `zz`"),
        ('"max_retries": 1', '"max_retries": -1', "$.steps[1].retry.max_retries"),
        ('"context": {', '"context": {"supervisor": "nobody", ', "neither auto, ask, nor module:function"),
        ('"context": {', '"context": {"supervisor": "no.such:thing", ', "this host does not load 'no.such:thing'"),
    ],
)
def test_a_mistake_in_a_pinned_plan_is_told_with_its_place(reenact: Command, old: str, new: str, told: str) -> None:
    path, place = spoiled(reenact, old=old, new=new)
    done = reenact("run", path, "--skills", SKILLS, "--json")
    code = "POLICY_EXCEEDED" if "does not load" in told else "PLAN_INVALID"
    assert (done.code, done.json["error"]["code"]) == (2, code)
    line = error_line(done)
    assert told in line
    assert "(line " in line
    if "supervisor" not in new:
        assert place in line
    assert reenact("ls", "--json").json == []


def test_a_field_that_a_plan_does_not_have_is_told_at_the_top_too(reenact: Command) -> None:
    path = reenact.folder / "plan.json"
    document: dict[str, Any] = {"plan_id": "p", "agent_id": "a", "steps": [], "colour": "red"}
    path.write_text(json.dumps(document, indent=1))
    assert error_line(reenact("run", path)).endswith("unknown field `colour` - at `$` (line 5, column 12)")
    del document["colour"], document["steps"]
    path.write_text(json.dumps(document, indent=1))
    assert error_line(reenact("run", path)).endswith("missing required field `steps` - at `$` (line 1, column 1)")
