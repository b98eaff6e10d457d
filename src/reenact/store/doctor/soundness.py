"""What lies in a store, held against what should: its tables and guards, and the journal of every run that is open.

The journal of a run that has ended is `reenact verify`'s business: it says more, and takes as long as the run is.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from reenact.errors import ReenactError
from reenact.store.base import PAYLOAD_BITS
from reenact.store.doctor.findings import NAMED, Finding, command, counted, flat
from reenact.store.naming import read_lines
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.migrations import migrations, statements
from reenact.values.digest import ZERO_DIGEST

MOST_ROWS = 200_000
"""So many commits and values are looked at. Where open runs have more, some are not looked at, and that is said."""
ENDED = "('completed', 'failed', 'cancelled')"
FORGOTTEN_RUNS = """
WITH RECURSIVE number(n) AS (
    SELECT min(id) >> 24 FROM commits
    UNION ALL SELECT (SELECT min(id) >> 24 FROM commits WHERE id >= (n + 1) << 24) FROM number WHERE n IS NOT NULL
) SELECT n FROM number WHERE n IS NOT NULL AND n NOT IN (SELECT run_no FROM runs)
"""


# -- tables and guards -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A table, an index or a trigger."""

    kind: str
    name: str
    sql: str


def look_at_schema(db: sqlite3.Connection, path: str, version: int) -> Iterator[Finding]:
    """What is missing, changed or added in comparison with what the migrations up to `version` make."""
    wanted, there = parts_of(as_made(version)), parts_of(db)
    for name, part in wanted.items():
        found = there.get(name)
        if found == part:
            continue
        how = "is not there: somebody took it off" if found is None else "is another than reenact made"
        says = f"the {part.kind} {name} {how}"
        if part.kind == "table":
            yield Finding("schema", "trouble", says, f"copy {path} away, then restore a backup")
        elif found is None:
            again = shlex.join(["sqlite3", path, part.sql])
            yield Finding(
                "schema", "warning", says, f"`reenact verify` the runs that matter, then put it back: {again}"
            )
        else:
            yield Finding("schema", "warning", says, "`reenact verify` the runs that matter, then restore a backup")
    for name, part in there.items():
        if name not in wanted:
            drop = shlex.join(["sqlite3", path, f"DROP {part.kind} {name}"])
            yield Finding("schema", "warning", f"the {part.kind} {name} is none of reenact's", f"take it out: {drop}")


def as_made(version: int) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    for number, script in migrations():
        if number <= version:
            for statement in statements(script):
                db.execute(statement)
    return db


def parts_of(db: sqlite3.Connection) -> dict[str, Part]:
    rows = db.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'")
    return {name: Part(kind, name, " ".join(str(sql).split())) for kind, name, sql in rows}


# -- the journal of open runs ----------------------------------------------------------------------------------------


class OpenJournals:
    """Every commit and every value of the runs that have not ended, read as recovery would have to."""

    def __init__(self, connection: Connection, path: str, store: str | None) -> None:
        self._connection = connection
        self._path = path
        self._store = store
        self.commits = self.values = self.runs = self.damaged = 0

    def look(self) -> Iterator[Finding]:
        rows = self._connection.query(f"SELECT run_no, run_id FROM runs WHERE status NOT IN {ENDED} ORDER BY run_no")
        for run_no, run_id in rows:
            if self.commits + self.values >= MOST_ROWS:
                break
            problem = self._problem(run_no, run_id)
            self.runs += 1
            self.damaged += problem is not None
            if problem is not None and self.damaged <= NAMED:
                verify = command(self._store, "verify", run_id)
                do = f"`{verify}` says more; copy {self._path} away, then restore a backup"
                yield Finding(f"run {run_id}", "trouble", problem, do)
        if self.damaged > NAMED:
            yield Finding("journal", "trouble", f"{self.damaged - NAMED} more open runs are damaged")
        read = (counted(self.commits, "commit"), counted(self.values, "value"), counted(self.runs, "open run"))
        looked = "{} and {} of {} were read".format(*read)
        if self.runs < len(rows):
            yield Finding("journal", "note", f"{looked}, {len(rows) - self.runs} runs were not")
        else:
            yield Finding("journal", "ok", looked)

    def _problem(self, run_no: int, run_id: str) -> str | None:
        """The first thing that is wrong with a run."""
        try:
            return self._wrong_commit(run_no, run_id) or self._wrong_value(run_no)
        except ReenactError as error:
            return flat(str(error))

    def _wrong_commit(self, run_no: int, run_id: str) -> str | None:
        low, n, prev = run_no << 24, 0, ZERO_DIGEST
        cursor = self._connection.db.execute(
            "SELECT id, body, digest FROM commits WHERE id > ? AND id < ? ORDER BY id", (low, low + (1 << 24))
        )
        for row_id, stored, digest in cursor:
            n += 1
            self.commits += 1
            if row_id != low + n:
                return f"commit {n} is not there"
            if not isinstance(stored, bytes):
                return f"commit {n} is not what was written: the cell is not a blob"
            try:
                body = self._connection.codec.unpack(stored)
            except ReenactError as error:
                return f"commit {n} is not what was written: {flat(str(error))}"
            if sha256(body).digest() != digest:
                return f"commit {n} is not what was written: the digest beside it is another"
            head = next(read_lines(body), {})
            if (head.get("kind"), head.get("n"), head.get("run_id"), head.get("prev")) != ("commit", n, run_id, prev):
                return f"commit {n} does not follow the one before it"
            prev = sha256(body).hexdigest()
        return None if n else "the journal has nothing of it"

    def _wrong_value(self, run_no: int) -> str | None:
        low = run_no << 24 + PAYLOAD_BITS
        cursor = self._connection.db.execute(
            "SELECT id, commitment, body FROM payloads WHERE id >= ? AND id < ? ORDER BY id",
            (low, low + (1 << 24 + PAYLOAD_BITS)),
        )
        for row_id, commitment, stored in cursor:
            self.values += 1
            n = (row_id >> PAYLOAD_BITS) - (run_no << 24)
            if not isinstance(stored, bytes):
                return f"a value of commit {n} is not what was written: the cell is not a blob"
            try:
                envelope = self._connection.envelope(stored)
            except ReenactError as error:
                return f"a value of commit {n} cannot be read: {flat(str(error))}"
            if sha256(envelope).digest() != commitment:
                return f"a value of commit {n} is not what was written"
        return None


def look_at_rows(db: sqlite3.Connection, path: str, store: str | None) -> Iterator[Finding]:
    """What the table of runs and the journal do not have in common, and the journal of every open run."""
    forgotten = db.execute(FORGOTTEN_RUNS).fetchall()
    if forgotten:
        says = f"the journal has {counted(len(forgotten), 'run')} with no row in the table of runs"
        yield Finding("runs", "trouble", says, f"copy {path} away, then restore a backup; nothing recovers them")
    unsealed = db.execute(
        f"SELECT run_id FROM runs WHERE status IN {ENDED} AND run_no NOT IN (SELECT run_no FROM seals)"
    ).fetchall()
    for (run_id,) in unsealed[:NAMED]:
        verify = command(store, "verify", run_id)
        yield Finding(f"run {run_id}", "warning", "is called ended and has no seal", f"`{verify}` says what it has")
    if len(unsealed) > NAMED:
        yield Finding("runs", "warning", f"{len(unsealed) - NAMED} more are called ended and have no seal")
    yield from OpenJournals(Connection(path, db), path, store).look()
