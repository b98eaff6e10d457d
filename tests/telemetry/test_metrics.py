"""Metrics: of the process, of a store, behind an endpoint; replays are compared and never counted as runs."""

from __future__ import annotations

import asyncio
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from reenact import Registry
from reenact.errors import UsageError
from reenact.replay import Runtime
from reenact.replay.modes.saving import save_report
from reenact.store.base import Tally
from reenact.store.open import open_store
from reenact.store.sqlite.store import SqliteStore
from reenact.telemetry.endpoint import serving
from reenact.telemetry.metrics import ReplayMetrics, RuntimeMetrics
from reenact.telemetry.store_metrics import TALLY, exposition
from reenact.values.clock import FixedClock
from tests.replay.compare import mutations  # noqa: F401  # makes them
from tests.replay.compare.mutating import MUTATIONS, PLAN, recording
from tests.replay.recording import mocked
from tests.replay.skills import SKILLS


def new_runtime(*listeners: Any) -> Runtime:
    clock = FixedClock()
    store = SqliteStore(":memory:", clock=clock)
    return Runtime(store, skills=Registry(SKILLS), listeners=listeners, clock=clock)


def samples(text: bytes) -> dict[str, float]:
    lines = [line for line in text.decode().splitlines() if line and not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_a_listener_counts_runs_steps_attempts_retries_cost_and_side_effects() -> None:
    registry = CollectorRegistry()
    new_runtime(RuntimeMetrics(registry)).run(PLAN)
    found = samples(generate_latest(registry))

    assert found["reenact_runs_started_total"] == 1
    assert found['reenact_runs_total{status="failed"}'] == 1
    assert found['reenact_steps_total{code="OK",skill="reader",status="success"}'] == 2
    assert found['reenact_steps_total{code="DENIED_DUPLICATE",skill="reader",status="skipped"}'] == 1
    assert found['reenact_attempts_total{code="ERR_HTTP_429",skill="reader"}'] == 1
    assert found['reenact_retries_total{skill="keyed"}'] == 1
    assert found['reenact_cost_cents_total{skill="keyed"}'] == 4
    assert found['reenact_side_effects_total{type="email_queued"}'] == 2
    assert found['reenact_backoff_seconds_total{skill="reader"}'] > 1.7
    assert found['reenact_step_latency_seconds_count{skill="writer"}'] == 3


def test_a_store_adds_up_to_the_same_numbers() -> None:
    registry = CollectorRegistry()
    runtime = new_runtime(RuntimeMetrics(registry))
    runtime.run(PLAN)
    runtime.run(PLAN)
    live, stored = samples(generate_latest(registry)), samples(exposition(runtime.store))

    shared = {name for name in stored if not name.startswith(("reenact_runs_open", "reenact_runs_unreadable"))}
    assert len(shared) > 20
    assert {name: stored[name] for name in shared} == {name: live.get(name) for name in shared}


REPLAYS = ("aos_", "reenact_replays")


def test_replays_do_not_count_into_production() -> None:
    registry = CollectorRegistry()
    runtime = new_runtime(RuntimeMetrics(registry))
    run_id = runtime.run(PLAN).run_id
    before = samples(generate_latest(registry))
    stored = samples(exposition(runtime.store))

    for mode in ("mock_replay", "full_replay", "dry_run"):
        runtime.replay(run_id, mode=mode)
    runtime.fork(run_id, "next")
    counted = samples(generate_latest(registry))
    assert {name: value for name, value in counted.items() if not name.startswith(REPLAYS)} == before
    assert counted['reenact_replays_total{mode="mock_replay",verdict="matched"}'] == 1
    after = samples(exposition(runtime.store))
    assert {name: value for name, value in after.items() if not name.startswith("aos_")} == stored
    assert after['aos_replay_behavior_match_total{aspect="status"}'] == 2


def test_matches_and_mismatches_are_counted_by_aspect() -> None:
    registry = CollectorRegistry()
    metrics = ReplayMetrics(registry)
    metrics.observe(mocked(recording()))
    wrong = next(mutation for mutation in MUTATIONS if mutation.name == "a_back_off_is_longer")
    metrics.observe(wrong.replayed())
    found = samples(generate_latest(registry))

    assert found['aos_replay_behavior_match_total{aspect="retry_count"}'] == 2
    assert found['aos_replay_behavior_match_total{aspect="error_code"}'] == 2
    assert found['aos_replay_behavior_match_total{aspect="backoff_ms"}'] == 1
    assert found['aos_replay_behavior_mismatch_total{aspect="backoff_ms"}'] == 1


def test_saved_reports_are_counted_from_the_store() -> None:
    runtime = new_runtime()
    run_id = runtime.run(PLAN).run_id
    runtime.replay(run_id, save=True)
    wrong = next(mutation for mutation in MUTATIONS if mutation.name == "a_back_off_is_longer")
    asyncio.run(save_report(runtime.store, recording(), wrong.replayed()))
    found = samples(exposition(runtime.store))

    assert found['aos_replay_behavior_match_total{aspect="backoff_ms"}'] == 1
    assert found['aos_replay_behavior_mismatch_total{aspect="backoff_ms"}'] == 1
    assert found['reenact_runs_total{status="failed"}'] == 1


def test_no_id_is_ever_a_label() -> None:
    runtime = new_runtime()
    run_id = runtime.run(PLAN).run_id
    runtime.replay(run_id, save=True)

    assert run_id[:13] not in exposition(runtime.store).decode()


def test_an_endpoint_answers_and_counts_what_came_since() -> None:
    runtime = new_runtime()
    runtime.run(PLAN)
    with serving(runtime.store, 0) as port:
        first = samples(scrape(port))
        runtime.run(PLAN)
        second = samples(scrape(port))
        with pytest.raises(UsageError, match="choose another --port"), serving(runtime.store, port):
            pass

    name = 'reenact_runs_total{status="failed"}'
    assert (first[name], second[name]) == (1, 2)


def scrape(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        content: bytes = answer.read()
    return content


def test_a_run_that_has_not_ended_is_open_and_counts_nothing_yet() -> None:
    runtime = new_runtime()
    ask = {**PLAN, "context": {**PLAN["context"], "supervisor": "ask"}}
    assert runtime.run(ask).status == "waiting"
    found = samples(exposition(runtime.store))

    assert found['reenact_runs_open{status="waiting"}'] == 1
    assert not [name for name in found if name.startswith("reenact_steps_total")]


def test_a_run_that_nobody_works_on_is_counted_apart_from_those_that_run() -> None:
    runtime = new_runtime()
    with pytest.raises(ZeroDivisionError), runtime.session():
        raise ZeroDivisionError
    with runtime.session():
        found = samples(exposition(runtime.store))

    assert found['reenact_runs_open{status="interrupted"}'] == 1
    assert found['reenact_runs_open{status="running"}'] == 1


def test_a_damaged_run_is_told_and_the_others_still_count() -> None:
    runtime = new_runtime()
    runtime.run(PLAN)
    runtime.run(PLAN)
    store = runtime.store
    assert isinstance(store, SqliteStore)
    store._writer.db.execute("DROP TRIGGER commits_are_not_deleted")
    store._writer.db.execute("DELETE FROM commits WHERE id = (SELECT min(id) + 1 FROM commits)")
    found = samples(exposition(store))

    assert found["reenact_runs_unreadable"] == 1
    assert found['reenact_runs_total{status="failed"}'] == 1


def test_what_runs_add_up_to_is_kept_so_that_each_is_read_once(store_url: str) -> None:
    """Also by another process."""
    with closing(Runtime(store_url, skills=SKILLS)) as runtime:
        runtime.run(PLAN)
        first = samples(exposition(runtime.store))
        kept = runtime.store.tally(TALLY)
        assert kept is not None
        assert kept.sealed == 1
        assert runtime.store.keep_tally(TALLY, Tally(2, kept.sums))  # as if somebody had counted the next one too
        runtime.run(PLAN)
        assert samples(exposition(runtime.store)) == first
        runtime.run(PLAN)
    with closing(open_store(store_url, to_read=True)) as again:
        counted = samples(exposition(again))
        assert counted['reenact_runs_total{status="failed"}'] == 2
        found = again.tally(TALLY)
        assert found is not None
        assert found.sealed == 3


@pytest.mark.parametrize(
    "sums", [b"", b"[]", b"\xff", b'{"sums":{"runs":{}},"unreadable":0}', b'{"sums":{"x":[]},"unreadable":0}']
)
def test_a_tally_that_cannot_be_read_is_none(tmp_path: Path, sums: bytes) -> None:
    with closing(Runtime(f"sqlite:///{tmp_path / 'store.db'}", skills=SKILLS)) as runtime:
        runtime.run(PLAN)
        assert runtime.store.keep_tally(TALLY, Tally(1, sums))
        counted = samples(exposition(runtime.store))
        assert counted['reenact_runs_total{status="failed"}'] == 1
