"""Reading a replay log: line by line, in constant memory, and strictly unless it is asked to be lenient."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from reenact.errors import JsonSyntaxError, ReplayLogError, UsageError
from reenact.trace.events import ReplayEvent, StepComplete, StepStatus, ToolCall, ToolResult, read_event
from reenact.trace.hashing import PREFIX, wide_integer
from reenact.trace.order import Order, Problem
from reenact.trace.seen import Place
from reenact.values.parse import read

MAX_LINE_BYTES: Final = (64 << 20) + (64 << 10)
"""The largest value that is kept, and the other members of a line. Longer lines are refused without being held."""
_CHUNK: Final = 1 << 20
_OFTEN: Final = 1000
_BOM: Final = b"\xef\xbb\xbf"

Progress = Callable[[int, int], None]
"""Bytes read, and bytes in all."""


class ReplaySummary(msgspec.Struct, frozen=True):
    """Sums over a log, made in one pass."""

    events: int
    tool_calls: int
    tool_results: int
    failed_steps: int
    total_latency_ms: int
    average_step_utility: float
    replay_hash: str
    problems: dict[str, int]
    """What a lenient reader met, by code."""
    skipped: int
    """Lines that a lenient reader left out."""


class Reading:
    """One pass over the lines; what a lenient one met is counted."""

    def __init__(self, name: str, *, lenient: bool) -> None:
        self.name = name
        self.lenient = lenient
        self.problems: Counter[str] = Counter()
        self.skipped = 0
        self.place = Place(0, 0)
        self.read_bytes = 0
        self.is_finished = False
        self._hash = sha256()
        self._order = Order()

    @property
    def replay_hash(self) -> str:
        """Of the bytes read so far: of the whole file, once the pass has ended."""
        return PREFIX + self._hash.hexdigest()

    def events(self, file: BinaryIO) -> Iterator[ReplayEvent]:
        try:
            for line in self._lines(file):
                event = self._event(line)
                if event is not None:
                    yield event
            self._end()
        finally:
            self._order.close()

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        while line := file.readline(MAX_LINE_BYTES + 1):
            self.place = Place(self.place.line + 1, self.read_bytes)
            self._count(line)
            if len(line) <= MAX_LINE_BYTES:
                yield line
                continue
            self._met("REPLAY_LINE_TOO_LONG", f"the line has more than {MAX_LINE_BYTES} bytes")
            self.skipped += 1
            while line and not line.endswith(b"\n"):
                line = file.readline(_CHUNK)
                self._count(line)

    def _count(self, data: bytes) -> None:
        self.read_bytes += len(data)
        self._hash.update(data)

    def _event(self, line: bytes) -> ReplayEvent | None:
        """The event of a line; None where a lenient reader leaves it out."""
        try:
            event = read_event(read(self._text(line), "line", wide_integer))
        except JsonSyntaxError as error:
            problem = str(error).removesuffix(f" (line {error.line}, column {error.column})").removeprefix("line: ")
            self._met("REPLAY_LINE_MALFORMED", f"{problem} (column {error.column})")
        except ValueError as error:
            self._met("REPLAY_EVENT_INVALID", f"no valid event: {error}")
        else:
            wrong = self._order.problem(event, self.place)
            if wrong is None:
                return event
            self._met(wrong.code, wrong.message)
            if wrong.code in ("REPLAY_HEADER_MISSING", "REPLAY_VERSION_UNKNOWN"):
                return event
        self.skipped += 1
        return None

    def _text(self, line: bytes) -> bytes:
        if not line.endswith(b"\n"):
            self._met("REPLAY_TORN_TAIL", "the last line does not end with a newline: its end was cut")
        line = line.removesuffix(b"\n")
        if line.startswith(_BOM) and self.place.line == 1:
            self._met("REPLAY_BYTE_ORDER_MARK", "the file starts with a byte order mark; save it as UTF-8 without one")
            line = line.removeprefix(_BOM)
        if line.endswith(b"\r"):
            self._met("REPLAY_CRLF", "the line ends with CR LF, as an editor leaves it; lines end with LF alone")
            line = line.removesuffix(b"\r")
        if b"\0" in line:
            self._met("REPLAY_NUL", f"a NUL byte stands in the line (byte {line.index(0)} of it)")
        return line

    def _end(self) -> None:
        if not self.read_bytes:
            self.place = Place(1, 0)
            self._met("REPLAY_EMPTY", "the file is empty; a log begins with a ReplayHeader")
        problem = self._order.at_end()
        if problem is not None:
            self._met(*problem)
        self.is_finished = True

    def _met(self, code: str, message: str, place: Place | None = None) -> None:
        if not self.lenient:
            raise at(self.name, Problem(code, message, place or self.place))
        self.problems[code] += 1


def at(name: str, problem: Problem) -> ReplayLogError:
    line, offset = problem.place
    return ReplayLogError(
        f"{name}, line {line} (byte {offset}): {problem.message}", code=problem.code, line=line, offset=offset
    )


class Events:
    """The events of a log, read anew each time that they are asked for."""

    def __init__(self, open_file: Callable[[], BinaryIO], name: str, *, lenient: bool) -> None:
        self._open = open_file
        self._name = name
        self._lenient = lenient
        self.last: Reading | None = None
        """The pass that was begun last."""

    def __iter__(self) -> Iterator[ReplayEvent]:
        return self.read()

    def read(self, progress: Progress | None = None) -> Iterator[ReplayEvent]:
        """As iterating does; `progress` is told now and then how far it is."""
        reading = self.last = Reading(self._name, lenient=self._lenient)
        try:
            with self._open() as file:
                total = _size(file) if progress is not None else 0
                for number, event in enumerate(reading.events(file)):
                    if progress is not None and number % _OFTEN == 0:
                        progress(reading.read_bytes, total)
                    yield event
        except OSError as error:
            raise UsageError(f"{self._name}: cannot be read: {error.strerror or error}") from error
        if progress is not None:
            progress(reading.read_bytes, max(total, reading.read_bytes))


class ReplayReader:
    """A replay log. Nothing of it is kept in memory: `events`, and each sum, goes through the file.

    Strict by default: the first thing that is wrong raises ReplayLogError, with its code, line and byte. A lenient
    reader leaves out lines that it cannot use, and counts them; see `ReplaySummary.problems`.
    """

    def __init__(self, events: Events) -> None:
        self.events = events

    @classmethod
    def from_file(cls, path: str | Path, *, lenient: bool = False) -> ReplayReader:
        """The log in a file; UsageError where it cannot be read, ReplayLogError where its first line is none."""
        reader = cls(Events(lambda: open_file(path), str(path), lenient=lenient))
        next(iter(reader.events), None)
        return reader

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str = "the log", lenient: bool = False) -> ReplayReader:
        return cls(Events(lambda: io.BytesIO(data), name, lenient=lenient))

    def tool_calls(self) -> Iterator[ToolCall]:
        return (event for event in self.events if isinstance(event, ToolCall))

    def total_latency_ms(self) -> int:
        return self.summary().total_latency_ms

    def average_step_utility(self) -> float:
        """Over all results; 0.0 when there are none."""
        return self.summary().average_step_utility

    def summary(self, progress: Progress | None = None) -> ReplaySummary:
        """All sums at once."""
        count, calls, results, failed, latency = 0, 0, 0, 0, 0
        utility, lost = 0.0, 0.0  # what rounding loses is added again, so that a million times 0.2 is 200000
        for event in self.events.read(progress):
            count += 1
            if isinstance(event, ToolCall):
                calls += 1
            elif isinstance(event, ToolResult):
                results += 1
                latency += event.latency_ms
                item = event.step_utility - lost
                lost = (utility + item - utility) - item
                utility += item
            elif isinstance(event, StepComplete):
                failed += event.status in (StepStatus.Failed, StepStatus.MaxIterationsReached)
        reading = self.events.last
        assert reading is not None
        return ReplaySummary(
            events=count,
            tool_calls=calls,
            tool_results=results,
            failed_steps=failed,
            total_latency_ms=latency,
            average_step_utility=utility / results if results else 0.0,
            replay_hash=reading.replay_hash,
            problems=dict(reading.problems),
            skipped=reading.skipped,
        )


def open_file(path: str | Path) -> BinaryIO:
    return Path(path).open("rb")


def _size(file: BinaryIO) -> int:
    """How many bytes lie ahead; 0 where that cannot be told, as for a pipe."""
    if not file.seekable():
        return 0
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return size
