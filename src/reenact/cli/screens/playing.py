"""`reenact play`: a replay log shown event by event, as fast as it was, faster, or step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from reenact.cli.screens.keys import QUIT, NoKeys, keys_here
from reenact.cli.screens.play_lines import Tools, event_line, is_failure, time_of
from reenact.cli.screens.printing import Segment, as_plain, as_text, say, terminal
from reenact.trace.events import ReplayEvent, parse_time

if TYPE_CHECKING:
    from rich.text import Text

SLOWEST, FASTEST = 1 / 64, 4096.0
HELP: Final = "space pause  n step  f next failure  +/- speed  t tool  e end  q quit"


class Filter:
    """What is shown: all, or what belongs to some tools and to the session as a whole; all of it, or failures alone."""

    def __init__(self, tools: Iterable[str] = (), *, failures: bool = False) -> None:
        self.tools = frozenset(tools)
        self.failures = failures
        self._known = Tools()
        self.seen: list[str] = []
        """Tools that were met, in that order: what a key chooses from."""

    def tool_of(self, event: ReplayEvent) -> str | None:
        tool = self._known.of(event)
        if tool is not None and tool not in self.seen and len(self.seen) < 100:
            self.seen.append(tool)
        return tool

    def wants(self, event: ReplayEvent, tool: str | None) -> bool:
        if self.failures and not is_failure(event):
            return False
        return not self.tools or tool is None or tool in self.tools

    def next_tool(self) -> None:
        """From all to the first that was met, and so on, back to all."""
        one = next(iter(self.tools)) if len(self.tools) == 1 else None
        place = self.seen.index(one) + 1 if one in self.seen else 0
        self.tools = frozenset(self.seen[place : place + 1])


def show_lines(events: Iterable[ReplayEvent], wanted: Filter) -> None:
    """All at once, one plain line for each event: for pipes, files and terminals that cannot move their cursor."""
    for line in shown(events, wanted):
        say(as_plain(line))


def shown(events: Iterable[ReplayEvent], wanted: Filter) -> Iterator[list[Segment]]:
    for event in events:
        tool = wanted.tool_of(event)
        if wanted.wants(event, tool):
            yield event_line(event, tool)


class Player:
    """Plays events on a terminal; keys change how."""

    def __init__(self, wanted: Filter, *, total: int, speed: float, longest: float) -> None:
        self.wanted = wanted
        self.total = total
        self.speed = speed
        self.longest = longest
        self.is_paused = False
        self.to_failure = False
        self.to_end = False
        self.is_over = False
        self._steps = 0
        self._number = 0
        self._last: datetime | None = None

    def play(self, events: Iterable[ReplayEvent]) -> None:
        from rich.live import Live

        console = terminal()
        with keys_here() as keys, Live(self.status(), console=console, auto_refresh=False, transient=True) as live:
            for event in events:
                tool = self.wanted.tool_of(event)
                if self.wanted.wants(event, tool):
                    self._wait(self._gap(event), keys, lambda: live.update(self.status(), refresh=True))
                if self.is_over:
                    return
                self._number += 1
                if self.wanted.wants(event, tool):  # asked again: a key may have chosen another tool
                    console.print(as_text(event_line(event, tool)), soft_wrap=True)
                    self._stop_at(event)
                    live.update(self.status(), refresh=True)

    def status(self) -> Text:
        state = "paused" if self.is_paused else f"{self.speed:g}×"
        tools = f"  {', '.join(sorted(self.wanted.tools))}" if self.wanted.tools else ""
        line = as_text([(f"{state}  {self._number}/{self.total}{tools}  ", "reverse"), (f" {HELP}", "dim")])
        line.no_wrap, line.overflow = True, "ellipsis"
        return line

    def press(self, key: str) -> None:
        """What a key does; those that mean nothing do nothing."""
        if key == " ":
            self.is_paused = not self.is_paused
            self.to_failure = self.to_end = False
        elif key == "n":
            self.is_paused, self._steps = True, self._steps + 1
        elif key == "f":
            self.to_failure, self.is_paused = True, False
        elif key == "e":
            self.to_end, self.is_paused = True, False
        elif key in ("+", "=", "-"):
            self.speed = min(FASTEST, max(SLOWEST, self.speed * (0.5 if key == "-" else 2)))
        elif key == "t":
            self.wanted.next_tool()
        elif key in (QUIT, "Q"):
            self.is_over = True

    def _gap(self, event: ReplayEvent) -> float:
        """How long it took to this event, in seconds of the session, as far as anybody wants to wait."""
        text = time_of(event)
        try:
            now = None if text is None else parse_time(text)
        except ValueError:
            now = None  # an unknown event's own idea of time
        before, self._last = self._last, now or self._last
        if now is None or before is None:
            return 0.0
        return max(0.0, (now - before).total_seconds())

    def _wait(self, gap: float, keys: NoKeys, redraw: Callable[[], None]) -> None:
        left = min(gap / self.speed, self.longest)
        while not self.is_over:
            hurried = self.to_failure or self.to_end
            if self._steps:
                self._steps -= 1
                return
            limit = None if self.is_paused else 0.0 if hurried else left
            began = time.monotonic()
            key = keys.wait(limit)
            left = max(0.0, left - (time.monotonic() - began))
            if key:
                before = self.speed
                self.press(key)
                left *= before / self.speed
                redraw()
            elif limit is not None:
                return

    def _stop_at(self, event: ReplayEvent) -> None:
        if self.to_failure and is_failure(event):
            self.to_failure, self.is_paused = False, True
