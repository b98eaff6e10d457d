"""The log of a store: it follows the seals, whatever is killed when, and signs no second head for a size."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import DamagedRecord, NotAuthentic, StoreUnavailable
from reenact.store.log.log import BATCH
from reenact.store.log.past import compare, rebuild
from reenact.store.sqlite.log import rows as sql
from reenact.store.sqlite.store import SqliteStore
from reenact.verify.log.checkpoint import read_checkpoint
from reenact.verify.log.proof import read_proof
from tests.fork_server import FORKS
from tests.store.units import Run, open_store
from tests.witness.stores import a_store, grow


def seal_one(store: SqliteStore, name: str) -> None:
    run = Run(name)
    unit, took = run.unit(sealed=True)
    took(store.append(unit, None, owner="me"))


def heads(store: SqliteStore) -> list[tuple[int, str]]:
    return [(head.size, head.root.hex()) for head in store.log.rows.checkpoints()]


def nothing(_: int) -> None: ...


def test_a_seal_is_in_the_log_within_a_second_and_nobody_waited_for_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    seal_one(store, "a")
    assert heads(store) == [], "not in the run's own commit"
    began = time.monotonic()
    while not heads(store):
        assert time.monotonic() - began < 1
        time.sleep(0.01)
    seal_one(store, "b")
    store.close()
    again = open_store(tmp_path)
    assert [size for size, _ in heads(again)] == [1, 2], "what was told and not done yet is done when it is closed"
    assert compare(again.log, (), nothing).problem is None
    again.close()


def test_every_leaf_is_proven_against_every_head(tmp_path: Path) -> None:
    with a_store(tmp_path, 0) as store:
        for _ in range(9):
            grow(store)
        for head in store.log.rows.checkpoints():
            for index in range(head.size):
                data = store.log.proof(index, head.size)
                assert data is not None
                proof, seal = read_proof(data), store.log.rows.seals(index, 1)[0]
                assert read_checkpoint(store.log.note(head)).head.root == head.root
                leaf = seal.body.split(b'"seal":', 1)[1].removesuffix(b"}\n")
                assert proof.root_of(leaf) == head.root
        assert store.log.proof(9) is None


def test_many_seals_become_leaves_in_batches_and_one_head(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store._follower.close()  # all of it at once
    for number in range(BATCH + 3):
        seal_one(store, f"r{number}")
    store.log.advance()
    assert [size for size, _ in heads(store)] == [BATCH + 3]
    assert rebuild(store.log, nothing) == store.log.rows.newest()
    store.close()


def test_two_processes_that_follow_at_once_sign_the_same_heads(tmp_path: Path) -> None:
    with a_store(tmp_path, 1) as store:
        others = [SqliteStore(store.url) for _ in range(3)]
        for number in range(8):
            seal_one(store, f"more-{number}")
            threads = [threading.Thread(target=each.log.advance) for each in (store, *others)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        sizes = [size for size, _ in heads(store)]
        assert sizes == sorted(set(sizes))
        assert sizes[-1] == 9
        assert compare(store.log, (), nothing).problem is None
        for other in others:
            other.close()


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def dying(folder: Path, name: str, after: int, said: Any) -> None:
    """In a process of its own: a run is sealed, and the process killed at a statement of what follows."""
    store = open_store(folder)
    store._follower.close()
    seal_one(store, name)
    left = after

    def trace(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store._writer.db.set_trace_callback(trace)
    head = store.log.advance()
    assert head is not None
    said.send((head.size, head.root.hex()))
    os._exit(0)


def test_killed_at_any_statement_nothing_is_lost_and_no_second_head_is_signed(tmp_path: Path) -> None:
    told: dict[int, str] = {}
    after = survived = 0
    while survived < 2:
        after += 1
        here, there = FORKS.Pipe(duplex=False)
        child = FORKS.Process(target=dying, args=(tmp_path, f"run-{after}", after, there))
        child.start()
        there.close()
        try:
            size, root = here.recv()
            told[size] = root
            survived += 1
        except EOFError:
            pass
        child.join()
        assert child.exitcode in {0, -signal.SIGKILL}
        with closing(open_store(tmp_path)) as store:
            store.log.advance()
            assert store.log.rows.size() == after < 40
    assert after > 6, "there are statements to be killed at"
    with closing(open_store(tmp_path)) as store:
        store.log.advance()
        found = heads(store)
        assert len({size for size, _ in found}) == len(found)
        assert dict(found).items() >= told.items(), "what was shown to somebody is on record"
        assert store.log.rows.size() == after
        assert compare(store.log, (), nothing).problem is None


# -- what somebody does to the rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log_checkpoints SET root = x'00'",
        "DELETE FROM log_checkpoints",
        "INSERT OR REPLACE INTO log_checkpoints SELECT size, x'00', kid, signature FROM log_checkpoints LIMIT 1",
        "INSERT INTO log_checkpoints SELECT 1, root, kid, signature FROM log_checkpoints WHERE size = 3",
        "UPDATE log_cosignatures SET line = x'00'",
        "DELETE FROM log_cosignatures",
        "INSERT OR REPLACE INTO log_cosignatures SELECT id, size, witness, x'00' FROM log_cosignatures",
        "UPDATE log_timestamps SET stamp = x'00'",
        "DELETE FROM log_timestamps",
        "UPDATE log_contradictions SET source = ''",
        "DELETE FROM log_contradictions",
    ],
)
def test_what_was_signed_and_said_is_append_only(tmp_path: Path, statement: str) -> None:
    with a_store(tmp_path) as store:
        store.log.rows.add_cosignature(3, "w", b"line")
        store.log.rows.add_timestamp(3, "t", b"token")
        store.log.rows.add_contradiction("w", b"note")
    with closing(sqlite3.connect(tmp_path / "store.db")) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute(statement)


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as db:
        triggers = db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        (["DELETE FROM seals WHERE id = 3"], "a head was signed for 3 seals, and 2 are there"),
        (["DELETE FROM seals WHERE id = 3", "SELECT 1"], "a head was signed for 3 seals, and 2 are there"),
        (["UPDATE log_checkpoints SET root = zeroblob(32)"], "another head than the one that was signed"),
        (["UPDATE log_nodes SET hash = zeroblob(32) WHERE id = 0", "DELETE FROM log_nodes WHERE id > 0"], "log has"),
    ],
)
def test_nothing_more_is_signed_where_what_was_signed_is_contradicted(
    tmp_path: Path, statements: list[str], says: str
) -> None:
    with a_store(tmp_path):
        pass
    if statements == ["DELETE FROM seals WHERE id = 3"]:
        statements = [*statements, "DELETE FROM log_nodes"]
    change(tmp_path, *statements)
    with closing(open_store(tmp_path)) as store:
        before = heads(store)
        with pytest.raises((NotAuthentic, DamagedRecord), match=says):
            store.log.advance()
        seal_one(store, "one more")
        with pytest.raises((NotAuthentic, DamagedRecord)):
            store.log.advance()
        assert heads(store) == before


def test_what_a_process_wrote_itself_is_a_leaf_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever changes a commit before the log has its seal changes neither the leaf nor what is signed."""
    with closing(open_store(tmp_path)) as store:
        store._follower.close()
        monkeypatch.setattr(store.log.rows, "seals", lambda *_: pytest.fail("a seal was read again"))
        for number in range(7):
            seal_one(store, f"own {number}")
            if number == 3:
                change(tmp_path, "UPDATE commits SET body = zeroblob(9) WHERE id >> 24 = 4")
            store.log.advance()
        change(tmp_path, "UPDATE log_checkpoints SET root = zeroblob(32) WHERE size = 7")
        seal_one(store, "one more")
        store.log.advance()
        sizes = [size for size, _ in heads(store)]
        monkeypatch.undo()
        assert sizes == list(range(1, 9))
        assert "seal 4 of the store" in str(compare(store.log, (), nothing).problem)


