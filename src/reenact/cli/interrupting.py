"""Ctrl-C: whatever a command runs stops cleanly, and says how to go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from reenact.cli.exits import INTERRUPTED
from reenact.cli.screens.printing import say
from reenact.cli.stdout import skill_output_to_stderr

if TYPE_CHECKING:
    from reenact.cli.advice import Advice
    from reenact.cli.screens.progress import PlainProgress

T = TypeVar("T")


def conduct(work: Callable[[], T], progress: PlainProgress, advice: Advice, *, known_run: str | None = None) -> T:
    """The result of `work`. Interrupted, nothing that is recorded is lost: it exits 130 with the command to go on."""
    try:
        with skill_output_to_stderr(), progress:
            return work()
    except KeyboardInterrupt:
        run_id = progress.run_id or known_run
        if run_id is None:
            say("interrupted; nothing was started", err=True)
        else:
            say(f"interrupted; go on with: {advice.go_on(run_id)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
