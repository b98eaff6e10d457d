"""The log's own verbs on a store: the shared vectors, and what the view promises beside them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from reenact import Runtime
from reenact.contracts.artifacts import ActionRequest, LogEntry, Proposal, Resource
from reenact.errors import ConcurrentExecution, LockAcquireFailed, StateError, UsageError
from reenact.journal import chain
from reenact.record.tga.state_store import TgaStateStore
from reenact.store.base import LEASE_MS, Store
from reenact.values.clock import FixedClock
from tests.cli.harness import Command
from tests.engines.places import opened
from tests.record.tga.traces import ZERO, Linked, linked
from tests.runtime.running import Bench, step
from tests.runtime.writing.test_checkpoints import tick

T = TypeVar("T")
OWN = "01936a8b-4c2d-7000-8001-0000000000ab"


def wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def store(tmp_path: Path, clock: FixedClock) -> Store:
    return opened(tmp_path / "store.db", clock=clock)


@pytest.fixture
def view(store: Store, clock: FixedClock) -> TgaStateStore:
    return TgaStateStore(store, clock=clock)


def append_all(view: TgaStateStore, links: list[Linked]) -> str:
    """Append what the view takes; the code of the first refusal, or the state."""
    wait(view.acquire_trace_lock(links[0].entry.trace_id))
    state = "PENDING"
    for link in links:
        try:
            state = wait(view.append_log_entry(link.entry, link.artifact)).current_state
        except StateError as refused:
            return refused.code
    return state


def shared_vectors(shared: Path, name: str) -> Any:
    return json.loads((shared / "vectors" / "tga" / name).read_text(encoding="utf-8"))


def test_the_shared_transitions_are_taken_and_refused_as_they_say(shared: Path, tmp_path: Path) -> None:
    vectors = shared_vectors(shared, "locked/state_transition_vectors.json")
    for number, case in enumerate(vectors["valid_transitions"] + vectors["invalid_transitions"]):
        view = TgaStateStore(opened(tmp_path / f"{number}.db"))
        expected = case.get("expected_error") or case["entries"][-1]["to_state"]
        assert append_all(view, linked(case["entries"])) == expected, case["description"]
    assert number == 8


def test_the_shared_recovery_vectors_leave_the_state_that_decides_what_is_done(shared: Path, tmp_path: Path) -> None:
    dispatches = {"RE_DISPATCH_SAME_TOOL_CALL": "EXECUTING", "REPLAY_ONLY_NO_DISPATCH": "COMPLETED"}
    for number, case in enumerate(shared_vectors(shared, "locked/state_transition_vectors.json")["recovery_vectors"]):
        path = str(tmp_path / f"{number}.db")
        links = linked(case["initial_log"])
        append_all(TgaStateStore(opened(path)), links)
        again = TgaStateStore(opened(path))
        state = wait(again.load_state(links[0].entry.trace_id))
        assert state is not None
        assert state.current_state == dispatches[case["recovery_action"]]


def test_the_shared_golden_chain_is_taken_byte_by_byte_and_given_back(
    shared: Path, view: TgaStateStore, store: Store
) -> None:
    golden = shared_vectors(shared, "derived/locked_profile_chain.json")
    locked = shared_vectors(shared, "locked/golden_trace_chain.json")
    trace_id = golden["chain"][0]["entry"]["trace_id"]
    wait(view.acquire_trace_lock(trace_id))
    for link in golden["chain"]:
        artifact = golden["artifacts"][link["entry"]["artifact_type"]]
        assert artifact == locked[link["entry"]["artifact_type"]], "the chain is over the locked artifacts"
        state = wait(view.append_log_entry(link["entry"], artifact))
        assert as_json(state) == link["state_after"]
        assert as_json(chain.checkpoint_of(state, link["checkpoint_after"]["ts"])) == link["checkpoint_after"]
    again = TgaStateStore(store)
    entries = wait(again.list_log_entries(trace_id))
    assert [as_json(entry) for entry in entries] == [link["entry"] for link in golden["chain"]]
    assert [entry.sequence_number for entry in wait(again.list_log_entries(trace_id, after_seq=2))] == [3, 4]
    assert as_json(wait(again.load_state(trace_id))) == golden["chain"][-1]["state_after"]


def as_json(record: Any) -> Any:
    return json.loads(chain.encode(record))


# -- beyond the vectors --------------------------------------------------------------------------------------------


FULL = [
    {"from_state": "PENDING", "to_state": "PENDING", "artifact_type": "action_request"},
    {"from_state": "PENDING", "to_state": "AUTHORIZED", "artifact_type": "supervisor_decision"},
    {"from_state": "AUTHORIZED", "to_state": "EXECUTING", "artifact_type": "tool_call"},
    {"from_state": "EXECUTING", "to_state": "COMPLETED", "artifact_type": "tool_effect"},
]


def test_a_trace_that_nobody_began_has_no_state_no_entries_and_no_checkpoint(view: TgaStateStore) -> None:
    nobody = "01936a8b-4c2d-7000-8001-00000000dead"
    assert wait(view.load_state(nobody)) is None
    assert wait(view.list_log_entries(nobody)) == []
    assert wait(view.load_latest_checkpoint(nobody)) is None


def test_an_entry_without_its_artifact_or_with_another_kind_is_refused(view: TgaStateStore) -> None:
    first, second, *_ = linked(FULL)
    wait(view.acquire_trace_lock(first.entry.trace_id))
    with pytest.raises(UsageError, match="artifact"):
        wait(view.append_log_entry(first.entry, None))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="action_request"):
        wait(view.append_log_entry(first.entry, second.artifact))
    with pytest.raises(UsageError, match="LogEntry"):
        wait(view.append_log_entry({"schema_id": "?"}, first.artifact))
    assert wait(view.load_state(first.entry.trace_id)) is None


FAULTS: list[tuple[str, dict[str, object]]] = [
    ("STATE_SEQUENCE_GAP", {"sequence_number": 5}),
    ("STATE_CHECKSUM_MISMATCH", {"prev_entry_digest": "e" * 64}),
    ("STATE_INVALID_TRANSITION", {"from_state": "PENDING"}),
    ("MISSING_TOOL_CALL_ID", {"tool_call_id": None}),
    ("STATE_CHECKSUM_MISMATCH", {"entry_digest": "d" * 64}),
]


@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_of_several_faults_the_first_in_the_contract_s_order_is_told(first: int, view: TgaStateStore) -> None:
    """Every fault from `first` on is made at once; and nobody holds the lock, which is asked last."""
    links = linked(FULL)
    wait(view.acquire_trace_lock(links[0].entry.trace_id))
    for link in links[:2]:
        wait(view.append_log_entry(link.entry, link.artifact))
    wait(view.release_trace_lock(links[0].entry.trace_id))
    faults: dict[str, Any] = {}
    for _, fault in FAULTS[first:]:
        faults |= fault
    bad = replace(links[2].entry, **faults)
    with pytest.raises(StateError) as refused:
        wait(view.append_log_entry(bad, links[2].artifact))
    assert refused.value.code == FAULTS[first][0]
    with pytest.raises(ConcurrentExecution):
        wait(view.append_log_entry(links[2].entry, links[2].artifact))


def test_a_refused_entry_leaves_no_mark(view: TgaStateStore) -> None:
    links = linked(FULL)
    wait(view.acquire_trace_lock(links[0].entry.trace_id))
    for link in links:
        for fault in (FAULTS[0][1], FAULTS[4][1]):
            with pytest.raises(StateError):
                wait(view.append_log_entry(replace(link.entry, **fault), link.artifact))  # type: ignore[arg-type]
        wait(view.append_log_entry(link.entry, link.artifact))
    with pytest.raises(StateError) as refused:
        wait(view.append_log_entry(links[3].entry, links[3].artifact))
    assert refused.value.code == "STATE_SEQUENCE_GAP"


def test_one_holds_the_lock_and_a_failed_try_leaves_it_to_him(store: Store, clock: FixedClock) -> None:
    first, second = TgaStateStore(store, clock=clock), TgaStateStore(store, clock=clock)
    links = linked(FULL)
    trace_id = links[0].entry.trace_id
    wait(first.acquire_trace_lock(trace_id))
    with pytest.raises(LockAcquireFailed) as refused:
        wait(second.acquire_trace_lock(trace_id))
    assert refused.value.code == "STATE_LOCK_ACQUIRE_FAILED"
    wait(second.release_trace_lock(trace_id))
    wait(first.append_log_entry(links[0].entry, links[0].artifact))
    clock.advance(LEASE_MS / 1000)
    wait(second.acquire_trace_lock(trace_id))
    with pytest.raises(ConcurrentExecution) as fenced:
        wait(first.append_log_entry(links[1].entry, links[1].artifact))
    assert fenced.value.code == "STATE_CONCURRENT_EXECUTION"
    wait(second.append_log_entry(links[1].entry, links[1].artifact))
    wait(second.release_trace_lock(trace_id))
    wait(first.acquire_trace_lock(trace_id))
    wait(first.append_log_entry(links[2].entry, links[2].artifact))


def test_checkpoints_are_written_held_against_the_log_and_given_back(view: TgaStateStore) -> None:
    links = linked(FULL)
    trace_id = links[0].entry.trace_id
    wait(view.acquire_trace_lock(trace_id))
    checkpoints = []
    for link in links[:3]:
        state = wait(view.append_log_entry(link.entry, link.artifact))
        checkpoints.append(chain.checkpoint_of(state, "2026-01-01T00:00:00.000Z"))
        wait(view.write_checkpoint(checkpoints[-1]))
        assert wait(view.load_latest_checkpoint(trace_id)) == checkpoints[-1]
    for wrong in (
        checkpoints[0],
        replace(checkpoints[2], checkpoint_digest="0" * 64),
        replace(checkpoints[2], checkpoint_sequence_number=2),
    ):
        with pytest.raises(StateError) as refused:
            wait(view.write_checkpoint(wrong))
        assert refused.value.code == "STATE_CHECKSUM_MISMATCH"
    assert wait(view.load_latest_checkpoint(trace_id)) == checkpoints[2]


def test_foreign_arguments_stand_in_the_chain_as_canonical_json(view: TgaStateStore, store: Store) -> None:
    """Numbers and names of every kind: what is read back has the same digest."""
    args: dict[str, object] = {"𐀀": 1e17, "﨎": [1.0, -0.0, 5e-324], "n": 2**53 - 1}
    made = ActionRequest(
        action_request_id=OWN, agent_id=OWN, intent="just as it is", plan_id=OWN,
        proposal=Proposal(args=args, tool_name="t", tool_server="s"), resources=[Resource(id="r", kind="db")],
        risk_level="WRITE", trace_id="01936a8b-4c2d-7000-8001-0000000000aa", ts="2026-01-01T00:00:00.000Z",
    )  # fmt: skip
    artifact = replace(made, digest=chain.artifact_digest(made))
    entry = LogEntry(
        artifact_digest=str(artifact.digest), artifact_id=OWN, artifact_type="action_request", from_state="PENDING",
        prev_entry_digest=ZERO, sequence_number=1, to_state="PENDING", trace_id=made.trace_id, ts=made.ts,
    )  # fmt: skip
    entry = replace(entry, entry_digest=chain.entry_digest(entry))
    wait(view.acquire_trace_lock(made.trace_id))
    state = wait(view.append_log_entry(entry, artifact))
    assert wait(TgaStateStore(store).load_state(made.trace_id)) == state


def test_traces_of_runs_are_read_through_the_view_like_any_others(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tick)
    result = bench.run(step(tick), step(tick))
    view = TgaStateStore(bench.store)
    for trace in bench.traces(result.run_id):
        state = wait(view.load_state(trace.trace_id))
        assert state is not None
        assert (state.current_state, state.last_entry_digest) == ("COMPLETED", trace.head)
        assert len(wait(view.list_log_entries(trace.trace_id))) == 4


def test_a_trace_from_elsewhere_does_not_disturb_the_recovery_of_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tick)
    view = TgaStateStore(bench.store)
    links = linked(FULL)
    append_all(view, links[:3])
    wait(view.release_trace_lock(links[0].entry.trace_id))
    waiting = bench.runtime.run({"plan_id": "p", "agent_id": "a", "steps": []})
    assert waiting.status == "completed"
    recovered = Command(tmp_path)("recover")
    assert (recovered.code, recovered.err) == (0, "")
    assert f"run {links[0].entry.trace_id} running" in recovered.out
    (foreign,) = Runtime(bench.store, skills=[tick]).recover()
    assert (foreign.run_id, foreign.status) == (links[0].entry.trace_id, "running")
    assert foreign.reason
