"""E2E: mock replay. A whole plan through the command line, replayed with the service gone and the skills unknown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.engines.places import store_at
from tests.store.copies import whole

SKILLS = '''
from reenact import skill

@skill("double", version="1.0.0", tool_class="read", cost_estimate_cents=1)
def double(value: int) -> int:
    """Twice the value."""
    return 2 * value
'''


class Flaky(BaseHTTPRequestHandler):
    """Fails twice, then answers."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        ok = type(self).asked > 2
        body = b'{"value": 21}' if ok else b"later"
        self.send_response(200 if ok else 503)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def recorded_store(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("e2e")
    (folder / "my_skills.py").write_text(SKILLS)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"127.0.0.1:{server.server_port}"
    plan = {
        "plan_id": "e2e",
        "agent_id": "tester",
        "goal": "twice what the service says",
        "steps": [
            {"step_id": "fetch", "skill_id": "http_call", "parameters": {"url": f"http://{address}/"},
             "retry": {"backoff_base_ms": 1}},
            {"step_id": "double", "skill_id": "double", "parameters": {"value": "{{fetch.body.value}}"}},
            {"step_id": "again", "skill_id": "double", "parameters": {"value": "no number"}},
        ],
        "context": {"allow_hosts": [address], "budget_cents": 5, "on_error": "continue"},
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    try:
        done = reenact(folder, "run", "plan.json", "--skills", "my_skills.py")
        assert done.returncode == 0, done.stderr
        (folder / "run_id").write_text(json.loads(reenact(folder, "ls", "--json").stdout)[0]["run_id"])
        exported = reenact(folder, "export", "last", "--to", "bundle")
        assert exported.returncode == 0, exported.stderr
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    return folder


def the_run(folder: Path) -> str:
    return (folder / "run_id").read_text()


def reenact(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "REENACT_STORE": store_at(folder / "store.db"), "NO_COLOR": "1", **environment}
    return subprocess.run(
        [sys.executable, "-m", "reenact", *arguments],
        cwd=environment.get("PWD", str(folder)), env=env, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def replayed(folder: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    done = reenact(folder, "replay", *arguments, "--json", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_run_replays_with_the_service_gone_and_its_skills_unknown(recorded_store: Path) -> None:
    document = replayed(recorded_store, the_run(recorded_store))

    assert document["verdict"] == "matched"
    assert {aspect for aspect, verdict in document["aspects"].items() if verdict != "match"} == {"stable_fields"}
    assert [step["how"] for step in document["steps"]] == ["served", "served", "served"]
    assert [bool(step["served_without_code"]) for step in document["steps"]] == [False, True, True]


def test_the_exported_folder_replays_without_any_store(recorded_store: Path, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere" / "none.db")

    document = replayed(recorded_store, str(recorded_store / "bundle"), REENACT_STORE=nowhere)
    assert document["verdict"] == "matched"
    assert not Path(nowhere).exists()


def test_the_comparison_is_byte_identical_in_other_processes(recorded_store: Path, tmp_path: Path) -> None:
    worlds: list[dict[str, str]] = [
        {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C", "PWD": str(recorded_store)},
        {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "PWD": str(tmp_path)},
        {"PYTHONHASHSEED": "1", "TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "PWD": "/"},
    ]
    told = [reenact(recorded_store, "replay", the_run(recorded_store), "--json", **world).stdout for world in worlds]
    assert len({json.loads(text)["trace_id"] for text in told}) == len(told), "each replay has an id of its own"
    outputs = {text.replace(json.loads(text)["trace_id"], "…") for text in told}
    texts = {reenact(recorded_store, "replay", the_run(recorded_store), **world).stdout for world in worlds}

    assert len(outputs) == 1
    assert json.loads(outputs.pop())["verdict"] == "matched"
    assert len(texts) == 1


def test_a_mock_replay_writes_nothing(recorded_store: Path) -> None:
    reenact(recorded_store, "ls")  # whoever reads last takes an empty log away
    before = whole(recorded_store / "store.db")
    runs = reenact(recorded_store, "ls", "--json").stdout
    reenact(recorded_store, "replay", the_run(recorded_store))

    assert reenact(recorded_store, "ls", "--json").stdout == runs
    assert whole(recorded_store / "store.db") == before


def test_a_saved_report_is_counted_by_the_metrics_and_not_as_a_run(recorded_store: Path) -> None:
    assert reenact(recorded_store, "replay", the_run(recorded_store), "--save").returncode == 0

    exposed = reenact(recorded_store, "metrics").stdout.splitlines()
    assert 'aos_replay_behavior_match_total{aspect="retry_count"} 1.0' in exposed
    assert 'aos_replay_behavior_match_total{aspect="error_code"} 1.0' in exposed
    assert 'reenact_runs_total{status="completed"} 1.0' in exposed
    assert 'reenact_retries_total{skill="http_call"} 2.0' in exposed


def test_the_text_says_what_was_served_and_what_was_computed(recorded_store: Path) -> None:
    run_id = the_run(recorded_store)
    text = reenact(recorded_store, "replay", run_id).stdout

    assert f"mock_replay of run {run_id}: matched" in text
    assert "computed again: code, retryable, retry count" in text
    assert "served from the record: attempts' facts and responses" in text
    assert "no code for double, again: also served are validate" in text


def test_a_run_that_is_not_there_is_a_usage_error(recorded_store: Path) -> None:
    done = reenact(recorded_store, "replay", "ffffffff")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
