"""What checks the pages finds each way in which a page can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import blocks, commands, difference
from tests.docs.running import run_page

PRINTED = "one\ntwo\nthree\n"

RIGHT = {
    "all of it": ["one", "two", "three"],
    "part of a line": ["o…", "…w…", "three"],
    "nothing in place of it": ["one…", "two", "…three"],
    "lines before": ["…", "three"],
    "lines between": ["one", "…", "three"],
    "lines after": ["one", "…"],
    "no lines in place of it": ["one", "…", "two", "three", "…"],
    "lines around": ["…", "two", "…"],
    "any output at all": ["…"],
}
WRONG = {
    "a wrong line": ["one", "TWO", "three"],
    "a missing first line": ["two", "three"],
    "a missing line": ["one", "three"],
    "a missing last line": ["one", "two"],
    "no line at all": [],
    "an extra first line": ["zero", "one", "two", "three"],
    "an extra line": ["one", "two", "two", "three"],
    "an extra last line": ["one", "two", "three", "four"],
    "an extra blank line": ["one", "", "two", "three"],
    "swapped lines": ["two", "one", "three"],
    "swapped lines around others": ["…", "three", "…", "two", "…"],
    "one line twice": ["…", "two", "…", "two", "…"],
    "the same lines for the middle and the end": ["one", "…", "three", "…", "three"],
    "the beginning of a line": ["one", "tw", "three"],
    "the end of a line": ["one", "wo", "three"],
    "lines in place of part of a line": ["one…", "three"],
    "three dots": ["o...", "two", "three"],
    "lines between, then a wrong one": ["one", "…", "four"],
    "lines between, then too much": ["one", "…", "three", "four"],
    "a wrong line before": ["two", "…", "three"],
}


@pytest.mark.parametrize("shown", RIGHT.values(), ids=RIGHT)
def test_what_is_shown_is_what_is_printed(shown: list[str]) -> None:
    assert difference(tuple(shown), PRINTED) is None


@pytest.mark.parametrize("shown", WRONG.values(), ids=WRONG)
def test_what_is_shown_is_not_what_is_printed(shown: list[str]) -> None:
    assert difference(tuple(shown), PRINTED) is not None


def test_the_difference_names_the_line() -> None:
    assert difference(("one", "TWO", "three"), PRINTED) == "line 2 is 'two', the page shows 'TWO'"
    assert difference(("one",), PRINTED) == "the page does not show 'two'"
    assert difference(("one", "two", "three", "four"), PRINTED) == "it ends too early, before 'four'"


def page_of(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def shell(*lines: str) -> str:
    return "\n".join(["```console", *lines, "```", ""])


def python(*lines: str) -> str:
    return "\n".join(["```python", *lines, "```", ""])


GOOD_PAGES = {
    "a command": shell("$ printf 'one\\ntwo\\n'", "one", "two"),
    "a silent command": shell("$ true", "$ echo one", "one"),
    "a command in two lines": shell("$ echo one \\", "> two", "one two"),
    "another exit code": shell("$ echo no; exit 4  # exit 4", "no"),
    "a killed command": shell("$ kill -9 $$  # exit 137", "Killed"),
    "stderr between": shell("$ echo one; echo two >&2; echo three", "one", "two", "three"),
    "a program's stderr between": shell(
        "$ python -c 'import sys; print(1); print(2, file=sys.stderr); print(3)'", "1", "2", "3"
    ),
    "a silent program": python("x = 1"),
    "a program and what it prints": python("print('one')") + "\n```text\none\n```\n",
    "a file and a command": "<!-- file: a.txt -->\n```text\none\n```\n" + shell("$ cat a.txt", "one"),
}
BAD_PAGES = {
    "a wrong line": (shell("$ echo one", "two"), "the page shows 'two'"),
    "a line that is not shown": (shell("$ echo one"), "the page does not show 'one'"),
    "a line that is not printed": (shell("$ true", "one"), "it ends too early"),
    "swapped lines": (shell("$ printf 'one\\ntwo\\n'", "two", "one"), "line 1 is 'one'"),
    "the output of the command before": (shell("$ true", "one", "$ echo one"), "it ends too early"),
    "failed, and the page does not say so": (shell("$ echo one; exit 1", "one"), "exit code 1"),
    "did not fail as the page says": (shell("$ echo one  # exit 1", "one"), "exit code 0"),
    "failed in another way": (shell("$ exit 3  # exit 4"), "exit code 3"),
    "failed, whatever it prints": (shell("$ echo one; exit 1", "…"), "exit code 1"),
    "killed without a word": (shell("$ kill -9 $$  # exit 137"), "the page does not show 'Killed'"),
    "stderr in the wrong place": (
        shell("$ echo one; echo two >&2; echo three", "one", "three", "two"),
        "line 2 is 'two'",
    ),
    "stderr that is not shown": (shell("$ echo one >&2"), "the page does not show 'one'"),
    "a program that prints more": (python("print('one')"), "the page does not show 'one'"),
    "a program that prints something else": (python("print('one')") + "\n```text\ntwo\n```\n", "the page shows 'two'"),
    "a program that fails": (python("raise SystemExit(1)"), "exit code 1"),
    "the second block": (shell("$ true") + shell("$ echo one", "two"), "page:4"),
}


@pytest.mark.parametrize("text", GOOD_PAGES.values(), ids=GOOD_PAGES)
def test_a_page_that_is_right_passes(text: str, tmp_path: Path) -> None:
    run_page(page_of(tmp_path, text), tmp_path, "page")


@pytest.mark.parametrize(("text", "said"), BAD_PAGES.values(), ids=BAD_PAGES)
def test_a_page_that_is_wrong_is_found(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        run_page(page_of(tmp_path, text), tmp_path, "page")


def test_a_block_of_commands_begins_with_one() -> None:
    with pytest.raises(ValueError, match="not with 'echo one'"):
        commands("echo one\n$ echo two\n")


def test_text_that_follows_anything_else_is_no_output(tmp_path: Path) -> None:
    page = page_of(tmp_path, python("x = 1") + "Words.\n\n```text\none\n```\n")
    assert [(block.lang, block.shown) for block in blocks(page)] == [("python", ()), ("text", ())]
