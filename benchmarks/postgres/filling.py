"""Rows of many runs, written set-wise by SQL: what a large store is asked with a few runs in it that are real.

The made-up runs have ended. Each has a row of `runs`, a seal, the note about it, a place in the log and a row of
`traces`; none has commits. The real ones before and behind them verify, and their seals stand in one log with the
others.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg

from reenact import Runtime, skill
from reenact.store.postgres.opened.url import place_of
from reenact.store.postgres.store import PostgresStore
from reenact.telemetry.store_metrics import TALLY, exposition
from reenact.verify.log.checkpoint import Head

PART = 1 << 20
ID = "'ffffffff-0000-7000-8000-' || lpad(to_hex({}), 12, '0')"
RUNS = f"""
INSERT INTO runs (run_no, run_id, kind, mode, parent_run, plan_id, agent_id, status, started_at, dedupe_key, token,
                  expires_ms, session)
SELECT i, {ID.format("i")}, CASE WHEN i % 10 = 0 THEN 'session' ELSE 'plan' END, 'live',
       CASE WHEN i % 1000 = 1 THEN {ID.format("i - 1")} END, 'a-plan', 'agent-' || i % 1000,
       CASE WHEN i % 50 = 0 THEN 'failed' ELSE 'completed' END, '2026-01-01T00:00:00.000Z', sha256(int8send(i)), 1, 0,
       CASE WHEN i % 10 = 0 THEN 'session-' || i END
FROM generate_series(:first, :last) i
"""
SEALS = """
INSERT INTO seals SELECT :seal + i - :first, i, lpad(to_hex(i), 64, '0') FROM generate_series(:first, :last) i
"""
NOTES = """
INSERT INTO notes (schema, store_id, digest, kid, signature)
SELECT 'reenact.seal.v1', ':store', lpad(to_hex(i), 64, '0'), ':kid',
       sha256(int8send(i)) || sha256(int8send(-i)) FROM generate_series(:first, :last) i
"""
TRACES = f"""
INSERT INTO traces SELECT i, 0, {ID.format("i + (1 << 40)")}, 'step', 1 FROM generate_series(:first, :last) i
"""
LEAVES = """
INSERT INTO log_nodes SELECT 0, i, sha256(int8send(i)) FROM generate_series(:log, :filled - 1) i
"""
NODES = """
INSERT INTO log_nodes SELECT :level, j, sha256('\\x01'::bytea || a.hash || b.hash)
FROM generate_series(:log >> :level, (:size >> :level) - 1) j
JOIN log_nodes a ON a.level = :level - 1 AND a.index = 2 * j
JOIN log_nodes b ON b.level = :level - 1 AND b.index = 2 * j + 1
"""
GROWN = ("runs", "seals", "notes", "traces", "log_nodes", "commits", "payloads")


@skill("touch", version="1.0.0", tool_class="read")
def touch(number: int) -> int:
    return number


class Large:
    """A store that is not there yet, made at `url`: so many runs, of which so many are real."""

    def __init__(self, url: str, runs: int, real: int) -> None:
        self._schema = place_of(url).schema
        self._said: dict[str, object] = {}
        self.real: list[str] = []
        """Ids of runs that verify, the oldest first: one half before the others, one half behind them."""
        with closing(PostgresStore(url)) as store, psycopg.connect(place_of(url).conninfo, autocommit=True) as self._db:
            runtime = Runtime(store, skills=[touch])
            self._work(runtime, real - real // 2)
            store.log.advance()
            exposition(store)
            self._fill(runs - real // 2)
            store._follower.close()  # it would look for the commits of what has none
            self._work(runtime, real // 2)
            self._graft(store)

    def _work(self, runtime: Runtime, runs: int) -> None:
        for number in range(runs):
            with runtime.session(agent_id="a", id=f"real-{len(self.real)}") as session:
                session.call("touch", {"number": number})
            self.real.append(session.run_id)

    def _do(self, sql: str, **more: object) -> list[Any]:
        for name, value in {**self._said, **more}.items():
            sql = sql.replace(f":{name}", str(value))
        cursor = self._db.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    def _fill(self, runs: int) -> None:
        self._do(f'SET search_path = "{self._schema}"')
        ((there, seals, store_id, kid),) = self._do(
            "SELECT (SELECT max(run_no) FROM runs), (SELECT value FROM counters WHERE name = 'seals'), "
            "(SELECT value FROM store WHERE key = 'store_id'), (SELECT min(kid) FROM keys)"
        )
        size = seals + runs - there
        self._said = {"store": store_id, "kid": kid, "log": seals, "filled": size}
        for first in range(there + 1, runs + 1, PART):
            last = min(first + PART - 1, runs)
            self._do("SELECT add_partitions(:last)", last=last)
            for sql in (RUNS, SEALS, NOTES, TRACES):
                number = seals + first - there
                self._do(sql, first=f"{first}::bigint", last=f"{last}::bigint", seal=f"{number}::bigint")
        self._do("SELECT setval('run_numbers', :last)", last=runs)
        self._do("UPDATE counters SET value = :filled WHERE name = 'seals'")
        self._do(f"UPDATE tallies SET sealed = :filled WHERE name = '{TALLY}'")

    def _graft(self, store: PostgresStore) -> None:
        """The log over all seals: the leaves of the made-up ones are made up, what stands on them is not."""
        self._do(LEAVES)
        size = int(str(self._said["filled"]))
        for leaf in store.log.leaves(after=size):
            self._db.execute("INSERT INTO log_nodes VALUES (0, %s, %s)", (size, leaf))
            size += 1
        self._do("ANALYZE log_nodes")
        for level in range(1, size.bit_length()):
            self._do(NODES, level=level, size=size)
        head, key = Head(store.log.origin, size, store.log.root_at(size)), store.signing_key
        values = (size, head.root, key.kid, key.sign(head.text()))
        self._db.execute("INSERT INTO log_checkpoints VALUES (%s, %s, %s, %s)", values)
        self._do(f"VACUUM ANALYZE {', '.join(GROWN)}")
