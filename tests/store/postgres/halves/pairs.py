"""What reads and then writes: what several processes do at once, and what has to come of it, whichever was stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from reenact.errors import ConcurrentExecution, FundsTaken, KeyTaken, LockAcquireFailed
from reenact.store.base import Archiving, Earmark, Erasing, LateEffect, Lease
from reenact.store.naming import read_lines
from reenact.store.postgres.store import PostgresStore
from tests.store.postgres.halves.crew import Act
from tests.store.units import Run, payload, reservation

DAY, LIMIT, PRICE = "2026-01-01", 7, 3
LAST = 50
"""Links of a chain are looked at behind those that were looked at before."""
NOBODY = "elsewhere|1|1|x"


@dataclass(frozen=True)
class Pair:
    """`act` is called in each process; `before` and `after` in the test, which fails where something is not as it has
    to be, by what came of it in each."""

    act: Act
    after: Callable[[PostgresStore, str, Counter[str]], None]
    before: Callable[[PostgresStore, str], None] = lambda _store, _about: None
    tables: tuple[str, ...] = ()
    """What the halves that one function of the database does write to."""


def begun(store: PostgresStore, name: str, owner: str = NOBODY) -> tuple[Run, Lease]:
    run = Run(name)
    unit, taken = run.unit()
    done = store.append(unit, None, owner=owner)
    taken(done)
    return run, done.lease


def ended(store: PostgresStore, name: str, **parts: object) -> None:
    """A run that is sealed."""
    run, lease = begun(store, name)
    unit, taken = run.unit(sealed=True, status="completed", **parts)  # type: ignore[arg-type]
    taken(store.append(unit, lease))


def rows(store: PostgresStore, sql: str, *values: object) -> list[tuple[object, ...]]:
    return store.database.ask(sql, values)


def one(sql: str) -> Callable[[PostgresStore, str, Counter[str]], None]:
    """Done by one, refused to the others, and there once, as `sql` counts it for what it is about."""

    def after(store: PostgresStore, about: str, came: Counter[str]) -> None:
        assert came == {"done": 1, "refused": came.total() - 1}
        assert rows(store, sql, about) == [(1,)]

    return after


def no_gaps(table: str) -> Callable[[PostgresStore, str, Counter[str]], None]:
    """Done by all; numbers follow each other, and the counter says the last one."""

    def after(store: PostgresStore, _about: str, came: Counter[str]) -> None:
        assert set(came) == {"done"}
        ((count, first, last, value),) = rows(
            store,
            f"SELECT count(*), min(id), max(id), (SELECT value FROM :schema.counters WHERE name = '{table}') "
            f"FROM :schema.{table}",
        )
        assert (first, last, value) == (1, count, count)

    return after


# -- leases ------------------------------------------------------------------------------------------------------------


def acquire(store: PostgresStore, number: int, about: str) -> str:
    try:
        lease = store.acquire(about, f"elsewhere|{number}|1|x")
    except LockAcquireFailed:
        return "refused"
    assert lease.token == 2
    return "done"


def given_back(store: PostgresStore, about: str) -> None:
    store.release(begun(store, about)[1])


def break_lease(store: PostgresStore, number: int, about: str) -> str:
    return "refused" if store.break_lease(about, who=str(number), reason="r") is None else "done"


def broken_once(store: PostgresStore, about: str, came: Counter[str]) -> None:
    assert came == {"done": 1, "refused": came.total() - 1}
    assert len(store.broken_leases(about)) == 1


def append(store: PostgresStore, number: int, about: str) -> str:
    """Under the same lease, as a process does that was copied with all it has."""
    run = Run(about)
    run.bodies.append(next(store.bodies(about)))
    unit, _ = run.unit(note=str(number))
    unit.spent = [(DAY, about, "m", 1)]
    try:
        store.append(unit, Lease(about, NOBODY, 1, 0, kid=store.signing_key.kid, until=1e12))
    except ConcurrentExecution:
        return "refused"
    return "done"


def spent_once(store: PostgresStore, about: str, came: Counter[str]) -> None:
    assert came == {"done": 1, "refused": came.total() - 1}
    assert len(list(store.bodies(about))) == 2
    assert store.spent(DAY, about) == {"m": 1}


def take_over(store: PostgresStore, number: int, about: str) -> str:
    """A run that nobody has renewed: the first writes to it as its holder, the others take it."""
    if number:
        return acquire(store, number, about)
    return append(store, number, about)


def lapsed(store: PostgresStore, about: str) -> None:
    begun(store, about)
    store.database.call("UPDATE :schema.runs SET expires_ms = 1 WHERE run_id = %s", (about,))


def taken_over(store: PostgresStore, about: str, came: Counter[str]) -> None:
    """Whether the holder was before or after whoever took it, what he was told is what happened."""
    takers = came.total() - 1
    commits = len(list(store.bodies(about)))
    assert came in ({"done": 2, "refused": takers - 1}, {"done": 1, "refused": takers})
    assert rows(store, "SELECT token FROM :schema.runs WHERE run_id = %s", about) == [(2,)]
    assert commits == came["done"]


# -- money -------------------------------------------------------------------------------------------------------------


def set_apart(store: PostgresStore, number: int, about: str) -> str:
    run, lease = begun(store, f"{about} {number}", f"elsewhere|{number}|1|x")
    unit, taken = run.unit()
    unit.earmarks = [Earmark(f"{about} {number}", DAY, about, "m", PRICE, LIMIT, None)]
    try:
        taken(store.append(unit, lease))
    except FundsTaken:
        return "refused"
    return "done"


def within_limit(store: PostgresStore, about: str, came: Counter[str]) -> None:
    can = min(LIMIT // PRICE, came.total())
    assert came == Counter({"done": can, "refused": came.total() - can}) + Counter()
    assert store.set_apart(DAY, about) == {"m": PRICE * can}


def spend(store: PostgresStore, number: int, about: str) -> str:
    """What was set apart is spent."""
    run, lease = begun(store, f"{about} {number}")
    unit, taken = run.unit()
    unit.earmarks = [Earmark(f"{about} {number}", DAY, about, "m", PRICE, None, None)]
    taken(store.append(unit, lease))
    unit, _ = run.unit()
    unit.ended, unit.spent = [f"{about} {number}"], [(DAY, about, "m", 1), (DAY, about, "n", 2)]
    store.append(unit, lease)
    return "done"


def all_spent(store: PostgresStore, about: str, came: Counter[str]) -> None:
    assert set(came) == {"done"}
    assert store.spent(DAY, about) == {"m": came.total(), "n": 2 * came.total()}
    assert store.set_apart(DAY, about) == {}


# -- key and value -----------------------------------------------------------------------------------------------------


def count_up(store: PostgresStore, number: int, about: str) -> str:
    values = store.key_values(about, lambda value: value, lambda value: value)
    values.incr("n", "k", 1, idempotency_key=str(number))
    return "done"


def counted(store: PostgresStore, about: str, came: Counter[str]) -> None:
    values = store.key_values(about, lambda value: value, lambda value: value)
    assert (set(came), values.get("n", "k")) == ({"done"}, came.total())


def count_once(store: PostgresStore, _number: int, about: str) -> str:
    values = store.key_values(about, lambda value: value, lambda value: value)
    return str(values.incr("n", "k", 5, idempotency_key="the same"))


def counted_once(store: PostgresStore, about: str, came: Counter[str]) -> None:
    values = store.key_values(about, lambda value: value, lambda value: value)
    assert (set(came), values.get("n", "k")) == ({"5"}, 5)


# -- people and keys ---------------------------------------------------------------------------------------------------


def vote(store: PostgresStore, number: int, about: str) -> str:
    done = store.cast_vote(about, "t", str(number).encode(), settles=True)
    return "done" if done else "refused"


def voted_once(store: PostgresStore, about: str, came: Counter[str]) -> None:
    assert came == {"done": 1, "refused": came.total() - 1}
    assert len(store.pending_votes(about)) == 1
    assert store.find_run(about).status == "pending"


def waiting(store: PostgresStore, about: str) -> None:
    store.release(begun(store, about)[1], "waiting")


def vote_or_seal(store: PostgresStore, number: int, about: str) -> str:
    """The first ends the run, the others vote on it."""
    if number:
        return vote(store, number, about)
    run = Run(about)
    run.bodies.append(next(store.bodies(about)))
    unit, _ = run.unit(sealed=True, status="completed")
    store.append(unit, Lease(about, NOBODY, 1, 0, kid=store.signing_key.kid, until=1e12))
    return "sealed"


def nothing_waits(store: PostgresStore, about: str, came: Counter[str]) -> None:
    assert came["sealed"] == 1
    assert came["done"] <= 1
    assert store.pending_votes(about) == {}
    assert store.find_run(about).status == "completed"


def reserve(store: PostgresStore, number: int, about: str) -> str:
    run, lease = begun(store, f"{about} {number}")
    unit, _ = run.unit(reservations=[reservation(about, f"t{number}")])
    try:
        store.append(unit, lease)
    except KeyTaken:
        return "refused"
    return "done"


def reserved_once(store: PostgresStore, about: str, came: Counter[str]) -> None:
    assert came == {"done": 1, "refused": came.total() - 1}
    record = store.key_record("local", "mail", about)
    assert record is not None
    assert record.state == "reserved"
    keys_are_linked(store)


def reserve_another(store: PostgresStore, number: int, about: str) -> str:
    """Neighbours in the order of keys, each of which is changed with the other."""
    run, lease = begun(store, f"{about} {number}")
    unit, _ = run.unit(reservations=[reservation(f"{about} {number}")])
    store.append(unit, lease)
    return "done"


def all_reserved(store: PostgresStore, about: str, came: Counter[str]) -> None:
    assert set(came) == {"done"}
    found = [store.key_record("local", "mail", f"{about} {number}") for number in range(came.total())]
    assert None not in found
    keys_are_linked(store)


def keys_are_linked(store: PostgresStore) -> None:
    """Each row names the one behind it, and a key of ours vouches for both."""
    for (key,) in rows(store, "SELECT key FROM :schema.idempotency WHERE tool = 'mail'"):
        assert store.key_record("local", "mail", str(key)) is not None
        assert store.key_record("local", "mail", f"{key} ") is None


def begin_session(store: PostgresStore, number: int, about: str) -> str:
    unit, _ = Run(f"{about} {number}").unit()
    assert unit.new_run is not None
    unit.new_run = replace(unit.new_run, session=about)
    try:
        store.append(unit, None, owner=NOBODY)
    except LockAcquireFailed:
        return "refused"
    return "done"


def one_session(store: PostgresStore, about: str, came: Counter[str]) -> None:
    assert came == {"done": 1, "refused": came.total() - 1}
    row = store.open_session("a", about)
    assert row is not None
    assert row.session == about
    assert rows(store, "SELECT count(*) FROM :schema.runs WHERE session = %s", about) == [(1,)]


# -- chains ------------------------------------------------------------------------------------------------------------


def seal(store: PostgresStore, number: int, about: str) -> str:
    ended(store, f"{about} {number}")
    return "done"


def seals_in_a_chain(store: PostgresStore, about: str, came: Counter[str]) -> None:
    no_gaps("seals")(store, about, came)
    assert len(list(store.log.leaves(after=max(0, store.log.rows.seal_count() - LAST)))) > 0, "or one is not the next"


def erase(store: PostgresStore, number: int, about: str) -> str:
    name = f"{about} {number}"
    ended(store, name, payloads=[payload(name.encode()), payload(b"x" + name.encode())])
    gone = frozenset(commitment for commitment, _ in store.payloads(name))
    assert store.erase(Erasing(name, gone, frozenset(), False, "w", "r")) == 2
    return "done"


def archive(store: PostgresStore, number: int, about: str) -> str:
    name = f"{about} {number}"
    ended(store, name, payloads=[payload(name.encode()), payload(b"x" + name.encode())])
    values = dict(store.payloads(name))
    assert store.archive(Archiving(name, frozenset(values), f"{about} bundle", "there", "w", "r")) == 2
    assert store.restore(name, values.items()) == 2
    return "done"


def erasures_in_a_chain(store: PostgresStore, about: str, came: Counter[str]) -> None:
    no_gaps("erasures")(store, about, came)
    before = None
    for body in store.erasures()[-LAST:]:
        found = next(read_lines(body))
        assert before in (None, found["prev"])
        before = found["digest"]


def leave_late(store: PostgresStore, number: int, about: str) -> str:
    store.add_late_effect(about, LateEffect("t", b"the same"))
    store.add_late_effect(about, LateEffect("t", str(number).encode()))
    return "done"


def left_once(store: PostgresStore, about: str, came: Counter[str]) -> None:
    no_gaps("late_effects")(store, about, came)
    found = Counter(late.body for late in store.late_effects(about, "t"))
    assert found == {b"the same": 1, **{str(number).encode(): 1 for number in range(came.total())}}


def some_run(store: PostgresStore, about: str) -> None:
    begun(store, about)


def grow_log(store: PostgresStore, _number: int, _about: str) -> str:
    head = store.log.advance()
    return "done" if head is not None else "nothing"


def unlogged(store: PostgresStore, about: str) -> None:
    """Seals of which nobody has told the log."""
    store._follower.tell = lambda: None  # type: ignore[method-assign]
    for number in range(3):
        ended(store, f"{about} {number}")


def logged_once(store: PostgresStore, _about: str, came: Counter[str]) -> None:
    assert set(came) == {"done"}
    found = store.log.rows
    assert found.size() == found.seal_count()
    heads = list(found.checkpoints())
    assert heads[-1].size == found.size()
    leaves = list(store.log.leaves())
    for head in heads[-3:]:
        assert root(leaves[: head.size]) == head.root == store.log.root_at(head.size)


def root(leaves: list[bytes]) -> bytes:
    """RFC 6962, 2.1"""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\x01" + root(leaves[:half]) + root(leaves[half:])).digest()


PAIRS: Final = {
    "a run is taken": Pair(acquire, one("SELECT token - 1 FROM :schema.runs WHERE run_id = %s"), given_back, ("runs",)),
    "a lease is broken": Pair(break_lease, broken_once, some_run, ("runs",)),
    "a commit is appended": Pair(append, spent_once, some_run, ("commits", "spending")),
    "a run is taken over": Pair(take_over, taken_over, lapsed, ("commits",)),
    "money is set apart": Pair(set_apart, within_limit, tables=("limits", "earmarks")),
    "money is spent": Pair(spend, all_spent, tables=("spending",)),
    "a value is counted up": Pair(count_up, counted, tables=("kv", "kv_writes")),
    "a value is counted up once": Pair(count_once, counted_once, tables=("kv", "kv_writes")),
    "somebody votes": Pair(vote, voted_once, waiting, ("ballots", "runs")),
    "somebody votes while a run ends": Pair(vote_or_seal, nothing_waits, some_run, ("seals", "commits")),
    "a key is reserved": Pair(reserve, reserved_once, tables=("idempotency",)),
    "keys beside each other are reserved": Pair(reserve_another, all_reserved, tables=("idempotency",)),
    "a session begins": Pair(begin_session, one_session, tables=("idempotency", "runs")),
    "runs are sealed": Pair(seal, seals_in_a_chain, tables=("seals", "counters")),
    "values are erased": Pair(erase, erasures_in_a_chain, tables=("erasures", "counters")),
    "values are archived": Pair(archive, erasures_in_a_chain, tables=("archived", "erasures")),
    "results are left": Pair(leave_late, left_once, some_run, ("late_effects", "counters")),
    "the log grows": Pair(grow_log, logged_once, unlogged, ("log_nodes", "log_checkpoints")),
}
