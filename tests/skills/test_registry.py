"""Skills by exact id@version, and where they come from."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from reenact.contracts.skill import whole_digest
from reenact.errors import SkillDeclarationError, SkillNotFound
from reenact.skills import load
from reenact.skills.declare import skill
from reenact.skills.drift import Drift, drift
from reenact.skills.from_schema import skill_from_schema
from reenact.skills.load import load_entry_points, load_skills
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill


def make(skill_id: str, version: str, description: str = "", **declared: Any) -> Skill:
    @skill(skill_id, version=version, description=description, **declared)
    def function(value: int) -> int:
        return value

    return function


def test_a_version_is_resolved_exactly_and_never_substituted() -> None:
    one, two = make("a", "1.0.0"), make("a", "1.2.0")
    registry = Registry([two, one])
    assert registry.resolve("a", "1.0.0") is one
    assert registry.resolve("a", "1.2.0") is two
    with pytest.raises(SkillNotFound, match=r"no skill a@1\.1\.0; registered versions of a: 1\.0\.0, 1\.2\.0"):
        registry.resolve("a", "1.1.0")


def test_the_highest_version_is_found_by_semver() -> None:
    registry = Registry([make("a", version) for version in ("1.9.0", "1.10.0", "2.0.0-rc.1", "1.2.0")])
    assert registry.highest("a").version == "2.0.0-rc.1"
    assert registry.versions("a") == ["1.2.0", "1.9.0", "1.10.0", "2.0.0-rc.1"]


def test_of_two_builds_of_one_version_the_last_to_come_is_the_highest() -> None:
    """A version that is made of a tool's schema says nothing about which schema is the newer one."""
    first, second = (
        skill_from_schema("Get", {"type": "object", "properties": {name: {}}}, lambda **given: given) for name in "ab"
    )
    for one, other in ((first, second), (second, first)):
        registry = Registry([one])
        for each in (one, other, one):
            registry = registry.extended([each])
            assert registry.highest("Get") is each
        assert registry.versions("Get") == [other.version, one.version]


def test_an_unknown_id_gets_a_suggestion() -> None:
    registry = Registry([make("http_call", "1.0.0")])
    with pytest.raises(SkillNotFound, match=r"no skill http_cal; did you mean http_call\?"):
        registry.highest("http_cal")
    with pytest.raises(SkillNotFound, match="reenact skills"):
        Registry().resolve("zzz", "1.0.0")
    assert registry.versions("zzz") == []


def test_another_definition_under_the_same_version_is_refused_and_names_both() -> None:
    first, second = make("a", "1.0.0"), make("a", "1.0.0", timeout_ms=5)
    registry = Registry([first])
    with pytest.raises(SkillDeclarationError) as caught:
        registry.register(second)
    assert first.digest[:12] in str(caught.value)
    assert second.digest[:12] in str(caught.value)
    assert registry.resolve("a", "1.0.0") is first


def test_the_same_definition_may_come_twice() -> None:
    first = make("a", "1.0.0")
    assert Registry([first]).register(make("a", "1.0.0")) is first


def test_two_functions_that_declare_the_same_are_not_taken_for_one() -> None:
    @skill("send", version="1.0.0")
    def first(to: str) -> str:
        """Sends."""
        return f"by post to {to}"

    @skill("send", version="1.0.0")
    def second(to: str) -> str:
        """Sends."""
        return f"by air to {to}"

    assert first.digest == second.digest
    with pytest.raises(
        SkillDeclarationError, match=rf"send@1\.0\.0 is declared twice: {__file__}:\d+ and .*:\d+; give"
    ):
        Registry([first, second])


