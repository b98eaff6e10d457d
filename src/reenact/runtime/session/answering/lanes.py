"""Lanes: which strand of a program a call belongs to, so that calls side by side keep their names in every start.

A lane is a path, `main` or `main.researcher`; the one that is current goes with the context, into tasks and
`asyncio.to_thread` too. Calls of a lane are numbered in the order in which they are made: `main:1`, `main:2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from reenact.contracts.plan import PLACE
from reenact.errors import UsageError
from reenact.record.reader import RecordedStep
from reenact.values.keyed import KeyedRandom

MAIN: Final = "main"
LONGEST_PATH: Final = 100
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")
REPEATED: Final = re.compile(r".*-r[0-9]+\Z")
NUMBERED: Final = re.compile(r"c[1-9][0-9]*\Z")
"""What a session without an id calls its calls."""

_tokens = count()
_current: ContextVar[Mapping[int, Lane]] = ContextVar("reenact_lanes")
"""By session: one program may have several at work."""


@dataclass(slots=True, eq=False)
class Lane:
    """One strand of calls."""

    path: str
    calls: int = 0
    """How many were made, the last one's number."""
    is_open: bool = True
    opened: dict[str, int] = field(default_factory=dict)
    """How often a lane of each name was opened under this one."""
    under: dict[str, Lane] = field(default_factory=dict)
    """Those that are open under it, by name."""
    draws: KeyedRandom | None = None
    """Its random numbers."""


class Lanes:
    """The lanes of one session."""

    def __init__(self) -> None:
        self._token = next(_tokens)
        self._main = Lane(MAIN)
        self.known: dict[str, Lane] = {MAIN: self._main}
        """Every lane that was opened in this process, by path."""

    @property
    def current(self) -> Lane:
        return _current.get({}).get(self._token, self._main)

    def at(self, path: str) -> Lane:
        """The lane of this path, whether or not it was opened here."""
        return self.known.setdefault(path, Lane(path, is_open=False))

    @contextmanager
    def open(self, name: str) -> Iterator[str]:
        """The lane of this name under the current one, for what runs inside the block. Gives its path."""
        parent, lanes = self.current, _current.get({})
        lane = self._opened(parent, name)
        token = _current.set({**lanes, self._token: lane})
        try:
            yield lane.path
        finally:
            lane.is_open = False
            del parent.under[name]
            try:
                _current.reset(token)
            except ValueError:
                raise UsageError(
                    f"the lane {lane.path} was entered in another task or context; leave it where it was entered, and "
                    "put no `yield` of an async generator into its block"
                ) from None

    def _opened(self, parent: Lane, name: str) -> Lane:
        if not isinstance(name, str) or not NAME.match(name):
            raise UsageError(f"the name of a lane is 1 to 32 of A-Z a-z 0-9 _ -, not {name!r}")
        if REPEATED.match(name):
            raise UsageError(f"{name!r} ends as the session itself names a lane that is opened again; take another")
        if name in parent.under:
            raise UsageError(f"a lane {name!r} is open under {parent.path} already; side by side each has its own name")
        times = parent.opened.get(name, 0) + 1
        path = f"{parent.path}.{name}" if times == 1 else f"{parent.path}.{name}-r{times}"
        if len(path) > LONGEST_PATH:
            raise UsageError(f"the lane {path} is deeper than {LONGEST_PATH} characters can name")
        parent.opened[name] = times
        lane = parent.under[name] = self.at(path)
        lane.is_open = True
        return lane


def lane_of(step_id: str) -> str | None:
    """The lane that the name of a call says; None for a name that its host gave."""
    found = PLACE.match(step_id)
    return None if found is None else found["lane"]


def lane_of_step(step: RecordedStep) -> str:
    """The lane that a recorded call belongs to, whoever named it."""
    return lane_of(step.step_id) or str(step.trace.meta("lane") or MAIN)


def is_under(path: str, lane: str) -> bool:
    """Whether `path` is that lane, or one that was opened under it."""
    return path == lane or path.startswith(f"{lane}.")
