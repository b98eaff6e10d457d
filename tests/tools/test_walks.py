"""Walks are counted as their page says, and every one of them arrives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.walks import WALKS, Entry, Figures, Watch, excess, files_in_order, line, main, walked

import reenact

HOME = Path(__file__).resolve().parents[2]


def inner() -> int:
    return len("a call into C")


def outer() -> int:
    return inner() + inner()


def test_calls_of_the_named_modules_are_kept_in_order_and_calls_into_c_are_not() -> None:
    watch = Watch(prefix=__name__)
    with watch:
        outer()
        Path("elsewhere").as_posix()
    outer()
    assert [entry.function for entry in watch.entries] == ["outer", "inner", "inner"]
    found = watch.figures(HOME)
    assert (found.calls, found.functions, found.modules, found.changes) == (3, 2, 1, 0)
    assert found.files == ("tests/tools/test_walks.py",)


def test_a_change_of_package_is_one_of_the_first_two_names() -> None:
    watch = Watch()
    modules = ("reenact.a.x", "reenact.a.y.z", "reenact.b", "reenact.a.x")
    watch.entries = [Entry(module, "f", 1, f"/src/{module}.py") for module in modules]
    found = watch.figures(Path("/src"))
    assert (found.calls, found.functions, found.modules, found.changes) == (4, 3, 3, 2)
    assert found.files == ("reenact.a.x.py", "reenact.a.y.z.py", "reenact.b.py")


def test_code_that_was_made_from_a_text_has_no_file() -> None:
    watch = Watch()
    watch.entries = [Entry("reenact.a", "__init__", 1, "<string>")]
    assert watch.figures(HOME).files == ()


def test_limits_are_exceeded_above_them_only() -> None:
    at_the_limit = Figures(calls=300, functions=999, modules=35, changes=60, files=())
    above = Figures(calls=301, functions=1, modules=36, changes=61, files=())
    assert excess("session_call", at_the_limit) == []
    assert excess("session_call", above) == ["301 calls, limit 300", "36 modules, limit 35", "61 changes, limit 60"]
    assert excess("verify", above) == []


def test_a_check_ends_in_exit_1_above_a_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Figures(calls=2_501, functions=1, modules=1, changes=0, files=())
    monkeypatch.setattr("tools.walks.counted_elsewhere", lambda name: found)
    assert main(["first_run", "--check"]) == 1
    assert "exceeds: 2,501 calls, limit 2,500" in capsys.readouterr().out
    assert main(["first_run"]) == 0
    assert main(["run", "--check"]) == 0


@pytest.mark.parametrize("name", WALKS)
def test_every_walk_arrives_and_passes_files_that_there_are(name: str) -> None:
    found = walked(name)
    assert found.calls >= found.functions >= found.modules >= len(found.files) > 0
    root = Path(reenact.__file__).parent
    assert [file for file in found.files if not (root / file).is_file()] == []


def test_the_files_of_a_call_begin_with_its_session() -> None:
    files = files_in_order("session_call")
    assert files[0].startswith("runtime/session")
    assert len(files) == len(set(files))


def test_the_command_prints_a_line_for_each_walk() -> None:
    command = [sys.executable, "-m", "tools.walks", "session_call"]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("session_call ")
    assert done.stdout.endswith(" changes of package\n")


def test_a_line_names_what_was_counted() -> None:
    figures = Figures(calls=4_529, functions=258, modules=60, changes=125, files=())
    words = " ".join(line("run", figures).split())
    assert words == "run 4,529 calls 258 functions 60 modules 125 changes of package"
