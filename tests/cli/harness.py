"""Runs the command in a process of its own, on a store of its own.

Most processes are forked from a server that has imported the package already: a tenth of the cost, and the same
entry point, file descriptors, signals and exit codes. `start` starts the interpreter anew.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import ctrl_c
from tests.engines.places import store_at
from tests.fork_server import FORKS
from tests.store.sqlite.powerless import give_up_powers

SKILLS = str(Path(__file__).parent / "sample_skills.py")
LIMIT_S = 120


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(**more: str) -> dict[str, str]:
    """The test's own environment without what would change the command's behaviour."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("REENACT_")}
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"):
        ours.pop(name, None)
    return {**ours, **more}


def run_command(argv: list[str], folder: str, env: dict[str, str], outputs: str) -> None:
    """In the forked process: the real entry point, with files for stdout and stderr."""
    from reenact.cli.main import main
    from reenact.runtime import crash_points

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    crash_points.arm(env.get("REENACT_CRASH_AT"))  # otherwise read when the module is imported
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(outputs, name), os.O_CREAT | os.O_WRONLY, 0o600), number)
    main(argv)


def run_powerless(argv: list[str], folder: str, env: dict[str, str], outputs: str) -> None:
    """As `run_command`, and the permissions of files hold also for root."""
    give_up_powers()
    run_command(argv, folder, env, outputs)


class Command:
    """`reenact` with one store, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store.db"

    def __call__(self, *arguments: str | Path, powerless: bool = False, **more: str) -> Done:
        target = run_powerless if powerless else run_command
        with tempfile.TemporaryDirectory() as outputs:
            argv = [str(argument) for argument in arguments]
            process = FORKS.Process(target=target, args=(argv, str(self.folder), self.env(**more), outputs))
            process.start()
            process.join(LIMIT_S)
            if process.exitcode is None:
                process.kill()
                raise TimeoutError(f"reenact {' '.join(argv)} takes longer than {LIMIT_S} s")
            out, err = (Path(outputs, name).read_text(encoding="utf-8") for name in ("out", "err"))
            return Done(process.exitcode, out, err)

    def start(self, *arguments: str | Path, **more: str) -> subprocess.Popen[str]:
        with ctrl_c.heard():
            return subprocess.Popen(
                self.argv(*arguments),
                cwd=self.folder,
                env=self.env(**more),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

    def argv(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "reenact", *(str(argument) for argument in arguments)]

    def env(self, **more: str) -> dict[str, str]:
        own = {"REENACT_STORE": store_at(self.store), "XDG_CONFIG_HOME": str(self.folder / "config")}
        return environment(**{**own, **more})

    def plan(self, *steps: dict[str, Any], name: str = "plan.json", **context: Any) -> Path:
        """A plan file; a step is given as its skill and what differs from the usual."""
        document = {
            "plan_id": "a-plan",
            "agent_id": "an-agent",
            "steps": [{"step_id": f"s{number}", **step} for number, step in enumerate(steps)],
            "context": context,
        }
        path = self.folder / name
        path.write_text(json.dumps(document, indent=2), encoding="utf-8")
        return path


def error_line(done: Done) -> str:
    """The one line that a mistake ends with; anything else on stderr, above all a traceback, fails the test."""
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("error: "), done.err
    message, code = lines[0].removeprefix("error: ").rsplit(" [", 1)
    assert re.fullmatch(r"[A-Z0-9_]+\]", code), "every error has a stable code"
    return message
