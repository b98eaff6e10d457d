"""A campaign of cells: in every column of every table something that no column of its kind holds, then every command.

`python -m tests.attacks.cells [COUNT] [SEED]`. COUNT cells are damaged, each in a store of its own; every command that
reads a store then ends with a documented exit code and at most one line of error with its code, and `recover` goes on
with every run that the cell does not belong to. Without COUNT each column meets each value once.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from reenact.cli.main import main as reenact
from reenact.cli.options import open_runtime
from reenact.errors import WaitingForPerson
from reenact.record.archive.moving import move
from reenact.record.erase import erase
from reenact.replay.runtime import Runtime
from reenact.runtime import crash_points
from reenact.runtime.people import decisions
from reenact.runtime.writing import writer
from reenact.store.base import LateEffect
from reenact.telemetry.store_metrics import exposition
from tests.shares import share
from tests.store.copies import copy_store

WRONG: dict[str, Any] = {
    "blob": b"\xff\x00blob",
    "nothing": b"",
    "text": "text",
    "no text": None,  # bytes that are no UTF-8, as text
    "digits": "7",
    "line": "two\nlines \x1b[31m",
    "NULL": None,
    "most": 2**63 - 1,
    "least": -(2**63),
    "minus one": -1,
    "float": 1.5,
    "infinity": float("inf"),
}
CODED = re.compile(r"error: [^\n]* \[[A-Z0-9_]+\]\n\Z")
EXITS = {0, 1, 2, 3, 4}
PART, MOST = 40, 1200
"""Cells for one process, and more than there are."""
SKILLS = """
from pathlib import Path

from reenact import skill


@skill("pay", version="1.0.0", tool_class="write", cost_estimate_cents=1)
def pay(payee: str) -> dict:
    with Path(__file__).with_name("ledger").open("a") as ledger:
        ledger.write(f"{payee}\\n")
    return {"paid": payee, "slip": "s" * 400}


@skill("rate", version="1.0.0", tool_class="read", cost_estimate_cents=1)
def rate(currency: str) -> dict:
    return {"rate": 2, "currency": currency, "notes": "n" * 400}


@skill("post", version="1.0.0", tool_class="write", in_doubt="hold")
def post(text: str) -> str:
    return text
