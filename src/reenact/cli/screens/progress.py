"""Progress while a run works: a bar on a terminal, a line per notice anywhere else. Always on stderr."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from reenact.cli.screens.printing import brief, one_line, say, terminal
from reenact.record.outcomes import said

if TYPE_CHECKING:
    from types import TracebackType

    from reenact.runtime.listeners import Notice


ENDS = ("run_ended", "run_parked")


class PlainProgress:
    """One line for each attempt that is made again and each step that ends."""

    def __init__(self) -> None:
        self.run_id: str | None = None
        self._at_work: set[str] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is shown after this."""

    def __call__(self, notice: Notice) -> None:
        with self._lock:  # runs that are recovered side by side tell of themselves from threads of their own
            if notice.run_id:
                self.run_id = notice.run_id
                self._at_work.add(notice.run_id)
            self.show(notice)
            if notice.kind in ENDS:
                self._at_work.discard(notice.run_id)

    def show(self, notice: Notice) -> None:
        line = self.line(notice)
        if line is not None:
            say(line, err=True)

    def line(self, notice: Notice) -> str | None:
        """A notice in one line; where several runs are at work, with the one that it is about."""
        line = fact_line(notice)
        names_run = notice.kind in ("run_started", "recovered")
        return line if line is None or names_run or len(self._at_work) < 2 else f"run {notice.run_id}: {line}"


class QuietProgress(PlainProgress):
    """Remembers the run, and says nothing."""

    def show(self, notice: Notice) -> None:
        """Whoever asked for JSON reads the result, not the way to it."""


class LiveProgress(PlainProgress):
    """A bar over the plan's steps, and above it what did not go as planned."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None
        self._shown = ""
        self._task: Any = None
        self._is_over = False
        self._steps: dict[str, int] = {}
        """Of runs that are at work beside the one that has the bar: theirs may come later."""

    def show(self, notice: Notice) -> None:
        if self._is_over:
            return
        if notice.steps is not None:
            self._steps[notice.run_id] = notice.steps
        if self._bar is None:
            self._shown = notice.run_id
            self._start(self._steps.get(notice.run_id))
        if notice.run_id != self._shown:  # beside the one that has the bar
            if told_above(notice):
                self._above(notice)
            return
        if notice.kind == "step_started":
            self._bar.update(self._task, description=one_line(str(notice.step_id)))
        elif notice.kind == "step_ended":
            self._bar.update(self._task, completed=(notice.step_index or 0) + 1)
        if notice.kind in ENDS:
            self._stop()  # another run gets a bar of its own
        elif told_above(notice):
            self._above(notice)

    def _above(self, notice: Notice) -> None:
        self._bar.console.print(one_line(self.line(notice) or ""), markup=False, highlight=False, soft_wrap=True)

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


WARNINGS = {"unrecorded": "goes on without a record", "lost": "its answer is lost", "budget_alert": "budget"}


def told_above(notice: Notice) -> bool:
    """Worth a line of its own although a bar is there."""
    if notice.kind == "attempt":
        return notice.backoff_ms is not None
    if notice.kind == "step_ended":
        return notice.status != "success"
    return notice.kind in ("run_started", "recovered", "redispatch", "progress", *WARNINGS)


def fact_line(notice: Notice) -> str | None:
    """A notice in one line; None for what a reader does not need."""
    if notice.kind == "run_started":
        return f"run {notice.run_id}"
    if notice.kind == "attempt" and notice.backoff_ms is not None:
        return f"{notice.step_id}: attempt {(notice.attempt or 0) + 1} {notice.code}, again in {notice.backoff_ms} ms"
    if notice.kind == "step_ended":
        if notice.status == "success" or notice.outcome is None:
            return f"{notice.step_id}: {notice.code}"
        return f"{notice.step_id}: {notice.status} {notice.code}: {brief(said(notice.outcome))}"
    if notice.kind == "recovered":
        return f"run {notice.run_id}: {notice.message}"
    if notice.kind == "redispatch":
        return f"{notice.step_id}: attempt {(notice.attempt or 0) + 1} was in doubt, sent again"
    if notice.kind in WARNINGS:
        return f"{notice.step_id}: {WARNINGS[notice.kind]}: {one_line(notice.message or '')}"
    if notice.kind == "progress" and notice.message:
        return f"{notice.step_id}: {brief(notice.message)}"
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
