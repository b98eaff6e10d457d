"""A PostgreSQL server of the tests' own: started, stopped, killed and started again; reached over loopback alone."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests import in_memory
from tests.postgres.binaries import Binaries, as_user, newest, user

StopMode = Literal["fast", "immediate", "kill"]
SIGNALS: Final[Mapping[StopMode, signal.Signals]] = {
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
    "kill": signal.SIGKILL,
}
OWNER: Final = "reenact"
DATABASE: Final = "reenact"
PATIENCE_S: Final = 60.0
PLACE: Final = next((each for each in (in_memory.folder(), "/tmp") if each and os.access(each, os.W_OK)), None)
"""The path of a Unix socket has to be short."""
TEMPLATES: Final[list[subprocess.Popen[bytes]]] = []
SETTINGS: Final[Mapping[str, str]] = {
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "max_locks_per_transaction": "256",
    "timezone": "Pacific/Chatham",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}
"""`fsync` is on where durability is tested. No day begins there when one begins in UTC."""


class Server:
    """One server with an owner who is no superuser and has a database. Use it in a `with`, or `close` it.

    Over TCP everybody needs a password; nobody does on the Unix socket, in a folder that only its user and root may
    enter.
    """

    def __init__(self, binaries: Binaries | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="reenact-pg-", dir=PLACE))
        self._keeper = keep(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.settings = {**SETTINGS, **(settings or {})}
        self.password = secrets.token_hex(12)
        self.port = 0
        try:
            self._prepare(binaries or newest())
            self._fill()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- its life

    def _prepare(self, binaries: Binaries) -> None:
        self.home = self.folder / "server"
        self.home.mkdir()
        if os.getuid() == 0:
            self.folder.chmod(0o711)
            os.chown(self.home, user().pw_uid, user().pw_gid)
        self.home.chmod(0o700)
        self.binaries = binaries.usable(self.folder / "binaries")
        self.data = self.home / "data"
        (self.home / "pg_ctl").write_text(self.binaries.path("pg_ctl"))

    def _fill(self) -> None:
        self._run(["cp", "-R", str(template(self.binaries)), str(self.data)])
        self.start()
        self._make_owner()

    def _run(self, command: list[str]) -> None:
        """As the server's user."""
        done = subprocess.run(command, check=False, cwd="/", capture_output=True, text=True, **as_user())
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start it, or start it again, at the port that it had."""
        for _ in range(1 if self.port else 10):
            port = self.port or free_port()
            self._process = self._started(port)
            if self._is_ready():
                self.port = port
                return
            self._process = None  # somebody else has the port, or it does not come up
        raise AssertionError(f"the server does not start:\n{self.log()[-4000:]}")

    def _started(self, port: int) -> subprocess.Popen[bytes]:
        places = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": str(self.home)}
        command = [self.binaries.path("postgres"), "-D", str(self.data)]
        for name, value in {**self.settings, **places}.items():
            command += ["-c", f"{name}={value}"]
        with (self.home / "log").open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, **as_user()
            )

    def _is_ready(self) -> bool:
        assert self._process is not None
        until = time.monotonic() + PATIENCE_S
        while self._process.poll() is None:
            try:
                lines = (self.data / "postmaster.pid").read_text().splitlines()
            except OSError:
                lines = []
            if len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() in ("ready", "standby"):
                return True
            assert time.monotonic() < until, f"the server is not ready after {PATIENCE_S:.0f} s:\n{self.log()[-4000:]}"
            time.sleep(0.005)
        return False

    def stop(self, mode: StopMode = "fast") -> None:
        """`fast` ends what is under way in order; `immediate` is a crash of the server; `kill` is `kill -9` to it."""
        if self._process is not None:
            self._process.send_signal(SIGNALS[mode])
            self._process.wait(PATIENCE_S)
            self._process = None

    def restart(self, mode: StopMode = "immediate") -> None:
        self.stop(mode)
        self.start()

    def close(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)
        self._keeper.communicate()

    def log(self) -> str:
        return (self.home / "log").read_text(encoding="utf-8", errors="replace")

    # -- what is in it

    def _make_owner(self) -> None:
        self.add_role(OWNER)
        self.add_database(DATABASE)

    def add_role(self, name: str) -> None:
        """Who may log in with the server's password, and do nothing else."""
        self.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), sql.Literal(self.password))
        )

    def add_database(self, name: str, *, owner: str = OWNER, more: str = "") -> None:
        words = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE template0 " + more)
        self.execute(words.format(sql.Identifier(name), sql.Identifier(owner)))

    def url(self, *, database: str = DATABASE, role: str = OWNER, schema: str | None = None) -> str:
        """As a user writes it, with the password in it."""
        place = f"postgresql://{role}:{self.password}@127.0.0.1:{self.port}/{quote(database)}"
        return place if schema is None else f"{place}?schema={schema}"

    def connect(self, *, database: str = DATABASE, role: str = "postgres") -> psycopg.Connection[Any]:
        """By the socket, each statement a transaction; the superuser unless somebody else is named."""
        return psycopg.connect(host=str(self.home), port=self.port, dbname=database, user=role, autocommit=True)

    def execute(
        self, query: str | sql.Composable, *values: object, database: str = "postgres", role: str = "postgres"
    ) -> list[tuple[Any, ...]]:
        """Rows that it gives, if any."""
        with self.connect(database=database, role=role) as db:
            cursor = db.execute(query if isinstance(query, sql.Composable) else query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    # -- its processes

    @property
    def pid(self) -> int:
        assert self._process is not None, "it is stopped"
        return self._process.pid

    def backends(self, *, role: str = OWNER) -> list[int]:
        """The process numbers of those that serve a role, the oldest first."""
        query = "SELECT pid FROM pg_stat_activity WHERE usename = %s ORDER BY backend_start, pid"
        return [pid for (pid,) in self.execute(query, role)]

    @contextmanager
    def stopped(self, pid: int) -> Iterator[None]:
        """A backend that does nothing more, whose kernel still takes what is sent to it."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@cache
def template(binaries: Binaries) -> Path:
    """What `initdb` makes, once for a process and version; whoever keeps it takes it away in the end."""
    folder = Path(tempfile.mkdtemp(prefix="reenact-pg-", dir=PLACE))
    TEMPLATES.append(keep(folder))
    if os.getuid() == 0:
        os.chown(folder, user().pw_uid, user().pw_gid)
    data = folder / "data"
    command = [binaries.usable(folder / "binaries").path("initdb"), "-D", str(data), "-U", "postgres"]
    command += ["--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C"]
    command += ["--no-sync", "--wal-segsize=1", "--no-instructions"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **as_user())
    assert done.returncode == 0, done.stderr
    return data


class Replica(Server):
    """A standby of another server, which follows it and can take its place."""

    def __init__(self, primary: Server, *, settings: Mapping[str, str] | None = None) -> None:
        self._primary = primary
        super().__init__(primary.binaries, settings=settings)
        self.password = primary.password

    def _fill(self) -> None:
        primary = self._primary
        tool = [self.binaries.path("pg_basebackup"), "-D", str(self.data), "-R", "-c", "fast", "--no-sync"]
        self._run([*tool, "-h", str(primary.home), "-p", str(primary.port), "-U", "postgres"])
        self.start()

    def catch_up(self) -> None:
        """Until it has all that the other one has now."""
        ((written,),) = self._primary.execute("SELECT pg_current_wal_flush_lsn()")
        until = time.monotonic() + PATIENCE_S
        while not self.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written)[0][0]:
            assert time.monotonic() < until, self.log()[-4000:]
            time.sleep(0.01)

    def promote(self) -> None:
        """From here on it is no standby any more."""
        assert self.execute("SELECT pg_promote(true, 60)") == [(True,)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def keep(folder: Path) -> subprocess.Popen[bytes]:
    """Whoever ends the servers below a folder, and takes it away, once this process is gone."""
    script = str(Path(__file__).with_name("keeper.py"))
    who = (user().pw_uid, user().pw_gid) if os.getuid() == 0 else (os.getuid(), os.getgid())
    command = [sys.executable, "-I", "-S", script, str(folder), *map(str, who)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True, cwd="/")