"""
CONTEXT = {"budget": {"per_day_cents": 500}}


@dataclass
class Counted:
    """What a campaign has seen."""

    cells: int = 0
    columns: set[str] = field(default_factory=set)
    commands: int = 0
    exits: Counter[int] = field(default_factory=Counter)
    recovered: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Counted) -> None:
        self.cells += other.cells
        self.columns |= other.columns
        self.commands += other.commands
        self.exits += other.exits
        self.recovered += other.recovered
        self.wrong += other.wrong

    def __str__(self) -> str:
        exits = ", ".join(f"{count} with {code}" for code, count in sorted(self.exits.items()))
        return (
            f"{self.cells} wrong cells in {len(self.columns)} columns, {self.commands} commands: {len(self.wrong)} "
            f"wrong; they ended {exits}; {self.recovered} other runs recovered"
        )


# -- the store ---------------------------------------------------------------------------------------------------------


def plan(name: str, *steps: dict[str, Any], **context: Any) -> dict[str, Any]:
    return {"plan_id": name, "agent_id": "clerk", "steps": list(steps), "context": {**CONTEXT, **context}}


def rate(name: str) -> dict[str, Any]:
    return {"step_id": name, "skill_id": "rate", "parameters": {"currency": "EUR"}}


def pay(name: str) -> dict[str, Any]:
    return {"step_id": "pay", "skill_id": "pay", "parameters": {"payee": name}, "idempotency_key": name}


COUNT_UP = {
    "step_id": "count",
    "skill_id": "kv_store",
    "parameters": {"operation": "incr", "namespace": "n", "key": "count"},
}
LOG_ROWS = (
    ("cosignatures", 1, 1, "w.example", b"\xe2\x80\x94 w.example AAAA\n"),
    ("timestamps", 1, 1, "https://tsa.example", b"0"),
    ("contradictions", 1, "https://w.example", b"reenact/x\n1\nAAAA\n"),
    ("peers", "file:kept", "anchor", "file:kept", 0, 0, 0, None),
)
"""What only others can write, in a form that nobody believes."""
POST = {"step_id": "post", "skill_id": "post", "parameters": {"text": "x"}, "idempotency_key": "posted"}


def fill(folder: Path) -> tuple[Path, dict[str, str]]:
    """A store in which every table has rows; its runs by what they stand for."""
    (folder / "skills.py").write_text(SKILLS)
    path = folder / "store.db"
    runs: dict[str, str] = {}
    with opened(path) as runtime:
        for name in ("paid", "erased", "archived"):
            done = runtime.run(plan(name, rate("a"), rate("b"), COUNT_UP, pay(name)))
            assert done.status == "completed"
            runs[name] = done.run_id
        erase(runtime.store, runs["erased"], "a", who="kim", reason="asked to")
        move(runtime.store, runs["archived"], folder / "archive", who="kim", reason="old")
        runs["waiting"] = runtime.run(plan("waiting", rate("a"), pay("waiting"), supervisor="ask")).run_id
        decisions.cast_vote(runtime, runs["waiting"], "pay", approve=True, reason="", who="kim")
    for name, crash_point, steps in (
        ("cut off", "before_dispatch:5", [*map(rate, "abcd"), pay("cut off")]),
        ("in doubt", "after_dispatch:2", [rate("a"), POST]),
    ):
        runs[name] = cut_off(path, plan(name, *steps), crash_point)
    with opened(path) as runtime:
        runtime.resume(runs["in doubt"])
        trace = runtime.store.trace_at(runs["cut off"], 0)
        assert trace is not None
        runtime.store.add_late_effect(runs["cut off"], LateEffect(trace.trace_id, b"{}"))
        with runtime.session(id="till", agent_id="clerk", context={**CONTEXT, "supervisor": "ask"}) as session:
            session.call("rate", {"currency": "EUR"})
            with contextlib.suppress(WaitingForPerson):
                session.call("pay", {"payee": "Ada"}, idempotency_key="till")
        runs["session"] = session.run_id
        exposition(runtime.store)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table, *row in LOG_ROWS:
            db.execute(f"INSERT INTO log_{table} VALUES ({', '.join('?' * len(row))})", row)
    return path, runs


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Runtime]:
    runtime = open_runtime(str(path), [str(path.with_name("skills.py"))])
    try:
        yield runtime
    finally:
        runtime.close()


def cut_off(path: Path, document: dict[str, Any], crash_point: str) -> str:
    child = os.fork()
    if child == 0:
        crash_points.arm(crash_point)
        writer.CHECKPOINT_STEPS = 2  # type: ignore[misc]
        try:
            with opened(path) as runtime:
                runtime.run(document)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    with opened(path) as runtime:
        return runtime.store.runs()[0].run_id


# -- cells -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One that is changed, of the row with these values."""

    table: str
    column: str
    row: dict[str, Any]
    wrong: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column} = {self.wrong}"

    @property
    def run_no(self) -> int | None:
        """Whose it is; None where it is the whole store's, or every run's that asks for the agent's money or values."""
        if self.table in ("commits", "traces", "run_checkpoints"):
            return int(self.row["id"]) >> 24
        if self.table == "payloads":
            return int(self.row["id"]) >> 36
        number = self.row.get("run_no")
        shared = self.table in ("erasures", "earmarks", "idempotency")  # rows of keys vouch for one another
        return number if isinstance(number, int) and not shared else None

    def put(self, path: Path) -> bool:
        """As somebody does it who can write to the file: no guard of the database is in his way."""
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                db.execute(f"DROP TRIGGER {name}")
            ((sql,),) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (self.table,))
            if self.wrong == "NULL":
                write_schema(db, self.table, sql.replace(" NOT NULL", ""))
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            where = " AND ".join(f"{column} IS ?" for column in self.row)
            value = "CAST(x'fffe' AS TEXT)" if self.wrong == "no text" else "?"
            values = (*(() if self.wrong == "no text" else (WRONG[self.wrong],)), *self.row.values())
            try:
                done = (
                    db.execute(f"UPDATE {self.table} SET {self.column} = {value} WHERE {where}", values).rowcount == 1
                )
            except sqlite3.Error:
                return False  # a number of a row is never anything else
            if self.wrong == "NULL":
                write_schema(db, self.table, sql)
            return done


def write_schema(db: sqlite3.Connection, table: str, sql: str) -> None:
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, table))
    db.execute("PRAGMA writable_schema = OFF")


def cells(path: Path, chance: random.Random) -> list[Cell]:
    """Every column with every wrong value, each in some row."""
    found = []
    with closing(sqlite3.connect(path)) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            rows = db.execute(f"SELECT * FROM {table}").fetchall()
            assert rows, f"{table} is empty"
            for column in columns:
                for wrong in WRONG:
                    row = dict(zip(columns, chance.choice(rows), strict=True))
                    found.append(Cell(table, column, row, wrong))
    chance.shuffle(found)
    return found


# -- what comes of it --------------------------------------------------------------------------------------------------


