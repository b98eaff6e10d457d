"""A progress bar over things that are counted, or bytes that are read, on a terminal that can show one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from reenact.cli.screens.printing import terminal
from reenact.cli.screens.progress import can_animate

LARGE: Final = 8 << 20
"""Smaller files are read before anybody waits."""
Thing = TypeVar("Thing")


class CountedBar:
    """Shown from the second thing on."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def update(self, done: int, total: int) -> None:
        if self._bar is None and total > 1 and sys.stderr.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (TextColumn(self._word), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, console=terminal(err=True), transient=True)
            self._task = self._bar.add_task("", total=total)
            self._bar.start()
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def counted(things: Sequence[Thing], word: str) -> Iterator[Thing]:
    """The things, one by one, with a bar that says how far it is."""
    with CountedBar(word) as bar:
        for done, thing in enumerate(things):
            bar.update(done, len(things))
            yield thing


@contextmanager
def reading_bar(what: str, file: Path) -> Iterator[Callable[[int, int], None] | None]:
    """Takes (bytes read, bytes in all) of a large file; None where no bar is shown."""
    if file.stat().st_size < LARGE or not can_animate():
        yield None
        return
    from rich.progress import Progress

    with Progress(console=terminal(err=True), transient=True) as shown:
        task = shown.add_task(what)
        yield lambda done, total: shown.update(task, completed=done, total=total)
