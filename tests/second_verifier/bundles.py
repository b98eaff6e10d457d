"""What is tampered with: the vectors, and bundles that real runs were exported to."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reenact import Registry, Runtime
from reenact.record.archive.moving import move
from reenact.record.erase import erase
from reenact.record.export import export_run
from reenact.record.tga.state_store import TgaStateStore
from reenact.store.sqlite.store import SqliteStore
from tests.conftest import ROOT
from tests.record.test_kinds_of_runs import an_approved_call, plan, send
from tests.record.tga.traces import linked
from tests.runtime.session.answering.programs import MADE, start, stopped
from tests.store.checks.store_file import talk
from tests.verify.changing import read_folder

Files = dict[str, bytes]
VECTORS = ROOT / "test_vectors" / "bundles"


def vectors() -> dict[str, Files]:
    return {folder.name: read_folder(folder) for folder in sorted(VECTORS.iterdir()) if folder.is_dir()}


def real(folder: Path) -> dict[str, Files]:
    """Bundles of runs of every kind, made here."""
    folder.mkdir()
    path = folder / "store.db"
    runtime = Runtime(str(path), skills=Registry([talk, send]))
    steps = (
        {"skill_id": "talk", "parameters": {"text": "good morning", "failures": 2}},
        {"skill_id": "send", "parameters": {"text": "{{s0.said}} and {{ s0 }}"}, "idempotency_key": "k"},
        {"skill_id": "talk", "parameters": {"text": 7}, "on_error": "continue"},
        {"skill_id": "talk", "parameters": {"text": "{{s1.nowhere}}"}, "on_error": "continue"},
    )
    retry = {"backoff_multiplier": 1.5, "jitter_enabled": True, "jitter_max_ms": 9, "max_backoff_ms": None}
    planned = runtime.pinned(plan(*steps, retry=retry, budget_cents=90))
    runs = {"planned": runtime.run(planned).run_id, "served": runtime.run(planned).run_id}
    runs["erased"] = runtime.run(planned).run_id
    runs["approved"] = an_approved_call(runtime)
    runs["waiting"] = runtime.run(
        plan(steps[0], {"skill_id": "send", "parameters": {"text": "?"}}, supervisor="ask")
    ).run_id
    runs["session"] = asyncio.run(talked(runtime))
    erase(runtime.store, runs["erased"], "s0", who="ann", reason="asked for")
    runs["archived"] = runtime.run(planned).run_id
    move(runtime.store, runs["archived"], folder / "archive", who="ann", reason="old")
    erase(runtime.store, runs["archived"], "s2", who="ann", reason="asked for")
    runtime.close()
    found = {name: exported(path, run, folder / name) for name, run in runs.items()}
    found["withheld"] = exported(path, runs["planned"], folder / "withheld", payloads="none")
    found["foreign"] = foreign(folder)
    found["forked"] = forked(folder / "forked")
    return found


def exported(store: Path, run: str, folder: Path, payloads: str = "full") -> Files:
    export_run(str(store), run, folder, payloads=payloads)  # type: ignore[arg-type]
    return read_folder(folder)


async def talked(runtime: Runtime) -> str:
    """Calls side by side, two under one key, one of a tool that is not there."""
    async with runtime.session(agent_id="a", id="told") as session:
        with session.lane("x"):
            await asyncio.gather(session.call("talk", {"text": "x"}), session.call("send", {"text": "y"}))
        await session.turn()
        await session.call("send", {"text": "z"}, idempotency_key="zz")
        await session.call("send", {"text": "z"}, idempotency_key="zz")
        await session.call("nobody", {"text": "knows"})
        session.finish(confidence=0.5)
    return str(session.run_id)


def foreign(folder: Path) -> Files:
    """A trace that another runtime wrote."""
    states = ("PENDING", "PENDING", "AUTHORIZED", "EXECUTING", "COMPLETED")
    kinds = ("action_request", "supervisor_decision", "tool_call", "tool_effect")
    given = [
        {"artifact_type": kind, "from_state": states[number], "to_state": states[number + 1]}
        for number, kind in enumerate(kinds)
    ]
    path = folder / "foreign.db"
    view = TgaStateStore(SqliteStore(str(path)))
    links = linked(given)

    async def write() -> None:
        await view.acquire_trace_lock(links[0].entry.trace_id)
        for link in links:
            await view.append_log_entry(link.entry, link.artifact)
        await view.release_trace_lock(links[0].entry.trace_id)

    asyncio.run(write())
    return exported(path, links[0].entry.trace_id, folder / "foreign")


def forked(folder: Path) -> Files:
    """A session that went on as another run."""
    MADE.clear()
    folder.mkdir()
    stopped(folder, lambda session: [session.call("pay", {"amount": amount}) for amount in (1, 2)])
    start(folder, lambda session: [session.call("pay", {"amount": amount}) for amount in (1, 3)],
          on_divergence="fork", accept=["main:2"])  # fmt: skip
    return exported(folder / "store.db", "order-42", folder / "bundle")
