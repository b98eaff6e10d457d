"""The transaction pooler that most people have, where it is on this machine; the tests' own where it is not."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from psycopg import pq

from tests.postgres.binaries import as_user, user
from tests.postgres.pooler import Pooler, by_way_of
from tests.postgres.server import OWNER, PATIENCE_S, PLACE, Server, free_port

NAME = "pgbouncer"
WITH_US = '"$0" "$1" & read _; kill -9 $!'
"""It ends with the process that holds the other end of its input, also when that is killed."""


class PgBouncer:
    """In front of `server`, in transaction mode, with so many backends for each role and database."""

    def __init__(self, server: Server, *, backends: int = 2) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="reenact-pool-", dir=PLACE))
        (self.folder / "users").write_text(f'"{OWNER}" "{server.password}"\n')
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "pool_mode": "transaction",
            "default_pool_size": backends,
            "max_client_conn": 1000,
            "auth_type": "trust",
            "auth_file": self.folder / "users",
            "admin_users": OWNER,
            "logfile": self.folder / "log",
        }
        lines = ["[databases]", f"* = host=127.0.0.1 port={server.port}", f"[{NAME}]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        (self.folder / "ini").write_text("\n".join(lines) + "\n")
        if os.getuid() == 0:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, user().pw_uid, user().pw_gid)
        self._process = subprocess.Popen(
            ["sh", "-c", WITH_US, NAME, str(self.folder / "ini")], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd="/", **as_user(),
        )  # fmt: skip
        self._until_ready()

    def _until_ready(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S).close()
            except OSError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < until, (self.folder / "log").read_text()
                time.sleep(0.01)
            else:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=PATIENCE_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url_of(self, url: str) -> str:
        """The same by way of this pooler."""
        return by_way_of(url, self.port)

    @property
    def transactions(self) -> int:
        """That were served."""
        words = f"host=127.0.0.1 port={self.port} user={OWNER} dbname={NAME}"
        connection = pq.PGconn.connect(words.encode())
        told = connection.exec_(b"SHOW TOTALS")
        counts = {told.get_value(row, 0): int(told.get_value(row, 1) or 0) for row in range(told.ntuples)}
        connection.finish()
        return counts[b"total_xact_count"]


def pooler_for(server: Server, *, backends: int = 2) -> PgBouncer | Pooler:
    """The real one where it is on the path."""
    found = shutil.which(NAME) is not None and os.environ.get("REENACT_TEST_POOLER") != "own"
    return (PgBouncer if found else Pooler)(server, backends=backends)
