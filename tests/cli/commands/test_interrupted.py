"""Runs that nobody works on any more, and commands that are interrupted before they begin."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from reenact import Runtime
from tests import ctrl_c
from tests.cli.harness import SKILLS, Command, environment

NEVER_IMPORTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
        return None

sys.meta_path.insert(0, Interrupting())
sys.argv = ["reenact", "ls"]
import runpy
runpy.run_module("reenact", run_name="__main__")
"""


def test_ctrl_c_while_the_command_is_imported_is_one_word_and_no_traceback() -> None:
    with ctrl_c.heard():
        done = subprocess.run(
            [sys.executable, "-c", NEVER_IMPORTED],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_what_these_tests_start_hears_ctrl_c_also_where_they_are_started_in_the_background() -> None:
    ask = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert subprocess.check_output(ask) == b"False\n"
        with ctrl_c.heard():
            assert subprocess.check_output(ask) == b"True\n"
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_ls_says_which_running_runs_nobody_works_on(reenact: Command) -> None:
    """A run whose process was killed counts as running: nobody was left to say otherwise."""
    plan = reenact.plan({"skill_id": "steady"})
    assert reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_dispatch").code == -signal.SIGKILL
    (row,) = reenact("ls", "--json").json
    assert (row["status"], row["interrupted"]) == ("running", True)
    assert reenact("ls").out.splitlines()[1].split()[1] == "interrupted"
    assert reenact("resume", "last", "--skills", SKILLS).code == 0
    (row,) = reenact("ls", "--json").json
    assert (row["status"], row["interrupted"]) == ("completed", False)


def test_a_run_that_somebody_works_on_is_running(tmp_path: Path) -> None:
    seen = []
    runtime = Runtime(str(tmp_path / "store.db"), skills=[])
    with runtime.session() as session:
        seen.append((runtime.store.find_run(session.run_id).status, runtime.store.unattended()))  # type: ignore[attr-defined]
    assert seen == [("running", frozenset())]


def test_an_output_goes_with_success_alone(reenact: Command) -> None:
    for word in ("--failed", "--redispatch"):
        refused = reenact("resolve", "last", "s", word, "--output", "{}", "--reason", "looked")
        assert refused.code == 2
        assert refused.err.startswith("error: --output is what a call returned that succeeded")


def test_a_megabyte_of_words_is_not_printed(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "broken", "parameters": {"words": "x" * 100_000}})
    done = reenact("run", plan, "--skills", SKILLS)
    assert done.code == 1
    for text in (done.out, done.err, reenact("show", "last").out):
        assert max(len(line) for line in text.splitlines()) < 700
        assert "x" * 400 in text