def test_what_others_wrote_between_is_read(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store, closing(SqliteStore(store.url)) as other:
        store._follower.close()
        other._follower.close()
        for number in range(12):
            seal_one(other if number % 3 else store, f"mixed {number}")
            (store if number % 2 else other).log.advance()
        assert [size for size, _ in heads(store)] == list(range(1, 13))
        assert compare(store.log, (), nothing).problem is None


def test_a_run_that_nobody_vouches_for_is_no_leaf(tmp_path: Path) -> None:
    """Who can write to the file, and has no key, has no head of the log signed over what he wrote."""
    with closing(open_store(tmp_path)) as store:
        store._follower.close()
        seal_one(store, "honest")
        seal_one(store, "forged")
    change(tmp_path, "UPDATE commits SET mac = NULL WHERE id >> 24 = 2")
    with closing(open_store(tmp_path)) as store:
        with pytest.raises(NotAuthentic, match="nothing vouches for it"):
            store.log.advance()
        assert heads(store) == []


def test_a_tree_that_was_lost_is_made_again_and_one_that_was_changed_is_found(tmp_path: Path) -> None:
    with a_store(tmp_path, 5) as store:
        before = dict(store.log.rows.nodes([(0, 1), (1, 0), (2, 0)]))
    change(tmp_path, "DELETE FROM log_nodes")
    with closing(open_store(tmp_path)) as store:
        store.log.advance()
        assert store.log.rows.nodes(list(before)) == before
    change(tmp_path, f"UPDATE log_nodes SET hash = zeroblob(32) WHERE id = {2 << sql.LEVEL_BITS}")
    with closing(open_store(tmp_path)) as store:
        with pytest.raises(NotAuthentic):
            store.log.advance()
        rebuild(store.log, nothing)
        assert store.log.rows.nodes(list(before)) == before


def test_a_store_that_is_only_read_has_a_log_that_is_only_read(tmp_path: Path) -> None:
    with a_store(tmp_path, 2) as store, store.evidence() as evidence:
        rows = evidence.log_rows()
        assert rows.size() == 2
        with pytest.raises(StoreUnavailable):
            rows.forget_nodes()


# -- large stores ------------------------------------------------------------------------------------------------------


def test_no_question_walks_over_a_table(tmp_path: Path) -> None:
    """At 1,000,000 seals as at 10,000: `python -m benchmarks.large_log` measures it."""
    asked: list[str] = []
    with a_store(tmp_path, 40) as store:
        store.log.rows.add_cosignature(40, "w", b"line")
        writer = store._writer
        original = sql.SqliteLogRows._query

        def noted(self: sql.SqliteLogRows, statement: str, *values: object) -> list[Any]:
            plan = writer.query(f"EXPLAIN QUERY PLAN {statement}", values)
            asked.extend(str(row[3]) for row in plan)
            return original(self, statement, *values)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sql.SqliteLogRows, "_query", noted)
            store.log.advance()
            store.log.proof(3)
            store.log.consistency(7, 40)
            store.log.rows.covering(4)
            store.log.rows.number_of(3)
            store.log.rows.seals(3, 2)
    assert asked
    assert [step for step in asked if step.startswith("SCAN") and "CONSTANT ROW" not in step] == []
