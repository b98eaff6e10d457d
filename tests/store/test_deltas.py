"""Large values are stored as what they add to others. Whatever is refused, rolled back or erased, each reads back."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact import Runtime, skill
from reenact.errors import StoreError, StoreUnavailable
from reenact.record.erase import erase
from reenact.store.base import Appended, Lease, NewPayload, NewTrace, Unit
from reenact.store.checks.verification import verify_run
from reenact.store.envelopes import StoredEnvelopes
from reenact.store.evidence import find_run
from reenact.store.open import open_evidence
from reenact.store.sqlite.store import SqliteStore
from tests.crash.harness import in_child
from tests.store.units import Run, open_store, payload

TALK = bytes(range(256)) * 16
CLASH = [NewTrace("t", 7, "s"), NewTrace("t", 7, "s")]
"""Two calls in one place: refused, after the values were written."""


def differences(store: SqliteStore) -> int:
    return int(store._writer.query("SELECT count(*) FROM payloads WHERE hex(substr(body, 1, 1)) = '03'")[0][0])


def reads_back(store: SqliteStore, run: Run, stored: list[NewPayload]) -> None:
    """By the store that wrote them, and by one that only has the file."""
    for each in stored:
        assert store.payload(run.run_id, each.commitment) == each.envelope
    fresh = SqliteStore(store.url)
    assert dict(fresh.payloads(run.run_id)) == {each.commitment: each.envelope for each in stored}
    fresh.close()


def begun(store: SqliteStore, run: Run, *payloads: NewPayload) -> Lease:
    unit, taken = run.unit(payloads=list(payloads))
    done = store.append(unit, None, owner="h|1|x")
    taken(done)
    return done.lease


def test_a_value_whose_commit_failed_is_whole_when_it_is_committed_again(tmp_path: Path) -> None:
    store, run = open_store(tmp_path), Run("r1")
    lease = begun(store, run)
    large = payload(os.urandom(100_000), 1)
    most = store._writer.query("PRAGMA max_page_count")[0][0]
    store._writer.query(f"PRAGMA max_page_count = {store._writer.query('PRAGMA page_count')[0][0]}")
    unit, taken = run.unit(payloads=[large])
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        store.append(unit, lease)
    store._writer.query(f"PRAGMA max_page_count = {most}")
    taken(store.append(unit, lease))
    reads_back(store, run, [large])
    store.close()


class FailingCommit:
    """A cursor whose COMMIT fails, as on a disk that is full."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        if sql == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return self._cursor.execute(sql, *values)

    def __getattr__(self, name: str) -> object:
        return getattr(self._cursor, name)


def fail_to_commit(store: SqliteStore, unit: Unit, lease: Lease | None) -> None:
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(store._writer, "cursor", FailingCommit(store._writer.cursor))
        with pytest.raises(StoreError, match="disk I/O error"):
            store.append(unit, lease, owner="h|1|x")


def test_a_commit_that_fails_at_its_very_end_takes_no_value_with_it(tmp_path: Path) -> None:
    store, run = open_store(tmp_path), Run("r1")
    first, second = payload(TALK + b"a", 1), payload(TALK + b"ab", 2)
    lease = begun(store, run, first)
    unit, taken = run.unit(payloads=[second])
    fail_to_commit(store, unit, lease)
    taken(store.append(unit, lease))
    reads_back(store, run, [first, second])
    third = payload(TALK + b"abc", 3)
    unit, taken = run.unit(payloads=[third])
    taken(store.append(unit, lease))
    assert differences(store) >= 1, "what was committed is built on again"
    reads_back(store, run, [first, second, third])
    store.close()


