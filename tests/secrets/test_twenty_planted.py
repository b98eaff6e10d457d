"""None of the planted secrets is found in anything that a run leaves behind, and its replay still matches."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from reenact import Runtime
from reenact.errors import ConcurrentExecution
from reenact.record.export import export_run
from reenact.replay import replay
from reenact.runtime.listeners import Listener, Notice
from reenact.runtime.people.decisions import cancel
from reenact.runtime.structured_log import StructuredLog
from reenact.store.checks.verification import verify_run
from reenact.telemetry.metrics import RuntimeMetrics
from tests.builtin.servers import Request, Server
from tests.cli.harness import Command
from tests.secrets.leaky_skills import LET_GO, SKILLS
from tests.secrets.planting import BY_REFERENCE, IN_A_URL, PLANTED, leaks, leaks_in_files, leaks_in_store

Document = dict[str, object]


def secret(name: str) -> Document:
    assert name in {*BY_REFERENCE, "WHOLE_URL"}
    return {"$secret": name}


async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
    """Sends back whatever it was sent, headers among it, and sets a cookie."""
    said = {"target": request.target, "headers": request.headers, "body": request.body.decode()}
    body = json.dumps(said, ensure_ascii=False).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        f"x-request-id: {request.headers.get('authorization', 'none')}\r\n"
        f"set-cookie: {PLANTED['a cookie that a server sets']}; Path=/\r\n\r\n"
    )
    writer.write(head.encode("latin-1", "replace") + body)
    await writer.drain()


@dataclass
class Left:
    """Everything that came of the runs, besides the files."""

    folder: Path
    notices: list[Notice] = field(default_factory=list)
    log: io.BytesIO = field(default_factory=io.BytesIO)
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    runs: list[str] = field(default_factory=list)
    returned: list[object] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.folder / "store.db"

    def runtime(self) -> Runtime:
        """The one that is listened to."""
        listeners: list[Listener] = [self.notices.append, StructuredLog(self.log, redact=str)]
        listeners.append(RuntimeMetrics(self.metrics))
        return Runtime(f"sqlite:///{self.store}", skills=SKILLS, secrets=BY_REFERENCE, listeners=listeners)


def plan(server: Server) -> Document:
    def http(step_id: str, **parameters: object) -> Document:
        return {"step_id": step_id, "skill_id": "http_call", "parameters": parameters}

    def leaky(skill_id: str, name: str) -> Document:
        return {"step_id": skill_id, "skill_id": skill_id, "parameters": {"secret": secret(name)}}

    steps = [
        http("header", url=server.url, headers={"authorization": secret("HEADER_TOKEN"), "x-note": "hello"}),
        http("query", url=server.url, params={"token": secret("QUERY_TOKEN")}),
        http("body", url=server.url, method="POST", body={"deep": [{"token": secret("BODY_TOKEN")}]}),
        http("whole_url", url=secret("WHOLE_URL")),
        leaky("in_longer_text", "LONGER_TEXT"),
        leaky("in_exception", "EXCEPTION"),
        leaky("in_cause", "CAUSE"),
        leaky("in_details", "DETAILS"),
        leaky("as_basic_auth", "BASIC_AUTH"),
        leaky("as_url", "URL_ENCODED"),
        leaky("in_progress", "PROGRESS"),
        leaky("in_target", "TARGET"),
        leaky("in_child", "CHILD_PROCESS"),
        leaky("in_thread", "THREAD_THAT_LIVES_ON"),
        leaky("in_log", "LOGGED"),
        leaky("as_number", "NUMBER"),
        leaky("as_key", "DICT_KEY"),
        {"step_id": "by_shape", "skill_id": "by_shape"},
        {"step_id": "in_report", "skill_id": "in_report", "parameters": {
            "request_id": secret("REQUEST_ID"), "finish_reason": secret("FINISH_REASON"), "raw": secret("RAW_RESPONSE"),
        }},
        {"step_id": "kv_set", "skill_id": "kv_store", "parameters": {
            "operation": "set", "key": "token", "value": {"deep": [secret("KEY_VALUE")]},
        }},
        {"step_id": "kv_key", "skill_id": "kv_store", "parameters": {
            "operation": "set", "key": secret("KEY_VALUE"), "value": 1,
        }},
        {"step_id": "kv_get", "skill_id": "kv_store", "parameters": {"operation": "get", "key": "token"}},
        {"step_id": "uses_what_came_back", "skill_id": "in_longer_text", "parameters": {"secret": "{{header.body}}"}},
    ]  # fmt: skip
    return {
        "plan_id": "planted",
        "agent_id": "agent",
        "steps": steps,
        "context": {
            "allow_hosts": [server.name], "on_error": "continue", "secret_fields": ["marked_by_plan"],
            "retry": {"backoff_base_ms": 0},
        },
    }  # fmt: skip


async def in_a_session(runtime: Runtime, left: Left) -> None:
    """Secrets bound by the host; the second call is a duplicate, and its decision carries the first one's output."""
    async with runtime.session(goal=f"use {BY_REFERENCE['DECISION']}", duplicate_output=True) as session:
        for _ in range(2):
            left.returned.append(await session.call("idempotent_echo", {}, secrets={"/secret": "DECISION"}))
        left.returned.append(await session.history())
        left.runs.append(session.run_id)


