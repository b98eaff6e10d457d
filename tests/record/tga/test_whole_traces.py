"""Traces of another runtime, from their first entry to the seal: verified, recovered, kept, never sent twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from reenact import Runtime, TgaStateStore
from reenact.contracts.artifacts import EffectOutcome, ToolCall, ToolEffect
from reenact.errors import KeyTaken, LockAcquireFailed, RecoveryFailed, StoreError, UsageError
from reenact.journal import chain
from reenact.record.export import export_run
from reenact.store.checks.verification import verify_run
from reenact.store.compression import Codec
from reenact.verify import verify_bundle, verify_lines
from tests.cli.harness import Command
from tests.engines import places
from tests.engines.places import ask, opened, store_at
from tests.record.tga.test_view import FULL, append_all, shared_vectors, wait
from tests.record.tga.traces import TRACE, linked

OTHER = "01936a8b-4c2d-7000-8001-00000000bbbb"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def moved(links: list[Any], trace_id: str) -> list[Any]:
    """The same entries as those of another trace."""
    made, before, head = [], {}, "0" * 64
    for entry, artifact in links:
        changes: dict[str, Any] = {"trace_id": trace_id, "digest": UNSET}
        for name in ("action_request", "supervisor_decision", "tool_call"):
            if hasattr(artifact, f"{name}_digest"):
                changes[f"{name}_digest"] = before[name]
        fresh = replace(artifact, **changes)
        fresh = replace(fresh, digest=chain.artifact_digest(fresh))
        before[entry.artifact_type] = str(fresh.digest)
        logged = replace(
            entry, trace_id=trace_id, artifact_digest=str(fresh.digest), prev_entry_digest=head, entry_digest=UNSET
        )
        logged = replace(logged, entry_digest=chain.entry_digest(logged))
        head = str(logged.entry_digest)
        made.append(type(links[0])(logged, fresh))
    return made


def effect_of(call: ToolCall, status: str = "SUCCESS") -> ToolEffect:
    return ToolEffect(
        outcome=EffectOutcome(status=status),  # type: ignore[arg-type]
        plan_id=call.plan_id,
        tool_call_digest=str(call.digest),
        tool_call_id=call.tool_call_id,
        tool_effect_id="01936a8b-4c2d-7000-8001-0000000000ee",
        trace_id=call.trace_id,
        ts="2026-01-01T00:00:01.000Z",
    )


def test_the_shared_golden_chain_verifies_in_the_store_and_as_a_bundle(shared: Path, path: Path) -> None:
    golden = shared_vectors(shared, "derived/locked_profile_chain.json")
    view = TgaStateStore(store_at(path))
    trace_id = golden["chain"][0]["entry"]["trace_id"]
    wait(view.acquire_trace_lock(trace_id))
    for link in golden["chain"]:
        wait(view.append_log_entry(link["entry"], golden["artifacts"][link["entry"]["artifact_type"]]))
    wait(view.release_trace_lock(trace_id))
    result = verify_run(store_at(path), trace_id)
    assert (result.exit_code, result.report.findings, result.differences) == (0, (), ())
    assert result.report.status == "completed"
    export_run(store_at(path), trace_id, path.parent / "bundle")
    assert verify_bundle(path.parent / "bundle").exit_code == 0


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_a_trace_that_has_not_ended_verifies_as_open(path: Path, entries: int) -> None:
    append_all(TgaStateStore(store_at(path)), linked(FULL)[:entries])
    result = verify_run(store_at(path), TRACE)
    assert (result.exit_code, result.report.findings, result.differences) == (4, (), ())


def test_every_way_to_end_is_sealed_with_its_status(path: Path) -> None:
    refused = [FULL[0], {**FULL[1], "to_state": "DENIED"}]
    for links, status in ((linked(FULL), "completed"), (moved(linked(refused), OTHER), "failed")):
        append_all(TgaStateStore(store_at(path)), links)
        result = verify_run(store_at(path), links[0].entry.trace_id)
        assert (result.exit_code, result.report.findings) == (0, ())
        assert result.report.status == status


def test_what_says_something_else_is_found(path: Path) -> None:
    """The commits of a whole trace, one word of an artifact another."""
    store = opened(path)
    append_all(TgaStateStore(store), linked(FULL))
    bodies = list(store.bodies(TRACE))
    assert verify_lines(bodies, None).exit_code == 0
    for n, body in enumerate(bodies):
        for old, new in (
            (b"APPROVE", b"DENY"),
            (b'"status":"SUCCESS"', b'"status":"FAILURE"'),
            (b"PENDING", b"DENIED"),
        ):
            if old in body:
                changed = [*bodies[:n], body.replace(old, new, 1), *bodies[n + 1 :]]
                assert verify_lines(changed, None).integrity == "broken", (n, old)


def test_nothing_is_sent_while_somebody_has_the_lock(path: Path) -> None:
    links = linked(FULL)
    append_all(TgaStateStore(store_at(path)), links[:3])
    seen: list[ToolCall] = []

    async def dispatch(call: ToolCall) -> ToolEffect:
        seen.append(call)
        return effect_of(call)

    view = TgaStateStore(store_at(path))
    with pytest.raises(LockAcquireFailed):
        wait(view.recover_trace(TRACE, dispatch))
    assert seen == []


def recovered(path: Path, *, entries: int) -> tuple[str, list[ToolCall]]:
    links = linked(FULL)
    first = TgaStateStore(store_at(path))
    append_all(first, links[:entries])
    wait(first.release_trace_lock(TRACE))
    seen: list[ToolCall] = []

    async def dispatch(call: ToolCall) -> ToolEffect:
        seen.append(call)
        return effect_of(call)

    states = [wait(TgaStateStore(store_at(path)).recover_trace(TRACE, dispatch)).current_state for _ in range(2)]
    assert states[1] == states[0]
    return states[0], seen


def test_recovery_sends_the_same_call_once(path: Path) -> None:
    state, seen = recovered(path, entries=3)
    assert state == "COMPLETED"
    assert [call.tool_call_id for call in seen] == [linked(FULL)[2].artifact.tool_call_id]  # type: ignore[union-attr]
    assert verify_run(store_at(path), TRACE).exit_code == 0


@pytest.mark.parametrize(("entries", "state"), [(1, "PENDING"), (2, "AUTHORIZED"), (4, "COMPLETED")])
def test_recovery_sends_nothing_that_was_not_sent_or_has_ended(path: Path, entries: int, state: str) -> None:
    assert recovered(path, entries=entries) == (state, [])


def test_a_damaged_log_is_not_recovered(path: Path) -> None:
    view = TgaStateStore(store_at(path))
    append_all(view, linked(FULL)[:3])
    wait(view.release_trace_lock(TRACE))
    with closing(sqlite3.connect(path)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        rows = db.execute("SELECT id, body FROM commits ORDER BY id").fetchall()
        codec, (row_id, packed) = Codec(), rows[2]
        body = codec.unpack(packed).replace(b"APPROVE", b"DENY")
        db.execute(
            "UPDATE commits SET body = ?, digest = ? WHERE id = ?",
            (codec.pack_body(body), sha256(body).digest(), row_id),
        )
        db.commit()

    async def nothing(call: ToolCall) -> ToolEffect:
        raise AssertionError(call)

    with pytest.raises(RecoveryFailed) as refused:
        wait(TgaStateStore(store_at(path)).recover_trace(TRACE, nothing))
    assert refused.value.code == "STATE_RECOVERY_FAILED"


def test_one_key_is_one_call_whoever_makes_it(path: Path) -> None:
    links = linked(FULL)
    view = TgaStateStore(store_at(path))
    append_all(view, links[:3])
    again = moved(links, OTHER)
    wait(view.acquire_trace_lock(OTHER))
    for entry, artifact in again[:2]:
        wait(view.append_log_entry(entry, artifact))
    with pytest.raises(KeyTaken, match=TRACE):
        wait(view.append_log_entry(*again[2]))
    call = links[2].artifact
    assert isinstance(call, ToolCall)
    asked = (call.call.tool_server, call.call.tool_name, call.idempotency_key)
    assert wait(view.load_effect(*asked)) is None
    wait(view.append_log_entry(*links[3]))
    with pytest.raises(KeyTaken, match="load_effect"):
        wait(view.append_log_entry(*again[2]))
    assert wait(view.load_effect(*asked)) == links[3].artifact
    assert verify_run(store_at(path), TRACE).exit_code == 0
    assert verify_run(store_at(path), OTHER).exit_code == 4


def test_a_lock_that_no_thread_can_keep_is_given_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched, pytest.raises(StoreError, match="to keep a lease"):
        patched.setattr(threading.Thread, "start", refused)
        wait(TgaStateStore(store_at(path)).acquire_trace_lock(TRACE))
    wait(TgaStateStore(store_at(path)).acquire_trace_lock(TRACE))


def test_a_lock_is_kept_while_its_holder_works_and_free_when_he_is_gone(path: Path) -> None:
    """Renewed beyond the length of a lease by a process that does nothing else; taken over once that is killed."""
    code = (
        "import asyncio, time\n"
        "from reenact import TgaStateStore\n"
        f"view = TgaStateStore({store_at(path)!r})\n"
        f"asyncio.run(view.acquire_trace_lock({TRACE!r}))\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        expires = lease_end(path)
        deadline = time.monotonic() + 30
        while lease_end(path) == expires and time.monotonic() < deadline:
            time.sleep(0.2)
        assert lease_end(path) > expires
        with pytest.raises(LockAcquireFailed):
            wait(TgaStateStore(store_at(path)).acquire_trace_lock(TRACE))
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    wait(TgaStateStore(store_at(path)).acquire_trace_lock(TRACE))


def lease_end(path: Path) -> int:
    return int(ask(path, "SELECT expires_ms FROM runs")[0][0])


def test_commands_show_list_and_leave_it_alone(path: Path) -> None:
    view = TgaStateStore(store_at(path))
    append_all(view, linked(FULL)[:3])
    wait(view.release_trace_lock(TRACE))
    for words in (["ls"], ["ls", "--json"], ["show", TRACE], ["show", TRACE, "--json"], ["recover"], ["doctor"]):
        done = Command(path.parent)(*words, "--store", store_at(path))
        assert "Traceback" not in done.err, (words, done.err)
        quick = (3,) if words == ["doctor"] and places.database is not None else ()  # the tests' own server
        assert done.code in (0, 4, *quick), (words, done.out, done.err)
    assert Runtime(store_at(path)).recover()[0].reason == "the runtime that wrote this trace goes on with it"
    assert len(list(opened(path).bodies(TRACE))) == 4


def test_an_ended_trace_is_resumed_and_shown_without_an_accident(path: Path) -> None:
    append_all(TgaStateStore(store_at(path)), linked(FULL))
    for words in (["resume", TRACE], ["resume", TRACE, "--json"], ["show", TRACE], ["verify", TRACE], ["ls"]):
        done = Command(path.parent)(*words, "--store", store_at(path))
        assert (done.code, "Traceback" in done.err) == (0, False), (words, done.out, done.err)
    verified = Command(path.parent)("verify", TRACE, "--store", store_at(path))
    assert "authenticity  holds   by the store's own key " in verified.out


def test_what_could_never_be_verified_is_not_written(path: Path) -> None:
    first, *_ = linked(FULL)
    short = replace(first.artifact, intent="pay", digest=UNSET)
    short = replace(short, digest=chain.artifact_digest(short))
    entry = replace(first.entry, artifact_digest=str(short.digest), entry_digest=UNSET)
    entry = replace(entry, entry_digest=chain.entry_digest(entry))
    view = TgaStateStore(store_at(path))
    wait(view.acquire_trace_lock(TRACE))
    with pytest.raises(UsageError, match="length"):
        wait(view.append_log_entry(entry, short))
