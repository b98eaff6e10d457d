"""On a terminal: colours and a live bar; under NO_COLOR no colour; in a pipe plain text."""

from __future__ import annotations

import os
import re
import subprocess

from tests.cli.harness import SKILLS, Command

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


def on_a_terminal(reenact: Command, *arguments: str, **more: str) -> tuple[int, str]:
    """(exit code, everything that the terminal got)"""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        reenact.argv(*arguments),
        cwd=reenact.folder,
        env=reenact.env(**{"TERM": "xterm-256color", "COLUMNS": "120", **more}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:
        pass  # how Linux says that the other side has closed the terminal
    finally:
        os.close(ours)
    return process.wait(timeout=60), seen.decode()


def test_show_has_colours_on_a_terminal_and_none_under_no_color(recorded: Command) -> None:
    code, text = on_a_terminal(recorded, "show", "last")
    assert code == 0
    assert COLOUR.search(text)
    code, text = on_a_terminal(recorded, "show", "last", NO_COLOR="1")
    assert code == 0
    assert "COMPLETED" in text
    assert not COLOUR.search(text)
    assert "\x1b" not in recorded("show", "last").out


def test_a_run_shows_a_live_bar_and_leaves_the_result(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "flaky"}, {"skill_id": "steady"})
    code, text = on_a_terminal(reenact, "run", str(plan), "--skills", SKILLS)
    assert code == 0
    assert "━" in text  # the bar
    assert "s0: attempt 1 ERR_TIMEOUT, again in 1 ms" in text
    assert "completed" in text


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady"})
    code, text = on_a_terminal(reenact, "run", str(plan), "--skills", SKILLS, TERM="dumb")
    assert code == 0
    assert "━" not in text
    assert "s0: OK" in text


def test_a_terminal_whose_width_nobody_knows_shows_all_the_same(recorded: Command) -> None:
    code, text = on_a_terminal(recorded, "show", "last", COLUMNS="0")
    assert code == 0
    assert "COMPLETED" in text


def test_each_run_that_is_recovered_has_a_bar_of_its_own(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "steady"})
    for _ in range(2):
        assert reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="after_dispatch:1").code != 0
    code, text = on_a_terminal(reenact, "recover", "--skills", SKILLS)
    assert code == 0
    assert 1 <= text.count("\x1b[?25l") <= 2  # the cursor is hidden when a bar begins; side by side one may be enough
    assert text.count("completed") == 2
    assert "0/2" in text
    assert "?" not in re.sub(r"\x1b\[\?", "", text), "the steps of a run that goes on are known"
