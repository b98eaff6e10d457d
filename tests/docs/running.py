"""Executes the blocks of a page in a folder, as a reader would, and compares what they print with what it shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import COMMANDS, Block, blocks, commands, difference

LIMIT_S = 180


def run_page(page: Path, folder: Path, name: str) -> None:
    for block in blocks(page):
        run_block(block, folder, f"{name}:{block.line}")


def run_block(block: Block, folder: Path, where: str) -> None:
    if block.file is not None:
        target = folder / block.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.body, encoding="utf-8")
    elif block.lang == "python":
        check([sys.executable, "-c", block.body], folder, where, shown=block.shown, exit_code=0)
    elif block.lang in COMMANDS:
        for command in commands(block.body):
            check(
                ["bash", "-c", command.text], folder, f"{where}: $ {command.text}",
                shown=command.shown, exit_code=command.exit_code,
            )  # fmt: skip


def check(command: list[str], folder: Path, where: str, *, shown: tuple[str, ...], exit_code: int) -> None:
    """Runs one command; fails where its exit code or its output is another than the page says."""
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    code, printed = done.returncode, done.stdout
    if code < 0:  # bash that became its last command cannot tell of a signal: 128 + n, and its name
        printed += f"{signal.strsignal(-code)}\n"
        code = 128 - code
    assert code == exit_code, f"{where}: exit code {code}\n{printed}"
    differs = difference(shown, printed)
    assert differs is None, f"{where}: {differs}\n{printed}"


def environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("REENACT_", "XDG_", "PYTEST_"))}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",  # keeps stdout and stderr in the order in which they were written
        "XDG_DATA_HOME": str(folder / ".data"),
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "NO_COLOR": "1",
    }