def test_a_file_that_is_found_by_a_link_too_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "release-1").mkdir()
    (tmp_path / "current").symlink_to("release-1")
    (tmp_path / "release-1" / "by_link.py").write_text(
        'from reenact import skill\n\n@skill("l", version="1.0.0")\ndef l(a: str) -> str:\n    return a\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path / "current"))
    registry = Registry()
    load_skills(str(tmp_path / "current" / "by_link.py"), registry)
    load_skills("by_link", registry)
    assert "l@1.0.0" in registry


def test_a_frozen_view_does_not_see_what_comes_later() -> None:
    registry = Registry([make("a", "1.0.0")])
    view = registry.freeze()
    registry.register(make("a", "2.0.0"))
    assert view.highest("a").version == "1.0.0"
    assert "a@2.0.0" in registry
    assert "a@2.0.0" not in view
    with pytest.raises(SkillDeclarationError, match="while a run uses them"):
        view.register(make("b", "1.0.0"))


def test_all_is_ordered_by_id_and_version() -> None:
    registry = Registry([make("b", "1.0.0"), make("a", "10.0.0"), make("a", "9.0.0")])
    assert [item.metadata.reference for item in registry] == ["a@9.0.0", "a@10.0.0", "b@1.0.0"]
    assert len(registry) == 3


def test_a_changed_or_missing_definition_is_drift() -> None:
    pinned = {"a@1.0.0": make("a", "1.0.0").digest, "b@1.0.0": "f" * 64, "c@1.0.0": make("c", "1.0.0").digest}
    changed = make("a", "1.0.0", description="changed", timeout_ms=5)
    found = drift(pinned, Registry([changed, make("c", "1.0.0")]))
    assert found == [
        Drift(skill="a@1.0.0", pinned=pinned["a@1.0.0"], found=changed.digest),
        Drift(skill="b@1.0.0", pinned="f" * 64, found=None),
    ]
    assert "changed its definition" in found[0].message
    assert "no longer registered" in found[1].message


def test_other_words_are_no_drift_also_in_the_form_that_older_plans_pinned() -> None:
    registry = Registry([make("a", "1.0.0", description="now")])
    assert drift({"a@1.0.0": make("a", "1.0.0", description="then").digest}, registry) == []
    assert drift({"a@1.0.0": whole_digest(make("a", "1.0.0", description="now").metadata)}, registry) == []
    assert len(drift({"a@1.0.0": whole_digest(make("a", "1.0.0", description="then").metadata)}, registry)) == 1


@pytest.mark.parametrize(("one", "other"), [("foo", "local.foo"), ("GetX", "local.GetX")])
def test_two_ids_that_a_journal_could_not_tell_apart_are_refused(one: str, other: str) -> None:
    registry = Registry([make(one, "1.0.0"), make(one, "2.0.0")])
    with pytest.raises(SkillDeclarationError, match=f"{other} and {one} are one tool"):
        registry.register(make(other, "1.0.0"))
    with pytest.raises(SkillDeclarationError, match="are one tool"):
        registry.freeze().extended([make(other, "1.0.0")])


FILE = """\
from __future__ import annotations
from dataclasses import dataclass
from reenact.skills.declare import skill
import beside_the_skills

@dataclass
class Item:
    x: int

@skill("from_file", version="1.0.0")
def from_file(item: Item) -> int:
    return item.x + beside_the_skills.ONE

ALIAS = from_file
MORE = [skill("in_a_list", version="1.0.0")(lambda: 1)]
"""


def test_skills_are_loaded_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_skills.py").write_text("ONE = 1\n", encoding="utf-8")
    path = tmp_path / "my_skills.py"
    path.write_text(FILE, encoding="utf-8")
    registry = Registry()
    loaded = load_skills(str(path), registry)
    assert [item.skill_id for item in loaded] == ["from_file", "in_a_list"]
    assert registry.resolve("from_file", "1.0.0").bind({"item": {"x": 1}})["item"].x == 1
    assert registry.resolve("from_file", "1.0.0").origin == str(path)
    assert [item.metadata.reference for item in load_skills(str(path), registry)] == [
        "from_file@1.0.0",
        "in_a_list@1.0.0",
    ]
    del sys.modules["beside_the_skills"]


def test_skills_are_loaded_from_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_with_skills.py").write_text(FILE.replace("import beside_the_skills\n", ""), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry()
    load_skills("module_with_skills", registry)
    assert "from_file@1.0.0" in registry
    del sys.modules["module_with_skills"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = 1 / 0\n", ":2: ZeroDivisionError: division by zero"),
        ("x = (\n", ":1: SyntaxError: '(' was never closed"),
        ("import surely_not_installed_module\n", ":1: ModuleNotFoundError: "),
        ("raise SystemExit('stop')\n", ":1: SystemExit: stop"),
        ("raise ValueError('two\\nlines')\n", ":1: ValueError: two lines"),
        (
            "from reenact.skills.declare import skill\n\n@skill('x', version='1')\ndef f() -> None: ...\n",
            ":3: '1' is not",
        ),
        ("x = 1\n", " declares no skill"),
    ],
)
def test_a_mistake_in_a_users_file_is_one_line_with_its_place(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "broken.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SkillDeclarationError) as caught:
        load_skills(str(path), Registry())
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_a_file_or_module_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SkillDeclarationError, match="no such file of skills"):
        load_skills(str(tmp_path / "none.py"), Registry())
    with pytest.raises(SkillDeclarationError, match=r"no module no_such_package\.skills"):
        load_skills("no_such_package.skills", Registry())


def test_a_module_that_misses_another_module_is_not_called_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "needs_more.py"
    path.write_text("\nimport surely_not_installed_module\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SkillDeclarationError) as caught:
        load_skills("needs_more", Registry())
    assert str(caught.value).startswith(f"{path}:2: ModuleNotFoundError")


ENTRY = make("from_entry_point", "1.0.0")
ENTRIES = [ENTRY, make("second", "1.0.0")]
NOT_A_SKILL = 3


def offer(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    points = [EntryPoint(name=f"p{n}", value=value, group=load.ENTRY_POINT_GROUP) for n, value in enumerate(values)]
    monkeypatch.setattr(load, "entry_points", lambda group: points if group == load.ENTRY_POINT_GROUP else [])


def test_skills_are_discovered_from_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, f"{__name__}:ENTRY", f"{__name__}:ENTRIES", __name__)
    registry = Registry()
    load_entry_points(registry)
    assert registry.digests() == {item.metadata.reference: item.digest for item in ENTRIES}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (f"{__name__}:NOT_A_SKILL", "names no skill, module or list of skills"),
        ("no_such_package:x", "ModuleNotFoundError"),
        (f"{__name__}:no_such_name", "AttributeError"),
    ],
)
def test_a_broken_entry_point_is_named(monkeypatch: pytest.MonkeyPatch, value: str, message: str) -> None:
    offer(monkeypatch, value)
    with pytest.raises(SkillDeclarationError, match=message) as caught:
        load_entry_points(Registry())
    assert value in str(caught.value)
