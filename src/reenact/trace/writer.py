"""Writing a replay log: each event is one line, flushed before the next; what no reader would take is not written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from reenact.errors import ReplayLogError, UsageError
from reenact.trace.events import ReplayEvent, read_event
from reenact.trace.order import Order
from reenact.trace.reader import MAX_LINE_BYTES, ReplayReader, at
from reenact.trace.seen import Place


class ReplayWriter:
    """A log under way. A file that is there is begun anew; with `resume`, gone on with after its last whole line.

    `lines` counts the whole lines that the file has.
    """

    def __init__(self, path: str | Path, *, resume: bool = False) -> None:
        self.path = Path(path)
        self.lines = 0
        self._size = 0
        self._order = Order()
        self._is_broken = False
        try:
            if resume and self.path.exists():
                self._cut_torn_tail()
                self._take_up()
            self._file = self.path.open("ab" if resume else "wb", buffering=0)
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error

    def emit(self, event: ReplayEvent) -> None:
        """Append one event, and hand it to the system. ReplayLogError where it may not stand here; UsageError where
        nothing can be written: then the file ends with the line before, and this writer is at its end too."""
        if self._is_broken:
            raise UsageError(f"{self.path}: a line could not be written; go on with a new writer, with resume=True")
        place = Place(self.lines + 1, self._size)
        try:
            read_event(event.members())
        except ValueError as error:
            message = f"{self.path}, line {place.line}: no valid event: {error}"
            raise ReplayLogError(message, code="REPLAY_EVENT_INVALID", line=place.line, offset=place.offset) from None
        line = event.to_canonical_json().encode() + b"\n"
        if len(line) > MAX_LINE_BYTES:
            message = f"{self.path}, line {place.line}: the line would have more than {MAX_LINE_BYTES} bytes"
            raise ReplayLogError(message, code="REPLAY_LINE_TOO_LONG", line=place.line, offset=place.offset)
        problem = self._order.problem(event, place)
        if problem is not None:
            if not self.lines:
                self._order = Order()  # what was refused is no beginning: the next one is to be a header again
            raise at(str(self.path), problem)
        self._write(line)
        self.lines += 1
        self._size += len(line)

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._is_broken = True
            with suppress(OSError):  # what stands of the line is a torn tail, which `resume` cuts off as well
                self._file.truncate(self._size)
            raise UsageError(f"{self.path}: cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        self._file.close()
        self._order.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _cut_torn_tail(self) -> None:
        """A line that has no newline was not whole when its writer died."""
        with self.path.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            whole = end
            while whole:
                start = max(0, whole - (1 << 16))
                file.seek(start)
                newline = file.read(whole - start).rfind(b"\n")
                if newline >= 0:
                    whole = start + newline + 1
                    break
                whole = start
            if whole < end:
                file.truncate(whole)

    def _take_up(self) -> None:
        """Read what is there, so that nothing is written that does not fit it."""
        self._size = self.path.stat().st_size
        if not self._size:
            return
        for event in ReplayReader.from_file(self.path).events:
            self.lines += 1
            self._order.problem(event, Place(self.lines, 0))
