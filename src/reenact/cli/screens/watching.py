"""`show --watch`: a run shown while it goes on, redrawn on a terminal, growing elsewhere. Changes nothing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from reenact.cli.exits import DONE, INTERRUPTED
from reenact.cli.screens.printing import Segment, as_text, brief, one_line, print_json, print_lines, say, terminal
from reenact.cli.screens.timeline_lines import (
    attempt_line,
    code_text,
    ending,
    event_line,
    heading,
    step_head,
    timeline_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from reenact.record.document_shape import RunDocument, StepDocument
    from reenact.store.base import Store

EVERY_S: Final = 0.2
STILL: Final = 10
"""After so many looks at which nothing had changed, it is asked whether anybody works on the run."""


def watch_run(store: Store, run_id: str, *, values: bool, as_json: bool) -> int:
    """Show a run until it ends or somebody interrupts; the exit code."""
    screen = choose_screen(as_json=as_json)
    latest: RunDocument | None = None
    try:
        with screen:
            for told in looks(store, run_id, values=values):
                if isinstance(told, str):
                    screen.remark(told)
                else:
                    latest = told
                    screen.show(told)
    except KeyboardInterrupt:
        screen.end(latest)
        say("watching ended; the run is not touched by that", err=True)
        return INTERRUPTED
    screen.end(latest)
    return DONE


def looks(store: Store, run_id: str, *, values: bool) -> Iterator[RunDocument | str]:
    """The run each time it has changed, and once in a standstill a remark where nobody works on it."""
    from reenact.contracts.records import ENDED
    from reenact.record.document import DocumentReader
    from reenact.store.doctor.runs import look_at_run
    from reenact.values.clock import SystemClock

    clock, pause = SystemClock(), threading.Event()
    reader = DocumentReader(store, run_id, values=values)
    seen: tuple[int, str] | None = None
    still = 0
    while True:
        row = store.find_run(run_id)
        if (row.commits, row.status) != seen:
            seen, still = (row.commits, row.status), 0
            yield reader.read(row)
        if row.status in ENDED:
            return
        still += 1
        if still == STILL:
            finding = look_at_run(store, run_id, clock)
            if finding is not None and finding.verdict != "ok":
                yield f"{finding.subject} {finding.says}: {finding.do}"
        pause.wait(EVERY_S)


class Quiet:
    """For programs: one document, at the end."""

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is drawn after this."""

    def show(self, run: RunDocument) -> None:
        """The run has changed."""

    def remark(self, text: str) -> None:
        say(one_line(text), err=True)

    def end(self, run: RunDocument | None) -> None:
        if run is not None:
            print_json(run)


class Growing(Quiet):
    """Each notice once, in the order in which it came: for pipes, files and terminals that cannot move their cursor."""

    def __init__(self) -> None:
        self._headed = False
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        self._attempts: dict[int, int] = {}
        self._status: str | None = None
        self._told: set[tuple[str, str, str | None]] = set()

    def show(self, run: RunDocument) -> None:
        lines: list[list[Segment]] = [] if self._headed else heading(run)
        self._headed = True
        lines += self._new_events(run)
        for step in run["steps"]:
            lines += self._new_lines(step)
        if run["status"] != self._status and run["status"] in ("waiting", "held"):
            lines.append([(f"      {run['status']}", "yellow")])
        self._status = run["status"]
        print_lines(lines)

    def _new_lines(self, step: StepDocument) -> list[list[Segment]]:
        index, attempts = step["step_index"], step["attempts"]
        if index in self._ended:
            return []
        lines: list[list[Segment]] = []
        ended = step["code"] is not None
        if index not in self._begun and not (ended and not attempts):
            lines.append(step_head({**step, "state": "begun", "code": None, "cost_exact": "0"}))
        self._begun.add(index)
        width = max((len(code_text(attempt)) for attempt in attempts), default=0)
        lines += [attempt_line(attempt, width) for attempt in attempts[self._attempts.get(index, 0) :]]
        self._attempts[index] = len(attempts)
        if ended:
            self._ended.add(index)
            lines.append(step_head(step))
            if step["message"]:
                lines.append([(f"      {brief(step['message'])}", "red")])
        return lines

    def _new_events(self, run: RunDocument) -> list[list[Segment]]:
        lines = []
        for event in run["events"]:
            name = (event["type"], event["ts"], event["trace_id"])
            if name not in self._told:
                self._told.add(name)
                lines.append(event_line(event))
        return lines

    def end(self, run: RunDocument | None) -> None:
        if run is not None:
            print_lines([*self._new_events(run), *ending(run)])


class Redrawn(Quiet):
    """The end of the timeline, as much as the terminal holds; the whole of it stays behind."""

    def __init__(self) -> None:
        from rich.live import Live

        self._console = terminal()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._remark: list[list[Segment]] = []

    def __enter__(self) -> Redrawn:
        self._live.start()
        return self

    def close(self) -> None:
        self._live.stop()

    def show(self, run: RunDocument) -> None:
        self._remark = []
        self._run = run
        self._draw()

    def remark(self, text: str) -> None:
        self._remark = [[(one_line(text), "yellow")]]
        self._draw()

    def _draw(self) -> None:
        from rich.text import Text

        head, lines = heading(self._run), timeline_lines(self._run)
        room = self._console.size.height - len(head) - len(self._remark) - 1
        body = lines[len(head) :]
        shown = [*head, *(body[-room:] if room > 0 else []), *self._remark]
        text = Text("\n", no_wrap=True, overflow="ellipsis").join(map(as_text, shown))
        text.no_wrap, text.overflow = True, "ellipsis"
        self._live.update(text, refresh=True)

    def end(self, run: RunDocument | None) -> None:
        if run is not None:
            print_lines(timeline_lines(run))


def choose_screen(*, as_json: bool) -> Quiet:
    """What suits where stdout goes."""
    import sys

    if as_json:
        return Quiet()
    if not sys.stdout.isatty():
        return Growing()
    return Growing() if terminal().is_dumb_terminal else Redrawn()
