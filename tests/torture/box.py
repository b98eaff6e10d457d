"""A store with a ledger beside it that only the tool writes, and processes that are forked onto both."""

from __future__ import annotations

import gc
import os
import re
import select
import shutil
import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from reenact import Runtime
from reenact.cli.main import main
from reenact.errors import ReenactError
from reenact.runtime import crash_points
from tests.torture import tools
from tests.torture.shim import TOLD, Fault, arm, saved

LIMIT_S = 150
CODES = (0, 1, 2, 3, 4, 130)
SAID = re.compile(r"\[[A-Z][A-Z_]+\]")
TOOLS = str(Path(tools.__file__))
PLAN = Path(__file__).with_name("plan.json")
WORDS = (
    ("run", str(PLAN), "--skills", TOOLS),
    ("keys", "rotate", "--who", "ops"),
    ("recover", "--skills", TOOLS),
    ("verify", "last"),
    ("replay", "last", "--skills", TOOLS),
    ("export", "last", "--to", "bundle"),
)


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    code: int
    """As a shell counts: 128 and the signal, where one ended it."""
    out: str
    err: str
    fired: bool
    calls: int

    def ill_told(self) -> str | None:
        """What is wrong with how it told of its trouble; None where nothing is."""
        if self.code > 128 and self.code != 130:
            return None
        if "Traceback" in self.err or self.code not in CODES:
            return f"exit {self.code}: {self.err[-1500:]}"
        if self.code in (1, 2, 3) and not SAID.search(self.err + self.out):
            return f"exit {self.code} without a code: {self.err[-300:]}{self.out[-300:]}"
        errors = [line for line in self.err.splitlines() if line.startswith("error:")]
        return f"{len(errors)} errors told: {errors}" if len(errors) > 1 else None


class Watcher(crash_points.Trigger):
    """Where others crash it only looks."""

    def __init__(self) -> None:
        super().__init__("after_seal")

    def reach(self, name: str) -> None:
        if name == self.name:
            TOLD.note_seal()


@dataclass(frozen=True)
class Arrival:
    """One call as the tool saw it."""

    run_id: str
    step: str
    attempt: int
    key: str


class Box:
    """One folder: `store/` is watched, `witness/` is the tool's own, the rest is nobody's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "store"
        self.witness = folder / "witness"
        self.store = self.home / "store.db"
        self.ledger = self.witness / "ledger"

    def clear(self) -> Box:
        shutil.rmtree(self.folder, ignore_errors=True)
        for each in (self.home, self.witness):
            each.mkdir(parents=True)
        self.ledger.touch()
        return self

    def copy(self, to: Path) -> Box:
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.folder, to)
        return Box(to)

    def arrivals(self) -> list[Arrival]:
        rows = (line.split() for line in self.ledger.read_text().splitlines())
        return [Arrival(run_id, step, int(attempt), key) for run_id, step, attempt, key in rows]

    def runtime(self) -> Runtime:
        return Runtime(str(self.store), skills=list(tools.TOOLS))

    # -- processes ------------------------------------------------------------------------------------------------

    def command(self, *arguments: str, fault: Fault | None = None, record: Path | None = None) -> Ended:
        """`reenact …` on this store."""
        return self.process(lambda: main([*arguments, "--store", str(self.store)]), fault, record)

    def process(self, work: Callable[[], object], fault: Fault | None = None, record: Path | None = None) -> Ended:
        pid, read = self.start(work, fault, record)
        return self.end(pid, read)

    def start(
        self, work: Callable[[], object], fault: Fault | None = None, record: Path | None = None
    ) -> tuple[int, int]:
        """A forked process that does `work`, with the fault armed; its number, and a pipe that closes when it ends."""
        if fault is not None or record is not None:  # else one that stands still would count from the beginning again
            TOLD.clear()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            code = 70
            try:
                code = self._child(work, fault, record)
            finally:
                os._exit(code)
        os.close(write)
        return pid, read

    def _child(self, work: Callable[[], object], fault: Fault | None, record: Path | None) -> int:
        os.chdir(self.folder)
        os.environ["NO_COLOR"] = "1"
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(
                os.open(self.folder / f"{os.getpid()}.{name}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), number
            )
        if fault is not None or record is not None:
            crash_points.armed = Watcher()
            arm(self.home, self.witness, fault or Fault(), record)
        code = 0
        try:
            work()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        except KeyboardInterrupt:
            code = 130
        except ReenactError as error:
            print(f"error: {error} [{error.code}]", file=sys.stderr)
            code = error.exit_code
        except BaseException:
            traceback.print_exc()
            code = 70
        sys.stdout.flush()
        sys.stderr.flush()
        if fault is not None and (descriptor := saved()) >= 0:
            Path(self.folder, "vanished").write_bytes(os.pread(descriptor, 1 << 30, 0))
        return code

    def end(self, pid: int, read: int, limit_s: float = LIMIT_S) -> Ended:
        """How it ended; killed after `limit_s`, which counts as a hang."""
        select.select([read], [], [], limit_s)
        found, status = os.waitpid(pid, os.WNOHANG)
        hung = found == 0 and not select.select([read], [], [], 1)[0]
        if found == 0:
            if hung:
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        os.close(read)
        said = [Path(self.folder, f"{pid}.{name}") for name in ("out", "err")]
        out, err = (file.read_text(errors="replace") if file.exists() else "" for file in said)
        for file in said:
            file.unlink(missing_ok=True)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if hung:
            code, err = 70, f"{err}\nTraceback: it hung for {limit_s} s"
        return Ended(code, out, err, TOLD.fired, TOLD.calls)

    def runs(self) -> list[tuple[str, str]]:
        """(id, status) of all that there are."""
        if not self.store.exists():
            return []
        with closing(sqlite3.connect(self.store)) as db:
            return [*db.execute("SELECT run_id, status FROM runs ORDER BY run_no")]


def warm_up(box: Box) -> None:
    """Every command once in this process: what they import and remember need not be made in every forked one."""
    box.clear()
    kept, was = [os.dup(number) for number in (1, 2)], Path.cwd()
    os.chdir(box.folder)
    for number in (1, 2):
        os.dup2(os.open("said", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), number)
    try:
        for words in WORDS:
            with suppress(SystemExit):
                main([*words, "--store", str(box.store)])
    finally:
        os.chdir(was)
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
    for thread in threading.enumerate():
        if thread.name == "reenact-log":
            thread.join()
    others = {thread.name for thread in threading.enumerate()} - {"MainThread", "reenact-skill"}
    assert not others, "a fork would lose them; those that wait for a skill are forgotten by it"
    gc.collect()
    gc.freeze()
