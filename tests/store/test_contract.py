"""What a store must do, one promise at a time, on every back-end."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from reenact.errors import ConcurrentExecution, KeyTaken, LockAcquireFailed, RunNotFound, StoreError, UsageError
from reenact.journal.chain import sha
from reenact.store.base import LEASE_MS, Appended, LateEffect, Lease, NewTrace, Store
from reenact.store.evidence import find_run
from reenact.store.owner import owner_is_gone, owner_name, process_started
from reenact.values.clock import FixedClock
from reenact.values.digest import ZERO_DIGEST
from tests.crash.harness import in_child
from tests.store.backends import EVIDENCE, Backend
from tests.store.units import Run, completion, payload, reservation


def begin(store: Store, run_id: str = "run-1", owner: str = "a") -> tuple[Run, Lease]:
    run = Run(run_id)
    unit, taken = run.unit()
    done = store.append(unit, None, owner=owner)
    taken(done)
    return run, done.lease


def append(store: Store, run: Run, lease: Lease, **parts: object) -> Lease:
    unit, taken = run.unit(**parts)  # type: ignore[arg-type]
    done = store.append(unit, lease)
    taken(done)
    return done.lease


def test_what_was_appended_is_given_back_byte_by_byte_after_opening_again(durable: Backend) -> None:
    store = durable.open()
    run, lease = begin(store)
    for number in range(70):  # more than one batch of the reader
        append(store, run, lease, note=str(number))
    store.close()
    again = durable.open()
    assert list(again.bodies(run.run_id)) == run.bodies
    assert list(again.bodies(run.run_id, after=69)) == run.bodies[69:]
    assert [again.body(run.run_id, n) for n in (1, 71, 72)] == [run.bodies[0], run.bodies[70], None]
    assert again.find_run("run").commits == 71
    again.close()


def test_a_commit_is_durable_when_append_returns(durable: Backend) -> None:
    """The process dies at once; another one reads what it wrote."""

    def write_and_die() -> None:
        begin(durable.open())
        os.kill(os.getpid(), 9)

    assert in_child(write_and_die) == 9
    assert len(list(durable.open().bodies("run-1"))) == 1


@pytest.mark.parametrize("n", [1, 2, 4, 9])
def test_a_commit_that_is_not_the_next_is_refused_and_nothing_of_it_is_written(store: Store, n: int) -> None:
    run, lease = begin(store)
    append(store, run, lease)
    unit, _ = run.unit(n=n, new=False, payloads=[payload(b"lost")], reservations=[reservation("k")])
    with pytest.raises(ConcurrentExecution):
        store.append(unit, lease)
    assert list(store.bodies(run.run_id)) == run.bodies
    assert list(store.payloads(run.run_id)) == []
    assert store.key_record("local", "mail", "k") is None


def test_an_append_behind_a_taken_lease_is_refused(store: Store, clock: FixedClock) -> None:
    run, old = begin(store)
    clock.advance(LEASE_MS / 1000)
    new = store.acquire(run.run_id, "b")
    with pytest.raises(ConcurrentExecution) as refused:
        append(store, run, old)
    assert refused.value.code == "STATE_CONCURRENT_EXECUTION"
    append(store, run, new)
    assert list(store.bodies(run.run_id)) == run.bodies


def test_a_run_id_is_used_once(store: Store) -> None:
    begin(store)
    with pytest.raises(UsageError, match="run-1"):
        begin(store)


def test_a_refused_unit_is_taken_out_of_its_group_and_the_others_are_kept(store: Store, clock: FixedClock) -> None:
    first, lease_1 = begin(store, "run-1")
    second, lease_2 = begin(store, "run-2")
    third, lease_3 = begin(store, "run-3")
    clock.advance(LEASE_MS / 1000)
    store.acquire("run-2", "b")
    units = [(run.unit(note="group"), lease) for run, lease in ((first, lease_1), (second, lease_2), (third, lease_3))]
    again = Run("run-1")
    units.append((again.unit(), None))  # type: ignore[arg-type]
    units.append((third.unit(n=7, new=False), lease_3))
    results = store.append_many([(unit, lease, "a") for (unit, _), lease in units])
    kinds = [Appended, ConcurrentExecution, Appended, UsageError, ConcurrentExecution]
    assert [type(result) for result in results] == kinds
    for ((_, taken), _), result in zip(units, results, strict=True):
        if isinstance(result, Appended):
            taken(result)
    for run in (first, second, third):
        assert list(store.bodies(run.run_id)) == run.bodies


def test_each_seal_of_a_group_names_the_one_before_it_and_never_one_that_was_refused(store: Store) -> None:
    runs = [begin(store, f"run-{number}") for number in range(4)]
    units = [run.unit(n=9 if index == 1 else None, new=False, sealed=True) for index, (run, _) in enumerate(runs)]
    results = store.append_many([(unit, lease, "a") for (unit, _), (_, lease) in zip(units, runs, strict=True)])
    assert [type(result) for result in results] == [Appended, ConcurrentExecution, Appended, Appended]
    last = ZERO_DIGEST
    for (run, _), (_, taken), result in zip(runs, units, results, strict=True):
        if isinstance(result, Appended):
            taken(result)
            assert result.seal is not None
            assert result.head == run.head
            assert (result.seal.prev_store_seal, result.seal.commits) == (last, 2)
            assert result.seal.run_head == sha(run.bodies[-1].partition(b'{"kind":"seal"')[0])
            assert list(store.bodies(run.run_id)) == run.bodies
            last = str(result.seal.seal_digest)


def test_a_payload_that_a_later_commit_names_again_is_found_near_that_one(store: Store) -> None:
    run, lease = begin(store)
    kept, gone = payload(b"kept", 1), payload(b"gone", 2)
    append(store, run, lease, payloads=[kept])
    unit, taken = run.unit()
    unit.shared = [(kept.commitment, 2), (gone.commitment, 2)]
    taken(store.append(unit, lease))
    with store.evidence() as evidence:
        shared = find_run(evidence, run.run_id)[0].shared_payloads()
    assert [row.commitment for row in shared] == [bytes.fromhex(kept.commitment)]
    assert store.payload(run.run_id, kept.commitment, near=3) == kept.envelope


def test_more_payloads_than_a_commit_can_number_are_refused(store: Store) -> None:
    run, lease = begin(store)
    with pytest.raises(StoreError, match="payloads"):
        append(store, run, lease, payloads=[payload(b"%d" % number) for number in range(4096)])
    append(store, run, lease, payloads=[payload(b"%d" % number) for number in range(4095)])
    assert len(list(store.payloads(run.run_id))) == 4095


@pytest.mark.parametrize("table", EVIDENCE)
def test_the_database_itself_refuses_to_change_evidence(store: Store, backend: Backend, table: str) -> None:
    begin(store)
    assert store.signing_key.kid
    store.add_late_effect("run-1", LateEffect("t", b"{}"))
    backend.put_erasure(store, "run-1", b"\0")
    for change in (backend.update, backend.delete):
        with pytest.raises(backend.refusal, match="append-only"):
            change(store, table)


def test_payloads_may_be_deleted_and_never_changed(store: Store, backend: Backend) -> None:
    run, lease = begin(store)
    append(store, run, lease, payloads=[payload(b"x")])
    with pytest.raises(backend.refusal):
        backend.update(store, "payloads")
    backend.delete(store, "payloads")
    assert list(store.payloads("run-1")) == []


# -- leases --------------------------------------------------------------------------------------------------------


def test_a_lease_is_not_given_twice_and_a_failed_try_leaves_the_holder_alone(store: Store) -> None:
    run, lease = begin(store)
    with pytest.raises(LockAcquireFailed) as refused:
        store.acquire(run.run_id, "b")
    assert refused.value.code == "STATE_LOCK_ACQUIRE_FAILED"
    append(store, run, lease)
    assert store.renew([lease])[0].token == lease.token


def test_a_heartbeat_keeps_a_lease_and_a_lapsed_one_can_still_be_renewed_until_it_is_taken(
    store: Store, clock: FixedClock
) -> None:
    run, lease = begin(store)
    for _ in range(5):
        clock.advance(LEASE_MS / 1000 - 1)
        (lease,) = store.renew([lease])
    clock.advance(LEASE_MS / 1000 + 1)
    (lease,) = store.renew([lease])
    with pytest.raises(LockAcquireFailed):
        store.acquire(run.run_id, "b")
    clock.advance(LEASE_MS / 1000)
    store.acquire(run.run_id, "b")
    assert store.renew([lease]) == []


def test_only_the_owner_releases(store: Store, clock: FixedClock) -> None:
    run, old = begin(store)
    clock.advance(LEASE_MS / 1000)
    new = store.acquire(run.run_id, "b")
    store.release(old, "failed")
    assert store.find_run("run-1").status == "running"
    with pytest.raises(LockAcquireFailed):
        store.acquire(run.run_id, "c")
    store.release(new, "waiting")
    assert store.find_run("run-1").status == "waiting"
    assert store.acquire(run.run_id, "c").token == new.token + 1


def test_a_dead_owner_on_this_host_counts_as_lapsed_at_once(durable: Backend) -> None:
    def begin_and_die() -> None:
        begin(durable.open(FixedClock()), owner=owner_name("x"))
        os.kill(os.getpid(), 9)

    assert in_child(begin_and_die) == 9
    store = durable.open(FixedClock())
    assert store.unattended() == {"run-1"}
    assert store.acquire("run-1", "b").token == 2
    store.close()


def test_a_run_is_unattended_while_nobody_holds_it_and_open_until_it_ends(store: Store, clock: FixedClock) -> None:
    run, lease = begin(store, owner="somebody")
    row = store.open_run("run-1")
    assert row is not None
    assert (row.kind, row.status, row.owner, row.expires_ms) == ("plan", "running", "somebody", lease.expires_ms)
    assert store.unattended() == frozenset()
    clock.advance(LEASE_MS / 1000)
    assert store.unattended() == {"run-1"}
    lease = store.acquire("run-1", "b")
    append(store, run, lease, sealed=True, status="completed")
    store.release(lease)
    assert store.unattended() == frozenset()
    assert store.open_run("run-1") is None
    assert store.open_run("run-2") is None


def test_an_owner_is_gone_only_when_it_surely_is() -> None:
    alive = owner_name("nonce")
    host, pid, started, nonce = alive.split("|")
    assert not owner_is_gone(alive)
    assert owner_is_gone(f"{host}|{pid}|1{started}|{nonce}")  # the number was given to another process since
    assert not owner_is_gone(f"elsewhere|{pid}|1{started}|{nonce}")
    assert not owner_is_gone("somebody")
    assert process_started(2**22 + 1) is None


def test_a_number_of_another_container_says_nothing_about_processes_here(monkeypatch: pytest.MonkeyPatch) -> None:
    here = "pid:[4026531836]"
    monkeypatch.setattr(Path, "readlink", lambda _: Path(here))
    host, pid, started, nonce = owner_name("nonce").split("|")
    gone = f"{host}|{pid}|1{started}|{nonce}"
    assert (host, owner_is_gone(gone)) == (platform.node(), True)

    here = "pid:[4026532273]"
    assert not owner_is_gone(gone)
    assert owner_name("nonce").startswith(f"{platform.node()}/4026532273|")


def test_a_process_that_is_only_hidden_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    host, _, started, nonce = owner_name("nonce").split("|")
    absent = f"{host}|{2**22 + 1}|{started}|{nonce}"
    assert owner_is_gone(absent)

    def of_another_user(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", of_another_user)
    assert not owner_is_gone(absent)


# -- keys, payloads, late effects ----------------------------------------------------------------------------------


def test_a_key_is_reserved_once_completed_once_and_free_again_after_a_failure(store: Store) -> None:
    first, lease_1 = begin(store, "run-1")
    second, lease_2 = begin(store, "run-2")
    append(store, first, lease_1, reservations=[reservation("k", "t1")])
    with pytest.raises(KeyTaken):
        append(store, second, lease_2, reservations=[reservation("k", "t2")])
    append(store, second, lease_2, completions=[completion("k", "t2", succeeded=False)])
    record = store.key_record("local", "mail", "k")
    assert record is not None
    assert record.state == "reserved", "only the call that holds it can let it go"
    append(store, first, lease_1, completions=[completion("k", "t1", succeeded=False)])
    append(store, second, lease_2, reservations=[reservation("k", "t2")])
    record = store.key_record("local", "mail", "k")
    assert record is not None
    assert (record.trace_id, record.run_id, record.state) == ("t2", "run-2", "reserved")
    append(store, second, lease_2, completions=[completion("k", "t2")])
    with pytest.raises(KeyTaken):
        append(store, first, lease_1, reservations=[reservation("k", "t3")])


def test_a_key_in_doubt_goes_only_to_a_call_that_follows_the_one_in_doubt(store: Store) -> None:
    first, lease_1 = begin(store, "run-1")
    second, lease_2 = begin(store, "run-2")
    append(store, first, lease_1, reservations=[reservation("k", "t1")])
    append(store, first, lease_1, completions=[replace(completion("k", "t1"), state="in_doubt")])
    for after in (None, "t0"):
        with pytest.raises(KeyTaken):
            append(store, second, lease_2, reservations=[replace(reservation("k", "t2"), after=after)])
    append(store, second, lease_2, reservations=[replace(reservation("k", "t2"), after="t1")])
    record = store.key_record("local", "mail", "k")
    assert record is not None
    assert (record.trace_id, record.state) == ("t2", "reserved")
    with pytest.raises(KeyTaken):
        append(store, first, lease_1, reservations=[replace(reservation("k", "t3"), after="t1")])


def test_a_request_to_cancel_is_heard_by_whoever_takes_or_renews_the_lease(store: Store) -> None:
    run, lease = begin(store, "run-1")
    assert store.cancel_request("run-1") is None
    store.request_cancel("run-1", "{}")
    assert store.cancel_request("run-1") == "{}"
    (renewed,) = store.renew([lease])
    assert renewed.cancel == "{}"
    store.release(renewed)
    assert store.acquire(run.run_id, "another").cancel == "{}"


def test_a_unit_whose_key_is_taken_is_refused_alone(store: Store) -> None:
    runs = [begin(store, f"run-{number}") for number in range(3)]
    units = [run.unit(reservations=[reservation("k", run.run_id)]) for run, _ in runs]
    results = store.append_many([(unit, lease, "a") for (unit, _), (_, lease) in zip(units, runs, strict=True)])
    assert [type(result) for result in results] == [Appended, KeyTaken, KeyTaken]


def test_large_content_is_found_again_and_every_envelope_is_given_back(store: Store) -> None:
    run, lease = begin(store)
    small, large = payload(b"small", key=b"s" * 16), payload(b"large" * 100, key=b"l" * 16)
    append(store, run, lease, payloads=[small, large])
    assert store.find_content(run.run_id, b"s" * 16) is None
    found = store.find_content(run.run_id, b"l" * 16)
    assert found == (large.commitment, 2)
    for kept in (small, large):
        for near in (None, 1, 2, 3):
            assert store.payload(run.run_id, kept.commitment, near=near) == kept.envelope
    assert dict(store.payloads(run.run_id)) == {kept.commitment: kept.envelope for kept in (small, large)}
    assert store.payload(run.run_id, "00" * 32) is None


def test_a_ballot_needs_no_fence_is_cast_once_and_goes_with_the_seal(store: Store) -> None:
    run, lease = begin(store)
    append(store, run, lease, status="waiting")
    assert store.cast_vote("run-1", "t", b"yes", settles=False)
    assert not store.cast_vote("run-1", "t", b"no", settles=False)
    assert store.pending_votes("run-1") == {"t": b"yes"}
    assert store.pending_votes("run-2") == {}
    assert store.find_run("run-1").status == "waiting"
    assert store.cast_vote("run-1", "last", b"yes", settles=True)
    assert store.find_run("run-1").status == "pending"
    append(store, run, lease, sealed=True, status="completed")
    assert store.pending_votes("run-1") == {}
    assert not store.cast_vote("run-1", "u", b"yes", settles=False)
    with pytest.raises(RunNotFound):
        store.cast_vote("run-3", "t", b"yes", settles=False)


def test_late_effects_need_no_fence_and_keep_their_order(store: Store, clock: FixedClock) -> None:
    begin(store)
    clock.advance(LEASE_MS / 1000)
    store.acquire("run-1", "b")
    for body in (b"1", b"2"):
        store.add_late_effect("run-1", LateEffect("t", body))
    assert [late.body for late in store.late_effects("run-1", "t")] == [b"1", b"2"]
    assert store.late_effects("run-1", "other") == []


def test_traces_are_found_by_id_and_by_step(store: Store) -> None:
    run, lease = begin(store)
    append(store, run, lease, traces=[NewTrace("t0", 0, "first"), NewTrace("t1", 1, "second")])
    row = store.trace("t1", run_id="run-1")
    assert row is not None
    assert row == store.trace("t1") == store.trace_at("run-1", 1)
    assert (row.step_id, row.step_index, row.commit_n) == ("second", 1, 2)
    assert store.trace("t9") is None


def test_a_run_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    begin(store, "abc-1")
    begin(store, "abd-2")
    assert store.find_run("abc").run_id == "abc-1"
    assert store.find_run("last").run_id == "abd-2"
    for prefix in ("ab", "x", ""):
        with pytest.raises(RunNotFound):
            store.find_run(prefix)


def test_a_connection_is_of_no_use_in_a_forked_child(durable: Backend) -> None:
    store = durable.open()
    begin(store)
    assert store.find_run("run-1").commits == 1

    def use_it() -> None:
        with pytest.raises(StoreError, match="forked"):
            store.acquire("run-1", "b")
        with pytest.raises(StoreError, match="forked"):
            store.find_run("run-1")

    assert in_child(use_it) == 0