def test_a_unit_that_is_taken_out_of_its_group_takes_no_value_with_it(tmp_path: Path) -> None:
    store, run, other = open_store(tmp_path), Run("r1"), Run("r2")
    lease, beside = begun(store, run), begun(store, other)
    mine, theirs = payload(TALK + b"mine", 1), payload(TALK + b"theirs", 2)
    refused, _ = run.unit(payloads=[mine], traces=CLASH)
    accepted, taken = other.unit(payloads=[theirs])
    results = store.append_many([(refused, lease, ""), (accepted, beside, "")])
    assert [type(result) for result in results] == [StoreError, Appended]
    assert isinstance(results[1], Appended)
    taken(results[1])
    again, again_taken = run.unit(payloads=[mine])
    (done,) = store.append_many([(again, lease, "")])
    assert isinstance(done, Appended)
    again_taken(done)
    reads_back(store, run, [mine])
    reads_back(store, other, [theirs])
    store.close()


def test_a_run_that_gets_the_number_of_one_that_was_rolled_back_does_not_build_on_its_values(tmp_path: Path) -> None:
    store, lost, run = open_store(tmp_path), Run("lost"), Run("r1")
    secret = payload(TALK + b"what the lost run said", 1)
    unit, _ = lost.unit(payloads=[secret])
    fail_to_commit(store, unit, None)
    value = payload(TALK + b"what this run says", 2)
    begun(store, run, payload(b"small", 3), value)
    reads_back(store, run, [payload(b"small", 3), value])
    store.close()


def test_values_of_one_commit_build_on_each_other(tmp_path: Path) -> None:
    store, run = open_store(tmp_path), Run("r1")
    values = [payload(TALK + b"x" * size, size) for size in range(1, 5)]
    begun(store, run, *values)
    assert differences(store) == 3
    reads_back(store, run, values)
    store.close()


def words(seed: int, count: int) -> bytes:
    chance = random.Random(seed)
    return b" ".join(chance.randbytes(chance.randint(2, 6)).hex().encode() for _ in range(count))


def stored_bytes(store: SqliteStore) -> int:
    return int(store._writer.query("SELECT sum(length(body)) FROM payloads")[0][0])


@pytest.mark.parametrize("shape", ["a clock in front", "the newest first", "only the last ones"])
def test_what_is_in_the_value_before_is_found_wherever_it_stands(tmp_path: Path, shape: str) -> None:
    store, run = open_store(tmp_path), Run("r1")
    said = [words(number, 40) for number in range(100)]
    values = []
    for turn in range(60, 100):
        parts = {
            "a clock in front": [b"it is %d o'clock" % turn, *said[:turn]],
            "the newest first": list(reversed(said[:turn])),
            "only the last ones": said[turn - 50 : turn],
        }[shape]
        values.append(payload(b"{" + b",".join(parts) + b"}", turn))
    lease = begun(store, run, values[0])
    whole = stored_bytes(store)
    for value in values[1:]:
        unit, taken = run.unit(payloads=[value])
        taken(store.append(unit, lease))
    assert differences(store) == 39
    assert stored_bytes(store) < 3 * whole
    reads_back(store, run, values)
    verify_all_packed_as_now(store, run)
    store.close()


def test_other_large_values_do_not_crowd_a_conversation_out(tmp_path: Path) -> None:
    store, run = open_store(tmp_path), Run("r1")
    lease = begun(store, run)
    values, salt = [], 0
    for turn in range(1, 12):
        talks = [b"%d:" % talk + words(talk, 300 + turn) for talk in range(3)]
        for content in (*talks, *(words(1000 * turn + number, 300) for number in range(20))):
            salt += 1
            values.append(payload(content, salt))
            unit, taken = run.unit(payloads=[values[-1]])
            taken(store.append(unit, lease))
    assert differences(store) == 3 * 10
    reads_back(store, run, values)
    store.close()


def verify_all_packed_as_now(store: SqliteStore, run: Run) -> None:
    with open_evidence(store.url) as evidence:
        found, _ = find_run(evidence, run.run_id)
        envelopes = StoredEnvelopes(found)
        assert all(envelopes.get(commitment) for commitment in envelopes.places)
        assert envelopes.repacked == set()


@skill("echo", version="1.0.0", tool_class="read")
async def echo(text: str) -> str:
    return text


