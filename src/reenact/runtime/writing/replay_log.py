"""The replay log of a run, written while it goes on: after each commit, what the journal says by then.

It is made from the journal, so a process that goes on after a crash goes on in the same file: what stands there is held
against what the journal says, a line that was cut is written whole, and what is missing follows.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from reenact.errors import ReenactError, StoreError, UsageError
from reenact.record.payloads import StoredPayloads
from reenact.runtime import crash_points
from reenact.store.base import Store
from reenact.store.naming import read_lines
from reenact.trace import SessionEnd, SessionStart, read_event
from reenact.trace.from_journal import FromJournal
from reenact.values.ids import is_uuid7
from reenact.verify.lines import read_canonical
from reenact.verify.report import Problem

log = logging.getLogger("reenact.replay_log")

SUFFIX: Final = ".jsonl"
LOCK_TRIES: Final = 10
LOCK_PAUSE_S: Final = 0.01
TRY_AGAIN: Final = 64
"""After a failure, so many commits later, and at the end of the run."""


class ReplayLogs:
    """Where the runs of a runtime write: `FILE.jsonl` holds one run, a folder has `RUN_ID.jsonl` for each."""

    def __init__(self, store: Store, place: Path) -> None:
        self._store = store
        self._place = place
        self._is_file = place.suffix == SUFFIX and not place.is_dir()
        self._files: dict[str, LogFile] = {}
        self._lock = threading.Lock()
        try:
            (place.parent if self._is_file else place).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"replay_log={str(place)!r}: {error.strerror}; name a file or a folder") from None
        self.holds = run_in(place) if self._is_file else None
        """The run whose log the file is."""
        self._complete_what_is_there()

    @property
    def is_taken(self) -> bool:
        """Whether there is a file already, for one run, with something in it."""
        with suppress(OSError):
            return self._is_file and self._place.stat().st_size > 0
        return False

    def _complete_what_is_there(self) -> None:
        """Whoever wrote one may have died between the last commit and its last line."""
        for path in [self._place] if self._is_file else sorted(self._place.glob(f"*{SUFFIX}")):
            run_id = run_in(path)
            if run_id is not None and not has_ended(path) and self._knows(run_id):
                self.committed(run_id)

    def _knows(self, run_id: str) -> bool:
        with suppress(ReenactError):
            return self._store.find_run(run_id).run_id == run_id
        return False

    def committed(self, run_id: str) -> None:
        """What a run has committed is written. That it cannot be is told, and never the run's trouble."""
        with self._lock:
            file = self._files.get(run_id)
            if file is None:
                file = self._files[run_id] = LogFile(self._store, run_id, self._path(run_id))
            file.commits += 1
            if file.is_resting:
                return
            try:
                self._refuse_another(run_id)
                file.catch_up()
            except Exception as error:  # noqa: BLE001  # whatever it is, the run is not held up by it
                file.failed(error)
                return
            if self._is_file:
                self.holds = run_id
            if file.has_ended:
                del self._files[run_id]

    def _refuse_another(self, run_id: str) -> None:
        if self._is_file and self.holds not in (None, run_id):
            raise UsageError(f"it holds run {self.holds}; name a folder, and each run has a file of its own")

    def _path(self, run_id: str) -> Path:
        return self._place if self._is_file else self._place / f"{run_id}{SUFFIX}"


class LogFile:
    """The file of one run."""

    def __init__(self, store: Store, run_id: str, path: Path) -> None:
        self._store = store
        self._run_id = run_id
        self._path = path
        self._told: str | None = None
        self._failed_at = 0
        self.commits = 0
        self._begin()

    def _begin(self) -> None:
        values = StoredPayloads(self._store, self._run_id)
        self._done = 0
        self._log = FromJournal(lambda commitment: values.get(commitment, near=self._done + 1))
        self._size = 0
        self._lines = 0
        self.has_ended = False

    @property
    def is_resting(self) -> bool:
        """It failed a while ago. A run that ends is always tried: nobody comes after it."""
        return self._failed_at > 0 and self.commits - self._failed_at < TRY_AGAIN and not self._is_sealed()

    def _is_sealed(self) -> bool:
        with suppress(StoreError):
            return self._store.find_run(self._run_id).status in ("completed", "failed", "cancelled")
        return False

    def failed(self, error: Exception) -> None:
        self._failed_at = self.commits
        self._size = -1  # nobody knows what of it was written
        why = str(error) if isinstance(error, ReenactError) else getattr(error, "strerror", None) or repr(error)
        if why != self._told:
            self._told = why
            log.warning(
                "the replay log %s is behind: %s. The run goes on; `reenact export %s` writes it too",
                self._path, why, self._run_id,
            )  # fmt: skip

    def catch_up(self) -> None:
        """Append what the journal says beyond it, under a lock: another process may have been here."""
        if crash_points.armed is not None:
            crash_points.reach("before_replay_log")
        with locked(self._path) as file:
            size = os.fstat(file).st_size
            if size != self._size:
                self._begin()
            for body in self._store.bodies(self._run_id, after=self._done):
                for line in self._lines_of(body):
                    if self._size < size:
                        self._meet(file, line, size)
                    else:
                        self._append(file, line)
                    self._size += len(line)
                    self._lines += 1
                    size = max(size, self._size)
                self._done += 1
            if self._size < size:
                raise UsageError(f"it goes on after line {self._lines}, the last that run {self._run_id} has")
        self._failed_at, self._told = 0, None
        if crash_points.armed is not None:
            crash_points.reach("after_replay_log")

    def _lines_of(self, body: bytes) -> Iterator[bytes]:
        for event in self._log.commit(read_lines(body)):
            self.has_ended = isinstance(event, SessionEnd)
            yield event.to_canonical_json().encode() + b"\n"

    def _meet(self, file: int, line: bytes, size: int) -> None:
        """What stands there is this line; where it was cut, the rest of it follows."""
        there = os.pread(file, len(line), self._size)
        if there != line[: len(there)] or (len(there) < len(line) and self._size + len(there) < size):
            raise UsageError(
                f"its line {self._lines + 1} is not what the journal of run {self._run_id} says (another run, edited, "
                "or a value was erased since); nothing was appended"
            )
        if len(there) < len(line):
            self._append(file, line[len(there) :])

    def _append(self, file: int, data: bytes) -> None:
        if crash_points.armed is not None:
            half = len(data) // 2
            write(file, data[:half])
            crash_points.reach("in_replay_log")
            data = data[half:]
        write(file, data)


def write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """The file, made if it is not there, its owner's alone; OSError where it is a link, or somebody keeps it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for number in range(LOCK_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if number == LOCK_TRIES - 1:
                    raise
                time.sleep(LOCK_PAUSE_S)  # a busy file, as a store waits for one
        yield file
    finally:
        os.close(file)


def run_in(path: Path) -> str | None:
    """The run whose log a file is, by its second line; None where it says nothing of one."""
    try:
        with path.open("rb") as file:
            file.readline(1 << 20)
            read = read_canonical(file.readline(1 << 20).removesuffix(b"\n"), str(path))
        event = None if isinstance(read, Problem) else read_event(read.value)
    except (OSError, ValueError):
        return None
    return event.session_id if isinstance(event, SessionStart) and is_uuid7(event.session_id) else None


def has_ended(path: Path) -> bool:
    """Whether its last line is a SessionEnd, and whole."""
    with suppress(OSError), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - (1 << 16)))
        tail = file.read()
        last = tail.removesuffix(b"\n").rpartition(b"\n")[2]
        return tail.endswith(b"\n") and b'"event":"SessionEnd"' in last
    return False
