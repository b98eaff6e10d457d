"""What a store must do for those who check, export and erase; and that damage is found. On every back-end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.errors import DamagedRecord, RunNotFound
from reenact.record.erase import erase
from reenact.record.export import export_evidence
from reenact.store.base import Erasing, Store
from reenact.store.checks.verification import RunVerification, verify_evidence
from reenact.store.doctor.examine import examine
from reenact.store.envelopes import StoredEnvelopes
from reenact.store.evidence import find_run
from reenact.store.open import in_memory, missing, open_evidence, open_store
from reenact.values.clock import SystemClock
from reenact.values.digest import ZERO_DIGEST
from reenact.verify.verifier import verify_bundle
from tests.store.backends import Backend
from tests.store.checks.store_file import PLAN, REGISTRY
from tests.store.units import Run

WHO = {"who": "a person", "reason": "asked for"}


@pytest.fixture
def recorded(backend: Backend) -> Iterator[Store]:
    """With one sealed run in it."""
    store = backend.open()
    Runtime(store, skills=REGISTRY).run(PLAN)
    yield store
    store.close()


def verified(store: Store, run: str = "last") -> RunVerification:
    with store.evidence() as evidence:
        return verify_evidence(evidence, run)


def payload_of(store: Store, place: int) -> str:
    """The commitment of one of the run's values."""
    return [commitment for commitment, _ in store.payloads(store.find_run("last").run_id)][place]


# -- evidence ------------------------------------------------------------------------------------------------------


def test_evidence_is_what_was_written(recorded: Store) -> None:
    run_id = recorded.find_run("last").run_id
    with recorded.evidence() as evidence:
        run, found = find_run(evidence, "last")
        assert found == run_id
        assert find_run(evidence, run_id[:-2])[0].number == run.number
        assert [row.body for row in run.commits()] == list(recorded.bodies(run_id))
        assert all(row.same for row in run.commits())
        envelopes = StoredEnvelopes(run)
        assert {commitment: envelopes.get(commitment) for commitment in envelopes.places} == dict(
            recorded.payloads(run_id)
        )
        assert evidence.keys() == recorded.public_keys()
        assert evidence.store_id() == recorded.store_id
        assert evidence.altered_guards() == [] == evidence.altered_tables()
        with pytest.raises(RunNotFound):
            find_run(evidence, "ffff")


def test_evidence_is_one_snapshot(recorded: Store) -> None:
    with recorded.evidence() as evidence:
        assert len(evidence.run_numbers()) == 1
        Runtime(recorded, skills=REGISTRY).run(PLAN)
        assert len(evidence.run_numbers()) == 1
    with recorded.evidence() as evidence:
        assert len(evidence.run_numbers()) == 2


def test_a_run_verifies_where_it_lies_and_as_a_bundle(recorded: Store, tmp_path: Path) -> None:
    result = verified(recorded)
    assert (result.exit_code, result.differences, result.report.notes) == (0, (), ())
    with recorded.evidence() as evidence:
        exported = export_evidence(evidence, "last", tmp_path / "bundle")
    assert (exported.sealed, exported.lost, exported.erased) == (True, 0, 0)
    assert verify_bundle(tmp_path / "bundle").exit_code == 0


def test_a_run_that_has_not_ended_is_open_and_not_broken(backend: Backend) -> None:
    store = backend.open()
    unit, _ = Run("run-1").unit()
    store.append(unit, None, owner="a")
    assert verified(store).report.completeness == "open"
    store.close()


# -- erasure -------------------------------------------------------------------------------------------------------


def test_what_is_erased_is_gone_and_on_record_and_all_else_is_whole(recorded: Store, tmp_path: Path) -> None:
    run_id = recorded.find_run("last").run_id
    before = dict(recorded.payloads(run_id))
    count = erase(recorded, run_id, "keyed", **WHO)
    after = dict(recorded.payloads(run_id))
    records = [json.loads(record) for record in recorded.erasures()]
    assert count == len(records) == len(before) - len(after) > 0
    assert {record["commitment"] for record in records} == set(before) - set(after)
    assert {before[commitment] for commitment in after} == set(after.values())
    assert {(record["run_id"], record["who"], record["reason"]) for record in records} == {(run_id, *WHO.values())}
    assert verified(recorded).exit_code == 0
    with recorded.evidence() as evidence:
        exported = export_evidence(evidence, run_id, tmp_path / "bundle")
    assert (exported.erased, exported.lost) == (count, 0)
    assert verify_bundle(tmp_path / "bundle").exit_code == 0


