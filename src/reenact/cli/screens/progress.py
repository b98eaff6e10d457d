"""Progress while a run works: a bar on a terminal, a line per fact anywhere else. Always on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from reenact.cli.screens.printing import brief, one_line, terminal
from reenact.record.outcomes import said

if TYPE_CHECKING:
    from types import TracebackType

    from reenact.runtime.listeners import Fact


class PlainProgress:
    """One line for each attempt that is made again and each step that ends."""

    def __init__(self) -> None:
        self.run_id: str | None = None

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is shown after this."""

    def __call__(self, fact: Fact) -> None:
        if fact.run_id:
            self.run_id = fact.run_id
        self.show(fact)

    def show(self, fact: Fact) -> None:
        line = fact_line(fact)
        if line is not None:
            typer.echo(line, err=True)


class QuietProgress(PlainProgress):
    """Remembers the run, and says nothing."""

    def show(self, fact: Fact) -> None:
        """Whoever asked for JSON reads the result, not the way to it."""


class LiveProgress(PlainProgress):
    """A bar over the plan's steps, and above it what did not go as planned."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None
        self._task: Any = None
        self._is_over = False

    def show(self, fact: Fact) -> None:
        if self._is_over:
            return
        if self._bar is None:
            self._start(fact.steps)
        if fact.kind == "step_started":
            self._bar.update(self._task, description=str(fact.step_id))
        elif fact.kind == "step_ended":
            self._bar.update(self._task, completed=(fact.step_index or 0) + 1)
        if fact.kind in ("run_ended", "run_parked"):
            self._stop()  # another run gets a bar of its own
        elif told_above(fact):
            self._bar.console.print(fact_line(fact), markup=False, highlight=False, soft_wrap=True)

    def _start(self, steps: int | None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=terminal(err=True), transient=True)
        self._task = self._bar.add_task("starting", total=steps)
        self._bar.start()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def close(self) -> None:
        self._is_over = True
        self._stop()


def told_above(fact: Fact) -> bool:
    """Worth a line of its own although a bar is there."""
    if fact.kind == "attempt":
        return fact.backoff_ms is not None
    return fact.kind in ("run_started", "recovered", "unrecorded", "redispatch", "budget_alert", "progress") or (
        fact.kind == "step_ended" and fact.status != "success"
    )


def fact_line(fact: Fact) -> str | None:
    """A fact in one line; None for what a reader does not need."""
    if fact.kind == "run_started":
        return f"run {fact.run_id}"
    if fact.kind == "attempt" and fact.backoff_ms is not None:
        return f"{fact.step_id}: attempt {(fact.attempt or 0) + 1} {fact.code}, again in {fact.backoff_ms} ms"
    if fact.kind == "step_ended":
        if fact.status == "success" or fact.outcome is None:
            return f"{fact.step_id}: {fact.code}"
        return f"{fact.step_id}: {fact.status} {fact.code}: {brief(said(fact.outcome))}"
    if fact.kind == "recovered":
        return f"run {fact.run_id}: {fact.message}"
    if fact.kind == "redispatch":
        return f"{fact.step_id}: attempt {(fact.attempt or 0) + 1} was in doubt after a crash, sent again"
    if fact.kind == "unrecorded":
        return f"{fact.step_id}: goes on without a record: {one_line(fact.message or '')}"
    if fact.kind == "budget_alert":
        return f"{fact.step_id}: budget: {one_line(fact.message or '')}"
    if fact.kind == "progress" and fact.message:
        return f"{fact.step_id}: {brief(fact.message)}"
    return None


def choose_progress(*, as_json: bool) -> PlainProgress:
    """What suits where stderr goes."""
    if as_json:
        return QuietProgress()
    return LiveProgress() if can_animate() else PlainProgress()


def can_animate() -> bool:
    if not sys.stderr.isatty():
        return False
    return not terminal(err=True).is_dumb_terminal