class Campaign:
    """Puts each cell into a copy of the store, and asks every command."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance, self.counted = folder, random.Random(seed), Counted()
        self.made, self.runs = fill(folder)
        self.wrong, self.path = folder / "wrong.db", folder / "tried.db"
        copy_store(self.made, self.path)
        self.statuses = {
            row["run_id"]: row["status"] for row in msgspec.json.decode(self.ask(["recover", "--json"])[1])
        }
        with closing(sqlite3.connect(self.made)) as db:
            self.numbers = dict(db.execute("SELECT run_no, run_id FROM runs").fetchall())

    def run(self, wanted: slice) -> Counted:
        for cell in cells(self.made, self.chance)[wanted]:
            copy_store(self.made, self.wrong)
            if cell.put(self.wrong):
                self.counted.cells += 1
                self.counted.columns.add(f"{cell.table}.{cell.column}")
                self.judge(cell)
        return self.counted

    def judge(self, cell: Cell) -> None:
        own = self.numbers.get(cell.run_no or -1, self.chance.choice(list(self.runs.values())))
        copy_store(self.wrong, self.path)
        for command in self.commands(own):
            if command[0] in WRITING:
                copy_store(self.wrong, self.path)
            said = self.ask(command)
            self.counted.commands += 1
            self.counted.exits[said[0]] += 1
            problem = what_is_wrong(*said)
            if problem is None and command[0] == "recover" and cell.run_no is not None:
                problem = self.not_recovered(own, said[1])
            if problem is not None:
                self.counted.wrong.append(f"{cell}: reenact {' '.join(command)[:60]}: {problem}")

    def commands(self, own: str) -> list[list[str]]:
        """Those that read, then those that write."""
        bundle = self.folder / "bundle"
        shutil.rmtree(bundle, ignore_errors=True)
        why = ["--reason", "r"]
        return [
            ["ls"], ["ls", "--json"], ["show", own], ["show", own, "--json", "--values"], ["verify", own], ["doctor"],
            ["keys", "list"], ["metrics"], ["diff", own, self.runs["paid"]], ["replay", own],
            ["export", own, "--to", str(bundle)],
            ["recover", "--json"], ["resume", own], ["fork", own, "--at", "pay"],
            ["approve", own, "pay", *why], ["resolve", own, "post", "--failed", *why],
            ["cancel", own, *why], ["erase", own, "--yes", *why],
            ["keys", "rotate"], ["keys", "replace", "--lost", *why],
        ]  # fmt: skip

    def ask(self, command: list[str]) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of a command; 70 where it ended as none may."""
        words = [*command, "--store", str(self.path)]
        if command[0] in SKILLED:
            words += ["--skills", str(self.made.with_name("skills.py"))]
        out, err, code = stream(), stream(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                reenact(words)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 0
            except BaseException as error:  # what a user would see as a traceback
                code = 70
                where = traceback.extract_tb(error.__traceback__)[-1]
                err.write(f"{type(error).__name__}: {error} at {Path(where.filename).name}:{where.lineno}")
        return code, written(out), written(err)

    def not_recovered(self, own: str, said: str) -> str | None:
        """The runs that the cell is not of go on as they would."""
        told = msgspec.json.decode(said or "[]")
        found = {row["run_id"]: row["status"] for row in told} if isinstance(told, list) else {}
        expected = {run_id: status for run_id, status in self.statuses.items() if run_id != own}
        missed = {run_id for run_id, status in expected.items() if found.get(run_id) != status}
        self.counted.recovered += len(expected) - len(missed)
        return f"{len(missed)} other runs are not recovered: {said[:300]}" if missed else None


def stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def written(there: io.TextIOWrapper) -> str:
    there.flush()
    return there.detach().getvalue().decode()  # type: ignore[attr-defined, no-any-return]


WRITING = ("recover", "resume", "fork", "approve", "resolve", "cancel", "erase", "keys")
SKILLED = ("recover", "resume", "replay", "fork", "approve", "resolve")


def what_is_wrong(code: int, out: str, err: str) -> str | None:
    if code not in EXITS:
        return f"exit code {code}: {err[-300:]}"
    if "Traceback" in err or "Traceback" in out:
        return "a traceback"
    if err.count("error: ") and not CODED.search(err):
        return f"no line with a code: {err[-300:]!r}"
    return None


def campaign(wanted: slice, seed: int) -> Counted:
    memory = Path("/dev/shm")  # where there is one: nothing here has to survive
    with tempfile.TemporaryDirectory(prefix="cells-", dir=memory if memory.is_dir() else None) as folder:
        return Campaign(Path(folder), seed).run(wanted)


def long_form(count: int, seed: int) -> Counted:
    """In parts, each in a process of its own: commands leave to the end of theirs what they have opened."""
    part, shares = share()
    total, parts = Counted(), [slice(at, min(at + PART, count)) for at in range(0, count, PART)][part - 1 :: shares]
    with get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        for counted in pool.imap(partial(campaign, seed=seed), parts, chunksize=1):
            total.add(counted)
            for each in counted.wrong:
                print(f"  {each}", flush=True)
    return total


def main() -> int:
    count = int(sys.argv[1]) if sys.argv[1:] else 0
    seed = int(sys.argv[2]) if sys.argv[2:] else 20261117
    began = time.monotonic()
    counted = long_form(count or MOST, seed)
    print(f"{counted}; seed {seed}, {time.monotonic() - began:.0f} s")
    return 1 if counted.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
