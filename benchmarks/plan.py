"""Steps of a plan beside a raw loop: one row of the same bytes per step, committed on the same disk.

The raw loop is what somebody would write who wants each step durable and nothing else: SQLite, WAL,
`synchronous=FULL`, one INSERT per transaction. Its rows are the very bytes that a plan's steps left in the store.

The two take turns: every twenty steps the plan stands still inside its skill while the raw loop commits twenty rows. So
a disk that is busy for a second meets both, and the middle of all turns is what counts.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from pathlib import Path

from benchmarks.figure import Figure, seconds
from benchmarks.plans import note, plan, runtime, workplace
from reenact import skill
from reenact.skills.skill import Skill
from reenact.store.base import PAYLOAD_BITS

LEAST = 0.5
TURN = 20


def measure(steps: int = 500, rounds: int = 5) -> list[Figure]:
    with workplace() as folder:
        rows = stored_rows(folder / "rows.db", steps)
        plain, threaded = Turns(rows), Turns(rows)
        for number in range(rounds):
            plain.take(folder / f"async-{number}", steps, in_a_thread=False)
            threaded.take(folder / f"sync-{number}", steps, in_a_thread=True)
    size = sum(map(len, rows)) // len(rows)
    return [
        Figure(
            name="plan, steps/s beside a raw loop",
            value=plain.ratio,
            least=LEAST,
            note=f"{plain.step_us:.0f} and {plain.row_us:.0f} µs, {size} bytes; {plain.began_us:.0f} µs around them",
        ),
        Figure(
            name="the same with a skill that runs in a thread",
            value=threaded.ratio,
            note=f"{threaded.step_us:.0f} and {threaded.row_us:.0f} µs",
        ),
    ]


class Turns:
    """Times of a plan and of a raw loop that take turns."""

    def __init__(self, rows: list[bytes]) -> None:
        self._rows = rows
        self._plan: list[float] = []
        self._raw: list[float] = []
        self._around: list[float] = []

    @property
    def step_us(self) -> float:
        """The middle turn of the plan, and a step's share of what it takes to begin and to seal a run."""
        return statistics.median(self._plan) * 1e6 + self.began_us

    @property
    def row_us(self) -> float:
        return statistics.median(self._raw) * 1e6

    @property
    def began_us(self) -> float:
        return min(self._around) * 1e6

    @property
    def ratio(self) -> float:
        return self.row_us / self.step_us

    def take(self, folder: Path, steps: int, *, in_a_thread: bool) -> None:
        folder.mkdir()
        raw = open_raw(folder / "raw.db")
        plan_turns: list[float] = []
        raw_turns: list[float] = []
        mark = time.perf_counter()

        def turn(number: int) -> None:
            nonlocal mark
            if number % TURN == 0:
                if number > 0:
                    plan_turns.append(time.perf_counter() - mark)
                rows = self._rows[number : number + TURN]
                raw_turns.append(seconds(lambda: commit_each(raw, rows)))
                mark = time.perf_counter()

        with runtime(folder / "plan.db", [turning(turn, in_a_thread=in_a_thread)]) as opened:
            whole = seconds(lambda: check(opened.run(plan(steps, "turn")).ok))
        raw.close()
        self._plan += [took / TURN for took in plan_turns]
        self._raw += [took / TURN for took in raw_turns]
        last = statistics.median(plan_turns) * (steps - len(plan_turns) * TURN) / TURN
        self._around.append(max(0.0, whole - sum(plan_turns) - sum(raw_turns) - last) / steps)


def turning(turn: object, *, in_a_thread: bool) -> Skill:
    """The skill of the plan: `note`, with a look at whose turn it is."""
    assert callable(turn)

    @skill("turn", version="1.0.0", idempotent=True)
    async def asynchronous(text: str, count: int) -> dict[str, str | int]:
        turn(count)
        return {"said": text, "next": count + 1}

    @skill("turn", version="1.0.0", idempotent=True)
    def synchronous(text: str, count: int) -> dict[str, str | int]:
        turn(count)
        return {"said": text, "next": count + 1}

    return synchronous if in_a_thread else asynchronous


def stored_rows(path: Path, steps: int) -> list[bytes]:
    """What each commit of a run put on the disk: its body and its payloads, as they lie there."""
    with runtime(path, [note]) as opened:
        check(opened.run(plan(steps)).ok)
    db = sqlite3.connect(path)
    bodies = dict(db.execute("SELECT id, body FROM commits ORDER BY id"))
    for payload_id, commitment, body in db.execute("SELECT id, commitment, body FROM payloads ORDER BY id"):
        bodies[payload_id >> PAYLOAD_BITS] += commitment + body
    db.close()
    first, *others = list(bodies.values())
    return [others[0] if others else first, *others][:steps]  # the first one also holds the plan


def open_raw(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    return db


def commit_each(db: sqlite3.Connection, rows: list[bytes]) -> None:
    for row in rows:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO log (body) VALUES (?)", (row,))
        db.execute("COMMIT")


def check(ok: bool) -> None:  # noqa: FBT001
    assert ok, "a run that fails measures nothing"
