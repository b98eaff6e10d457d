"""`reenact --help` beside an app of typer that does nothing, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.figure import Figure, race, seconds
from benchmarks.plans import workplace

MOST = 1.25

EMPTY_APP = """
import typer
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
@app.callback(invoke_without_command=True)
def nothing() -> None:
    \"\"\"Nothing.\"\"\"
app()
"""


def measure(rounds: int = 15) -> list[Figure]:
    with workplace() as folder:
        script = folder / "empty.py"
        script.write_text(EMPTY_APP, encoding="utf-8")
        times = race(
            [
                process("-m", "reenact", "--help"),
                process(str(script), "--help"),
                process("-c", "import reenact"),
                process("-c", "pass"),
            ],
            rounds,
        )
    ours, empty, imported, nothing = (times.best(side) * 1000 for side in range(4))
    return [
        Figure(
            name="reenact --help beside an empty typer app",
            value=times.ratio(0, 1),
            most=MOST,
            note=f"{ours:.0f} ms and {empty:.0f} ms",
        ),
        Figure(name="import reenact", value=imported - nothing, unit="ms", note="beyond starting Python"),
    ]


def process(*arguments: str) -> Callable[[], float]:
    home = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "NO_COLOR": "1"}

    def run() -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=home, env=environment)

    return lambda: seconds(run)
