"""A store, leases and keys against a model that is simple enough to be right."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reenact.errors import ConcurrentExecution, KeyTaken, LockAcquireFailed
from reenact.store.base import LEASE_MS, Appended, LateEffect, Lease, NewPayload, Store, Unit
from reenact.values.clock import FixedClock
from tests.store.units import Run, completion, open_store, payload, reservation

EXECUTORS = ("ann", "bob", "cyn")
KEYS = ("k1", "k2")
RUNS = 4


@dataclass
class Known:
    """What the model knows of one run."""

    run: Run
    token: int
    owner: str | None
    expires: int
    status: str = "running"
    sealed: bool = False
    payloads: dict[str, bytes] = field(default_factory=dict)
    late: list[bytes] = field(default_factory=list)


@dataclass(frozen=True)
class Proposed:
    """A commit; when it was taken `accept` tells the model and `taken` the run. `key` is the one that it reserves."""

    unit: Unit
    taken: Callable[[Appended], None]
    accept: Callable[[], None]
    key: str | None


class StoreMachine(RuleBasedStateMachine):
    """Three executors, four runs, two keys. Each remembers the last lease that it had, however old."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="reenact-stateful-"))
        self.clock = FixedClock()
        self.store = self.opened()
        self.runs: dict[str, Known] = {}
        self.leases: dict[tuple[str, str], Lease] = {}
        self.keys: dict[str, tuple[str, str]] = {}
        """key → (trace, state)"""
        self.seen: dict[str, tuple[object, int]] = {}
        """run → the lease as the store last saw it, and since when"""
        self.count = 0

    def opened(self) -> Store:
        return open_store(self.folder, self.clock)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    # -- writing ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.runs) < RUNS)
    @rule(executor=st.sampled_from(EXECUTORS))
    def begin(self, executor: str) -> None:
        run = Run(f"run-{len(self.runs)}")
        unit, taken = run.unit()
        done = self.store.append(unit, None, owner=executor)
        taken(done)
        lease = done.lease
        self.runs[run.run_id] = Known(run, 1, executor, self.now + LEASE_MS)
        self.leases[executor, run.run_id] = lease
        self.unrenewed_ms(self.runs[run.run_id])
        assert (lease.token, lease.expires_ms) == (1, self.now + LEASE_MS)

    def unit_for(self, known: Known, kind: str) -> Proposed:
        self.count += 1
        payloads: list[NewPayload] = []
        key = next((name for name in KEYS if name in kind), None)
        trace = f"trace-{self.count}"
        holder = self.keys[key][0] if key in self.keys and "stale" not in kind else "somebody else"
        if "payload" in kind:
            payloads = [payload(b"content %d " % (self.count % 3) * 40, self.count), payload(b"small", self.count + 1)]
        n = len(known.run.bodies) + {"gap": 2, "again": 0}.get(kind, 1)
        unit, taken = known.run.unit(
            n=n,
            new=False,
            payloads=payloads,
            reservations=[reservation(key, trace)] if key and "reserve" in kind else [],
            completions=[completion(key, holder, succeeded="good" in kind)] if key and "complete" in kind else [],
            sealed="seal" in kind,
            status="completed" if "seal" in kind else None,
        )

        def accept() -> None:
            known.payloads |= {each.commitment: each.envelope for each in payloads}
            if key and "reserve" in kind:
                self.keys[key] = (trace, "reserved")
            if key and "complete" in kind and key in self.keys and "stale" not in kind:
                self.keys[key] = (self.keys[key][0], "completed" if "good" in kind else "released")
            if "seal" in kind:
                known.sealed, known.status = True, "completed"

        return Proposed(unit, taken, accept, key if "reserve" in kind else None)

    def expected(self, known: Known, lease: Lease, kind: str, key: str | None) -> type:
        if lease.token != known.token or kind in ("gap", "again"):
            return ConcurrentExecution
        if key is not None and self.keys.get(key, ("", "released"))[1] != "released":
            return KeyTaken
        return Appended

    KINDS = st.sampled_from(
        [
            "plain",
            "payload",
            "gap",
            "again",
            "reserve k1",
            "reserve k2",
            "complete k1 good",
            "complete k2 bad",
            "complete k1 bad stale",
            "seal",
        ]
    )

    def held(self) -> list[tuple[str, str]]:
        return sorted(place for place in self.leases if not self.runs[place[1]].sealed)

    @precondition(lambda self: self.held())
    @rule(data=st.data(), kind=KINDS)
    def append(self, data: st.DataObject, kind: str) -> None:
        place = data.draw(st.sampled_from(self.held()))
        known, lease = self.runs[place[1]], self.leases[place]
        proposed = self.unit_for(known, kind)
        expected = self.expected(known, lease, kind, proposed.key)
        try:
            result: object = self.store.append(proposed.unit, lease, owner=place[0])
        except (ConcurrentExecution, KeyTaken) as refused:
            result = refused
        assert type(result) is expected
        if isinstance(result, Appended):
            proposed.accept()
            proposed.taken(result)

    @precondition(lambda self: len({run for _, run in self.held()}) > 1)
    @rule(data=st.data(), kinds=st.lists(KINDS, min_size=2, max_size=4))
    def append_many(self, data: st.DataObject, kinds: list[str]) -> None:
        """One transaction for several runs: what is refused is taken out, the others stay."""
        by_run = {run: executor for executor, run in self.held()}
        chosen = data.draw(st.permutations(sorted(by_run)))[: len(kinds)]
        units, expected, taken = [], [], []
        for run_id, kind in zip(chosen, kinds, strict=False):
            known, lease = self.runs[run_id], self.leases[by_run[run_id], run_id]
            proposed = self.unit_for(known, kind)
            units.append((proposed.unit, lease, by_run[run_id]))
            expected.append(self.expected(known, lease, kind, proposed.key))
            taken.append(proposed.taken)
            if expected[-1] is Appended:
                proposed.accept()  # the next one of the group sees its key
        results = self.store.append_many(units)
        assert [type(result) for result in results] == expected
        for take, result in zip(taken, results, strict=True):
            if isinstance(result, Appended):
                take(result)

    # -- leases ----------------------------------------------------------------------------------------------------

    def unrenewed_ms(self, known: Known) -> int:
        """For how long the store, as it is open now, has seen the lease as it stands."""
        lease = (known.owner, known.token, known.expires)
        seen = self.seen.get(known.run.run_id)
        if seen is None or seen[0] != lease:
            seen = self.seen[known.run.run_id] = (lease, self.now)
        return self.now - seen[1]

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), executor=st.sampled_from(EXECUTORS))
    def acquire(self, data: st.DataObject, executor: str) -> None:
        known = self.runs[data.draw(st.sampled_from(sorted(self.runs)))]
        free = known.owner is None or self.unrenewed_ms(known) >= LEASE_MS
        try:
            lease = self.store.acquire(known.run.run_id, executor)
        except LockAcquireFailed:
            assert not free
            return
        assert free
        known.token, known.owner, known.expires = known.token + 1, executor, self.now + LEASE_MS
        assert (lease.token, lease.owner, lease.expires_ms) == (known.token, executor, known.expires)
        self.leases[executor, known.run.run_id] = lease
        self.unrenewed_ms(known)

    @precondition(lambda self: self.leases)
    @rule(executor=st.sampled_from(EXECUTORS))
    def renew(self, executor: str) -> None:
        mine = [lease for (who, _), lease in sorted(self.leases.items()) if who == executor]
        kept = {lease.run_id: lease for lease in self.store.renew(mine)}
        for lease in mine:
            known = self.runs[lease.run_id]
            holds = (known.token, known.owner) == (lease.token, executor)
            assert (lease.run_id in kept) == holds
            if holds:
                end = self.now + LEASE_MS
                known.expires = known.expires + 1 if end <= known.expires < end + 1000 else end
                assert kept[lease.run_id].expires_ms == known.expires
                self.leases[executor, lease.run_id] = kept[lease.run_id]

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), status=st.sampled_from([None, "waiting", "held"]))
    def release(self, data: st.DataObject, status: str | None) -> None:
        place = data.draw(st.sampled_from(sorted(self.leases)))
        known, lease = self.runs[place[1]], self.leases[place]
        self.store.release(lease, status)  # type: ignore[arg-type]
        if (known.token, known.owner) == (lease.token, place[0]):
            known.owner, known.expires = None, 0
            known.status = status or known.status

    @rule(seconds=st.sampled_from([1, LEASE_MS // 2000, LEASE_MS // 1000, 3600]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    # -- everything else -------------------------------------------------------------------------------------------

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def come_late(self, data: st.DataObject) -> None:
        known = self.runs[data.draw(st.sampled_from(sorted(self.runs)))]
        self.count += 1
        known.late.append(b"%d" % self.count)
        self.store.add_late_effect(known.run.run_id, LateEffect("trace", known.late[-1]))

    @rule()
    def open_again(self) -> None:
        """What is in the file is all there is."""
        self.store.close()
        self.store = self.opened()
        self.seen.clear()

    @invariant()
    def journals_are_what_was_taken(self) -> None:
        for run_id, known in getattr(self, "runs", {}).items():
            assert list(self.store.bodies(run_id)) == known.run.bodies
            assert dict(self.store.payloads(run_id)) == known.payloads
            assert [late.body for late in self.store.late_effects(run_id, "trace")] == known.late
            row = self.store.find_run(run_id)
            assert (row.status, row.commits) == (known.status, len(known.run.bodies))

    @invariant()
    def keys_are_what_was_reserved_and_completed(self) -> None:
        for key in KEYS:
            record = self.store.key_record("local", "mail", key) if hasattr(self, "store") else None
            found = None if record is None else (record.trace_id, record.state)
            assert found == getattr(self, "keys", {}).get(key)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=40)
