"""The page on declaring skills says what is so: its code runs, its tables name what there is."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.skills.skill import Skill
from tests.skills.contexts import make_context


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "howto" / "declare_a_skill.md").read_text(encoding="utf-8")


@pytest.fixture
def declared(page: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Skill]:
    """Every skill of the page, from running its Python blocks as one file."""
    module = ModuleType("page_on_skills")
    monkeypatch.setitem(sys.modules, "page_on_skills", module)
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "declare_a_skill.md", "exec"), module.__dict__)
    return {value.skill_id: value for value in vars(module).values() if isinstance(value, Skill)}


def test_the_code_of_the_page_runs(declared: dict[str, Skill]) -> None:
    order = declared["look_up_order"].call_sync(make_context(), {"order_id": "o-1"})
    assert order == {"order_id": "o-1", "amount_cents": 1250}
    ctx = make_context()
    charge = declared["charge_card"].call_sync(ctx, {"order_id": "o", "card_number": "4242", "amount_cents": 1})
    assert charge == {"charge": "ch_123", "key": "key-1"}
    assert ctx.report.side_effects == [("card_charged", "payments.example")]
    letter = declared["send_letter"]
    assert letter.reconcile is not None
    assert letter.reconcile(make_context(), to="x") == {"done": False}
    letter.call_sync(make_context(), {"to": "x"})
    assert letter.reconcile(make_context(), to="x") == {"done": True, "output": {"message_id": "m-1"}}


def test_every_option_of_the_decorator_is_on_the_page(page: str) -> None:
    table = page.partition("## All options")[2]
    for name in inspect.signature(skill).parameters:
        if name != "skill_id":
            assert f"`{name}`" in table, name


def test_everything_on_the_context_is_on_the_page(page: str) -> None:
    table = page.partition("## What the context gives")[2].partition("\n## ")[0]
    inner = {"close", "report", "run_id", "step_id", "trace_id"}
    offered = {name for name in (*vars(make_context()), *vars(SkillContext)) if not name.startswith("_")} - inner
    for name in offered:
        assert re.search(rf"`{name}[`(]", table), name
