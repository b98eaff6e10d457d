"""Files and packages: what is looked at and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.errors import UsageError
from reenact.lint.check import Options, check


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def marks(*paths: Path, options: Options | None = None) -> list[tuple[str, int, str]]:
    report = check([str(path) for path in paths], options)
    return [(Path(one.place.file).name, one.place.line, one.rule) for one in report.findings]


def test_each_file_is_checked_alone(tmp_path: Path) -> None:
    write(tmp_path, helper="import time\nNOW = time.time()\n", script="import helper\nprint(helper.NOW)\n")
    assert marks(tmp_path / "script.py") == []
    assert marks(tmp_path) == [("helper.py", 2, "RN203")]


@pytest.mark.parametrize("statement", ["from .helper import slow", "from pkg.helper import slow", "import helper as h"])
def test_what_another_file_does_with_an_argument_is_not_known_and_its_result_is_made_from_it(
    statement: str, tmp_path: Path
) -> None:
    called = "h.slow" if statement.endswith("h") else "slow"
    write(
        tmp_path,
        helper="def slow(ms):\n    return ms > 100\n",
        planner=f"{statement}\ndef f(outcome):\n    if {called}(outcome.latency_ms):\n        return 1\n",
        other=f"{statement}\ndef f(outcome):\n    return {called}(outcome.latency_ms)\n",
    )
    assert marks(tmp_path / "planner.py") == [("planner.py", 3, "RN101")]
    assert marks(tmp_path / "other.py") == []


def test_two_scripts_of_one_name_are_both_checked(tmp_path: Path) -> None:
    write(tmp_path, a__run="import time\nA = time.time()\n", b__run="import random\nB = random.random()\n")
    assert marks(tmp_path) == [("run.py", 2, "RN203"), ("run.py", 2, "RN201")]


def test_folders_are_walked_without_caches_hidden_ones_and_environments(tmp_path: Path) -> None:
    clock = "import time\nA = time.time()\n"
    write(tmp_path, a__one=clock, node_modules__two=clock, venv__three=clock, b__deep__four=clock)
    write(tmp_path / ".hidden", five=clock)
    write(tmp_path / "__pycache__", six=clock)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    (tmp_path / "b" / "note.txt").write_text("no Python")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert [mark[0] for mark in marks(tmp_path)] == ["one.py", "four.py"]
    assert [mark[0] for mark in marks(tmp_path, options=Options(exclude=("deep",)))] == ["one.py"]
    assert [mark[0] for mark in marks(tmp_path, options=Options(exclude=("*/a/*",)))] == ["four.py"]
    assert [mark[0] for mark in marks(tmp_path / "venv" / "three.py")] == ["three.py"]


def test_a_file_that_is_named_twice_is_checked_once(tmp_path: Path) -> None:
    write(tmp_path, one="import time\nA = time.time()\n")
    assert len(marks(tmp_path, tmp_path / "one.py", tmp_path / "." / "one.py")) == 1


def test_a_file_without_an_extension_is_checked_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("import time\nA = time.time()\n")
    assert marks(tmp_path) == []
    assert marks(tmp_path / "script") == [("script", 2, "RN203")]


def test_rules_can_be_selected_and_ignored(tmp_path: Path) -> None:
    write(tmp_path, one="import time, random\nA = time.time()\nB = random.random()\n")
    assert marks(tmp_path, options=Options(select=("RN203",))) == [("one.py", 2, "RN203")]
    assert marks(tmp_path, options=Options(select=("RN2",), ignore=("RN203",))) == [("one.py", 3, "RN201")]
    assert marks(tmp_path, options=Options(ignore=("RN",))) == []


def test_an_unknown_rule_or_no_path_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no rule 'RN9'"):
        Options(select=("RN9",))
    with pytest.raises(UsageError, match="name at least one file"):
        check([])


def test_columns_count_characters(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import time\nÄÖÜ = 'ß' + str(time.time())\n", encoding="utf-8")
    (finding,) = check([str(tmp_path)]).findings
    assert finding.place.column == 17