def test_records_of_erasure_are_chained_over_the_whole_store(recorded: Store) -> None:
    Runtime(recorded, skills=REGISTRY).run(PLAN)
    for row in recorded.runs():
        erase(recorded, row.run_id, "again", **WHO)
    records = [json.loads(record) for record in recorded.erasures()]
    assert len({record["run_id"] for record in records}) == 2
    assert [record["prev"] for record in records] == [ZERO_DIGEST, *(record["digest"] for record in records[:-1])]


def test_an_erasure_that_cannot_be_recorded_erases_nothing(recorded: Store) -> None:
    run_id = recorded.find_run("last").run_id
    before = dict(recorded.payloads(run_id))
    what = Erasing(run_id, frozenset(before), frozenset(), whole=True, who="a\ud800", reason="r")
    with pytest.raises(UnicodeError):
        recorded.erase(what)
    assert dict(recorded.payloads(run_id)) == before
    assert recorded.erasures() == []
    with pytest.raises(RunNotFound):
        recorded.erase(Erasing("no such run", frozenset(), frozenset(), whole=True, who="w", reason="r"))


# -- damage --------------------------------------------------------------------------------------------------------

Damage = Callable[[Backend, Store, str], None]

DAMAGE: dict[str, tuple[Damage, str]] = {
    "a changed commit": (
        lambda backend, store, run_id: backend.change_commit(store, run_id, 2, lambda body: body[:-2] + b" }\n"),
        "EVIDENCE_DAMAGED",
    ),
    "a missing commit": (lambda backend, store, run_id: backend.remove_commit(store, run_id, 2), "COMMIT_NUMBER"),
    "a cut tail": (
        lambda backend, store, run_id: backend.remove_commit(store, run_id, store.find_run(run_id).commits),
        "SEAL_MISSING",
    ),
    "a changed value": (
        lambda backend, store, _: backend.change_payload(store, payload_of(store, 1), bytes(32) + b'"other"'),
        "PAYLOAD_CHANGED",
    ),
    "a missing value": (lambda backend, store, _: backend.remove_payload(store, payload_of(store, 1)), "PAYLOAD_LOST"),
    "a missing record of erasure": (
        lambda backend, store, run_id: (erase(store, run_id, "keyed", **WHO), backend.remove_erasure(store, 2))[-1],
        "ERASURE_CHAIN",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found(recorded: Store, backend: Backend, name: str) -> None:
    damage, code = DAMAGE[name]
    damage(backend, recorded, recorded.find_run("last").run_id)
    result = verified(recorded)
    assert result.exit_code == 1
    assert code in {finding.code for finding in result.report.findings}


def test_a_derived_table_that_says_otherwise_is_told_and_breaks_no_evidence(recorded: Store, backend: Backend) -> None:
    run_id = recorded.find_run("last").run_id
    backend.change_status(recorded, run_id, "failed")
    result = verified(recorded)
    assert (result.exit_code, result.report.exit_code) == (1, 0)
    assert [(found.table, found.what, found.expected, found.got) for found in result.differences] == [
        ("runs", "status", "completed", "failed")
    ]


def test_a_guard_that_was_taken_off_is_noted(recorded: Store, backend: Backend) -> None:
    name = backend.take_off_a_guard(recorded)
    result = verified(recorded)
    assert (result.exit_code, result.report.notes) == (
        0,
        (f"the trigger {name} is not there: somebody took it off",),
    )


def test_no_lease_is_given_of_a_run_whose_last_commit_is_not_what_was_written(backend: Backend) -> None:
    store = backend.open()
    run = Run("run-1")
    unit, _ = run.unit()
    store.release(store.append(unit, None, owner="a").lease)
    backend.change_commit(store, "run-1", 1, lambda body: body + b"\n")
    with pytest.raises(DamagedRecord, match="commit 1"):
        store.acquire("run-1", "b")
    store.close()


# -- by URL --------------------------------------------------------------------------------------------------------


def test_a_store_is_opened_looked_at_and_read_by_its_url(durable: Backend) -> None:
    assert missing(durable.url) is not None
    assert [finding.verdict for finding in examine(durable.url, SystemClock())] == ["note"]
    store = durable.open()
    Runtime(store, skills=REGISTRY).run(PLAN)
    store.close()
    assert missing(durable.url) is None
    found = [finding for finding in examine(durable.url, SystemClock()) if finding.subject not in durable.expected]
    assert {finding.verdict for finding in found} == {"ok"}
    with open_evidence(durable.url) as evidence:
        assert verify_evidence(evidence, "last").exit_code == 0
    again = open_store(durable.url, to_read=True)
    assert [row.status for row in again.runs()] == ["completed"]
    again.close()


def test_two_stores_in_memory_have_nothing_in_common() -> None:
    one, other = in_memory(), in_memory()
    unit, _ = Run("run-1").unit()
    one.append(unit, None, owner="a")
    assert (len(one.runs()), other.runs()) == (1, [])
    assert one.store_id != other.store_id
