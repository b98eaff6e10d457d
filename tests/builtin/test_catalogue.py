"""What holds for every built-in skill, and for its page."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reenact.builtin.catalogue import MODULES
from reenact.builtin.http_call import http_call
from reenact.builtin.llm_invoke import llm_invoke
from reenact.policy.taxonomy import TAXONOMY
from reenact.skills.registry import default_registry
from reenact.skills.skill import Skill
from tests.builtin.calling import call

NAMES = {name.split("@")[0]: default_registry().resolve(*name.split("@")) for name in MODULES}


def test_the_contracts_skills_are_all_there() -> None:
    expected = "http_call llm_invoke json_transform webhook_send email_send kv_store file_read file_write shell"
    assert set(NAMES) == set(expected.split())
    assert {skill.skill_id for skill in default_registry()} >= set(NAMES)


def test_the_catalogue_says_what_the_modules_declare() -> None:
    skills = [default_registry().resolve(*name.split("@")) for name in MODULES]
    assert {skill.metadata.reference: skill.declared_in for skill in skills} == MODULES


def test_a_registry_imports_a_built_in_skill_when_it_is_asked_for() -> None:
    code = (
        "import sys; from reenact.skills.registry import default_registry as d; r = d().freeze()\n"
        "was = 'reenact.builtin.http_call' in sys.modules; r.highest('http_call')\n"
        "print(was, 'reenact.builtin.http_call' in sys.modules, 'reenact.builtin.shell' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True False\n"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_declared_failure_is_in_the_taxonomy(name: str) -> None:
    meta = NAMES[name].metadata
    assert meta.failure_modes
    assert set(meta.failure_modes) <= set(TAXONOMY)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_skill_says_whether_it_reads_or_writes_and_has_a_description(name: str) -> None:
    meta = NAMES[name].metadata
    assert meta.tool_class is not None
    assert meta.description.endswith(".")
    assert bool(meta.side_effects) is (name not in {"json_transform", "file_read"})


def section(page: str, name: str) -> str:
    assert f"\n## {name}\n" in page, f"the page has no section for {name}"
    return page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_page_names_every_parameter_result_effect_and_failure(name: str, root: Path) -> None:
    page = (root / "docs" / "reference" / "builtin_skills.md").read_text(encoding="utf-8")
    text, skill = section(page, name), NAMES[name]
    for word in (*parameters(skill), *results(skill), *skill.metadata.side_effects, *skill.metadata.failure_modes):
        assert f"`{word}`" in text, f"{name}: {word} is not on the page"


def parameters(skill: Skill) -> list[str]:
    return list(skill.metadata.input_schema["properties"])


def results(skill: Skill) -> list[str]:
    schema: dict[str, Any] = skill.metadata.output_schema
    return list(schema["$defs"][schema["$ref"].rpartition("/")[2]]["properties"])


@pytest.mark.parametrize(
    ("missing", "skill", "parameters", "extra"),
    [
        ("httpx2", http_call, {"url": "http://a.example/"}, "reenact[http]"),
        ("anthropic", llm_invoke, {"prompt": "x", "model": "claude-x", "api_key": "k"}, "reenact[models]"),
        ("openai", llm_invoke, {"prompt": "x", "model": "gpt-x", "api_key": "k"}, "reenact[models]"),
    ],
)
def test_a_missing_extra_is_named_in_one_line(
    missing: str, skill: Skill, parameters: dict[str, Any], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(name=missing)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setitem(sys.modules, missing, None)
    called = call(skill, parameters)
    assert called.code == "ERR_SKILL_DISABLED"
    assert extra in str(called.error)
    assert "\n" not in str(called.error)


def test_no_built_in_skill_imports_an_extra_before_it_is_called() -> None:
    extras = ("httpx2", "httpcore2", "anthropic", "openai", "pydantic")
    load = "from reenact.skills.registry import default_registry; default_registry().all()"
    code = f"import sys; {load}; print([name for name in {extras} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
