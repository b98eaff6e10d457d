"""Whatever is written to a store, one after the other, and what has to come of it."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from reenact.contracts.records import RunStatus
from reenact.errors import LockAcquireFailed, StoreUnavailable
from reenact.store.base import Appended, Archiving, Earmark, Erasing, LateEffect, Lease, NewTrace, Unit
from reenact.store.checks.derived import seals
from reenact.store.checks.rebuild import Rebuilt
from reenact.store.evidence import find_run
from reenact.store.log.rows import Peer
from reenact.store.postgres.store import PostgresStore
from tests.store.units import Run, completion, payload, reservation

DAY, AGENT = "2026-01-01", "a"
LOOKS = 50
SAID = {"log_cosignatures": "witness", "log_timestamps": "place", "log_contradictions": "source"}


class Work:
    """Whatever is written to a store, one after the other, and what came of it."""

    def __init__(self, store: PostgresStore, name: str) -> None:
        self.store = store
        self.name = name
        self.day = f"{DAY} {name}"
        self.part = ""
        """What is under way."""
        self.run, self.other, self.session = Run(f"{name}-run"), Run(f"{name}-other"), Run(f"{name}-session")

    def all(self) -> None:
        self.all_but_looking()
        self.log()

    def all_but_looking(self) -> None:
        self.part = "beginning"
        lease = self.begin(self.run)
        self.part = "values"
        values = [payload(b"x" * 3000), payload(b"y" * 50)]
        lease = self.appended(self.run, lease, payloads=values, traces=[NewTrace("t", 0, "s")])
        for part in (self.money, self.keys, self.together, self.beside):
            self.part = part.__name__
            part(lease)
        self.part = "leases"
        lease = self.leases(lease)
        self.part = "sealed"
        self.sealed(lease)
        for rest in (self.archived, self.erased, self.peers):
            self.part = rest.__name__
            rest()

    def append(self, run: Run, lease: Lease | None, unit: Unit) -> Appended:
        done = self.store.append(unit, lease, owner=self.name)
        run.bodies.append(unit.body if done.seal is None else self.store.body(run.run_id, unit.n) or b"")
        assert done.head == run.head
        return done

    def begin(self, run: Run, *, session: str | None = None) -> Lease:
        unit, _ = run.unit()
        assert unit.new_run is not None
        unit.new_run = replace(unit.new_run, session=session)
        return self.append(run, None, unit).lease

    def appended(self, run: Run, lease: Lease, *, status: RunStatus | None = None, **parts: object) -> Lease:
        unit, _ = run.unit(status=status, **parts)  # type: ignore[arg-type]
        return self.append(run, lease, unit).lease

    def money(self, lease: Lease) -> None:
        unit, _ = self.run.unit()
        unit.earmarks = [Earmark("t", self.day, AGENT, "m", 5, 10, None)]
        self.append(self.run, lease, unit)
        assert self.store.set_apart(self.day, AGENT) == {"m": 5}
        unit, _ = self.run.unit()
        unit.ended, unit.spent = ["t"], [(self.day, AGENT, "m", 3), (self.day, AGENT, "m", 1)]
        self.append(self.run, lease, unit)
        assert (self.store.spent(self.day, AGENT), self.store.set_apart(self.day, AGENT)) == ({"m": 4}, {})

    def keys(self, lease: Lease) -> None:
        key, value = f"k {self.name}", payload(b"".join(sha256(bytes([at])).digest() for at in range(80)))
        self.appended(self.run, lease, payloads=[value], reservations=[reservation(key, "t")])
        assert self.store.payload(self.run.run_id, value.commitment) == value.envelope
        self.appended(self.run, lease, completions=[completion(key, "t")])
        record = self.store.key_record("local", "mail", key)
        assert record is not None
        assert (record.state, record.run_id) == ("completed", self.run.run_id)
        self.begin(self.session, session=self.name)
        row = self.store.open_session(AGENT, self.name)
        assert row is not None
        assert row.run_id == self.session.run_id

    def together(self, lease: Lease) -> None:
        other = self.begin(self.other)
        units = [self.run.unit()[0], self.other.unit()[0], self.other.unit(n=9, new=False)[0]]
        done = self.store.append_many([(units[0], lease, ""), (units[1], other, ""), (units[2], other, "")])
        assert [type(each).__name__ for each in done] == ["Appended", "Appended", "ConcurrentExecution"]
        self.run.bodies.append(units[0].body)
        self.other.bodies.append(units[1].body)
        self.store.release(other, "waiting")

    def beside(self, lease: Lease) -> None:
        self.store.request_cancel(self.run.run_id, "{}")
        assert self.store.cast_vote(self.run.run_id, "t", b"yes", settles=False)
        assert not self.store.cast_vote(self.run.run_id, "t", b"no", settles=False)
        self.store.add_late_effect(self.run.run_id, LateEffect("t", b"{}"))
        assert len(self.store.late_effects(self.run.run_id, "t")) == 1
        values = self.store.key_values(self.name, lambda value: value, lambda value: value)
        for by in (2, 3):
            values.incr("n", "k", by, idempotency_key=str(by))
        assert values.get("n", "k") == 5
        assert values.delete("n", "k", idempotency_key="d")

    def leases(self, lease: Lease) -> Lease:
        (renewed,) = self.store.renew([lease])
        assert renewed.cancel == "{}"
        self.store.release(renewed)
        taken = self.store.acquire(self.run.run_id, "b")
        assert taken.token == lease.token + 1
        with pytest.raises(LockAcquireFailed):
            self.store.acquire(self.run.run_id, "c")
        broken = self.store.break_lease(self.run.run_id, who="w", reason="r")
        assert broken is not None
        assert broken.token == taken.token
        assert len(self.store.broken_leases(self.run.run_id)) == 1
        return self.store.acquire(self.run.run_id, "c")

    def sealed(self, lease: Lease) -> None:
        unit, _ = self.run.unit(sealed=True, status="completed")
        self.append(self.run, lease, unit)
        assert list(self.store.bodies(self.run.run_id)) == self.run.bodies
        assert self.store.pending_votes(self.run.run_id) == {}

    def archived(self) -> None:
        """All of it goes to a bundle, and half of it comes back."""
        values = dict(self.store.payloads(self.run.run_id))
        moved = Archiving(self.run.run_id, frozenset(values), f"bundle {self.name}", "there", "w", "r")
        assert self.store.archive(moved) == len(values) == 3
        assert dict(self.store.payloads(self.run.run_id)) == {}
        back = dict(list(values.items())[:1])
        assert self.store.restore(self.run.run_id, back.items()) == 1
        assert dict(self.store.payloads(self.run.run_id)) == back
        assert len(self.store.archived_values(self.run.run_id)) == 2

    def peers(self) -> None:
        """Whom the log is shown to, and what they said."""
        rows, peer = self.store.log.rows, Peer(f"w {self.name}", "witness", "https://w.invalid")
        for each in (peer, peer._replace(seen=7)):
            rows.put_peer(each)
            assert rows.peer(peer.name) == each
        for _ in range(2):
            rows.add_cosignature(1, self.name, self.name.encode())
            rows.add_timestamp(1, self.name, self.name.encode())
            rows.add_contradiction(self.name, self.name.encode())
        for table, column in SAID.items():
            sql = f"SELECT count(*) FROM :schema.{table} WHERE {column} = %s"
            assert self.store.database.ask(sql, (self.name,)) == [(1,)], table
        assert rows.drop_peer(peer.name)
        assert rows.peer(peer.name) is None

    def erased(self) -> None:
        gone = frozenset(commitment for commitment, _ in self.store.payloads(self.run.run_id))
        gone |= frozenset(self.store.archived_values(self.run.run_id))
        assert self.store.erase(Erasing(self.run.run_id, gone, frozenset({"t"}), True, "w", "r")) == 3
        assert sum(self.run.run_id.encode() in record for record in self.store.erasures()) == 6
        assert self.store.late_effects(self.run.run_id, "t") == []

    def log(self) -> None:
        self.part = "log"
        rows = self.store.log.rows
        seals_before = rows.seal_count()
        self.store.log.advance()
        assert rows.size() >= seals_before
        for _ in range(LOOKS):
            try:
                return self.look()
            except StoreUnavailable:  # a snapshot goes with its connection: whoever looks does so again
                continue
        raise AssertionError

    def look(self) -> None:
        """The seals are in one chain."""
        with self.store.evidence() as evidence:
            run, _ = find_run(evidence, self.run.run_id)
            rebuilt = Rebuilt()
            for row in run.commits():
                rebuilt.take(row.n, row.body or b"")
            assert seals(evidence, run, rebuilt) == []