def test_a_value_that_was_erased_while_its_run_waited_is_not_built_on(tmp_path: Path) -> None:
    """The process that goes on with the run is the one that remembers the value."""
    runtime = Runtime(str(tmp_path / "store.db"), skills=[echo])
    said = "words that were said " * 200
    with pytest.raises(KeyboardInterrupt), runtime.session() as session:
        assert session.call("echo", {"text": said}).ok
        raise KeyboardInterrupt
    other = SqliteStore(str(tmp_path / "store.db"))
    assert erase(other, session.run_id, "c1", who="ann", reason="asked for") > 0
    other.close()
    with runtime.session(resume=session.run_id) as again:
        again.turn()
        assert again.call("echo", {"text": said + "and more"}).ok
    verified = verify_run(str(tmp_path / "store.db"), session.run_id)
    assert verified.exit_code == 0, verified.report.first_break
    runtime.close()


@skill("noise", version="1.0.0", tool_class="read")
async def noise(n: int) -> dict[str, str]:
    return {"blob": os.urandom(50_000).hex()}


def test_a_session_that_met_a_full_disk_ends_with_all_of_its_values(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")

    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        runtime = Runtime(path, skills=[noise])
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        with runtime.session() as session:
            resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
            with pytest.raises(StoreError):
                for n in range(100):
                    session.call("noise", {"n": n})
                    session.turn()
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            assert session.call("noise", {"n": 1000}).ok
            assert len(session.history()) > 2
        runtime.close()

    assert in_child(fill) == 0
    store = SqliteStore(path)
    run = store.find_run("last")
    store.close()
    assert run.status == "completed"
    verified = verify_run(path, run.run_id)
    assert verified.exit_code == 0, verified.report.first_break


ENDINGS = st.sampled_from(
    ["commit", "commit", "commit", "fails", "refused", "refused in a group", "committed in a group"]
)
STEPS = st.lists(
    st.tuples(st.integers(0, 2), ENDINGS, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400)), max_size=3)),
    min_size=1,
    max_size=14,
)


class Model:
    """Runs with what was committed of each; a run that was rolled back leaves its number to the next."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.runs = [Run("r0"), Run("r1"), Run("r2")]
        self.leases: list[Lease | None] = [None, None, None]
        self.stored: list[list[NewPayload]] = [[], [], []]
        self.salt = 0

    def value(self, talk: int, length: int) -> NewPayload:
        self.salt += 1
        return payload(bytes([talk, self.salt % 3]) + TALK + b"-" * length, self.salt, key=b"")

    def step(self, who: int, ending: str, values: list[NewPayload]) -> None:
        clash = CLASH if ending.startswith("refused") else []
        unit, taken = self.runs[who].unit(payloads=values, traces=clash)
        lease = self.leases[who]
        if ending == "fails":
            fail_to_commit(self.store, unit, lease)
            return
        if "group" in ending:
            (result,) = self.store.append_many([(unit, lease, "h|1|x")])
        else:
            try:
                result = self.store.append(unit, lease, owner="h|1|x")
            except StoreError as refused:
                result = refused
        assert isinstance(result, Exception) == bool(clash)
        if isinstance(result, Appended):
            taken(result)
            self.leases[who] = result.lease
            self.stored[who] += values


@settings(max_examples=120)
@given(STEPS)
def test_every_value_of_every_commit_reads_back_whatever_failed_in_between(
    steps: list[tuple[int, str, list[tuple[int, int]]]],
) -> None:
    with TemporaryDirectory() as folder:
        model = Model(open_store(Path(folder)))
        for who, ending, shapes in steps:
            values = [model.value(*shape) for shape in shapes]
            model.step(who, ending, values)
            if ending in ("fails", "refused", "refused in a group"):
                model.step(who, "commit", values)
        for run, stored in zip(model.runs, model.stored, strict=True):
            if run.bodies:
                reads_back(model.store, run, stored)
        model.store.close()