def late(runtime: Runtime, left: Left) -> None:
    """The executor loses its lease while the skill works; another one finds what it left."""
    steps = [{
        "step_id": "late", "skill_id": "losing_its_lease",
        "parameters": {"store": str(left.store), "secret": secret("LATE")},
    }]  # fmt: skip
    with pytest.raises(ConcurrentExecution):
        runtime.run({"plan_id": "late", "agent_id": "agent", "steps": steps})
    run_id = runtime.store.find_run("last").run_id
    result = runtime.resume(run_id)
    assert result.status == "completed"
    left.runs.append(run_id)


def cancelled(runtime: Runtime, left: Left) -> None:
    """Somebody says why a run shall stop while another process works on it."""

    async def ask() -> None:
        async with runtime.session() as session:
            left.runs.append(session.run_id)
            assert not await cancel(runtime, session.run_id, reason=f"leaked {BY_REFERENCE['CANCEL_REASON']}")
            await session.call("in_log", {"secret": "none"})

    asyncio.run(ask())


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    found = Left(tmp_path_factory.mktemp("planted"))
    logs = io.StringIO()
    handler = logging.StreamHandler(logs)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with Server(echo) as server, pytest.MonkeyPatch.context() as patch:
            patch.setenv("REENACT_SECRET_WHOLE_URL", f"{server.url}/hook/{IN_A_URL}")
            patch.delenv("REENACT_SEAL_KEY", raising=False)
            runtime = found.runtime()
            result = runtime.run(plan(server))
            found.runs.insert(0, result.run_id)
            found.returned += result.outcomes
            asyncio.run(in_a_session(runtime, found))
            late(runtime, found)
            cancelled(runtime, found)
            LET_GO.set()
            found.returned.append(logs.getvalue())
            yield found
            runtime.close()
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
    assert leaks("the log of this process", logs.getvalue().encode()) == []


def test_twenty_and_more_were_planted_and_reached_their_skills(left: Left) -> None:
    assert len(PLANTED) >= 20
    steps = {step.step_id: step.outcome for step in Runtime(str(left.store)).resume(left.runs[0])}
    failed = {name for name, outcome in steps.items() if not outcome.ok}
    assert failed == {
        "in_exception", "in_cause", "in_details", "in_child", "in_thread", "kv_key", "uses_what_came_back",
    }  # fmt: skip


def test_the_database_and_its_wal_hold_none(left: Left) -> None:
    assert Path(f"{left.store}-wal").stat().st_size > 0, "the WAL is there to be searched"
    assert leaks_in_files(left.folder) == []
    assert leaks_in_store(left.store) == []


def test_exports_hold_none_and_verify(left: Left, tmp_path: Path) -> None:
    for run_id in left.runs:
        export_run(str(left.store), run_id, tmp_path / run_id)
        assert verify_run(str(left.store), run_id).exit_code == 0
    assert leaks_in_files(tmp_path) == []


def test_listeners_logs_and_metrics_hear_none(left: Left) -> None:
    assert any(notice.kind == "progress" for notice in left.notices)
    assert leaks("the notices", repr(left.notices).encode()) == []
    assert leaks("the structured log", left.log.getvalue()) == []
    assert leaks("the metrics", generate_latest(left.metrics)) == []


def test_no_caller_gets_back_what_was_handed_to_a_skill(left: Left) -> None:
    assert leaks("what came back", repr(left.returned).encode()) == []


def test_the_commands_show_none(left: Left) -> None:
    command = Command(left.folder)
    for arguments in (
        ("ls",),
        ("ls", "--json"),
        ("show", left.runs[0], "--values", "--json"),
        ("verify", left.runs[0]),
    ):
        done = command(*arguments)
        assert done.code == 0, done.err
        assert leaks(" ".join(arguments), (done.out + done.err).encode()) == []


def test_replays_match_without_any_of_the_secrets(left: Left) -> None:
    """The replaying process has no secret at all: what was served is what was written."""
    bare = Runtime(str(left.store), skills=SKILLS)
    for run_id in left.runs:
        result = replay(bare, run_id)
        assert result.verdict == "matched", result.divergence
