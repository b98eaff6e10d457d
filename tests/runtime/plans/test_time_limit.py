"""A run's own time limit: it begins nothing more, is sealed as cancelled, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.record.document import read_document
from reenact.record.export import export_run
from reenact.trace import ReplayReader, SessionEnd, StepComplete
from reenact.values.clock import FixedClock
from reenact.verify.verifier import verify_bundle
from tests.crash.harness import KILLED, in_child
from tests.engines.places import store_at
from tests.runtime.running import Bench, plan, step


@skill("take", version="1.0.0", tool_class="read", idempotent=True)
async def take(ctx: SkillContext, ms: int) -> int:
    """Takes its time."""
    await ctx.clock.sleep(ms / 1000)
    return ms


def ends(bench: Bench, run_id: str, folder: Path) -> tuple[str, list[str]]:
    """What its replay log says of its end, and of its steps."""
    export_run(store_at(bench.path), run_id, folder)
    assert verify_bundle(folder).exit_code == 0
    events = list(ReplayReader.from_file(folder / "REPLAY.jsonl").events)
    [end] = [event.status.value for event in events if isinstance(event, SessionEnd)]
    return end, [event.status.value for event in events if isinstance(event, StepComplete)]


def test_a_plan_begins_no_step_beyond_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, take, clock=FixedClock())
    run = bench.run(step(take, {"ms": 1}), step(take, {"ms": 60}), step(take, {"ms": 1}), time_limit_ms=50)
    assert run.status == "cancelled"
    bench.check(run)
    assert ends(bench, run.run_id, tmp_path / "b") == ("Timeout", ["Success", "Success", "Skipped"])
    document = read_document(bench.store, run.run_id)
    [cancelled] = [event for event in document["events"] if event["type"] == "cancel"]
    assert (cancelled["who"], cancelled["reason"]) == (None, "its time limit of 50 ms was over")
    assert bench.runtime.replay(run.run_id).verdict == "matched"


def test_a_plan_that_has_done_all_of_it_is_completed_however_late(tmp_path: Path) -> None:
    bench = Bench(tmp_path, take, clock=FixedClock())
    assert bench.run(step(take, {"ms": 60}), time_limit_ms=50).status == "completed"


def test_a_back_off_is_not_slept_beyond_it(tmp_path: Path) -> None:
    @skill("shy", version="1.0.0", tool_class="read", idempotent=True, retry={"backoff_base_ms": 300_000})
    def shy() -> None:
        """Never answers."""
        raise TimeoutError("not yet")

    bench = Bench(tmp_path, shy, clock=FixedClock())
    run = bench.run(step(shy, retry={"max_backoff_ms": None}), time_limit_ms=100)
    assert run.status == "cancelled"
    assert ends(bench, run.run_id, tmp_path / "b") == ("Timeout", ["Failed"])


def test_a_sessions_calls_are_refused_beyond_it_and_it_is_cancelled(tmp_path: Path) -> None:
    bench = Bench(tmp_path, take, clock=FixedClock())
    with bench.runtime.session(context={"time_limit_ms": 60}) as session:
        assert session.call("take", {"ms": 80}).ok
        refused = session.call("take", {"ms": 1})
    assert (refused.code, refused.message) == ("ERR_CANCELLED", "the run was ended: its time limit of 60 ms was over")
    assert bench.store.find_run(session.run_id).status == "cancelled"
    assert ends(bench, session.run_id, tmp_path / "b") == ("Timeout", ["Success", "Failed"])
    assert bench.runtime.replay(session.run_id).verdict == "matched"


def test_it_counts_from_the_first_start_and_ends_the_run_in_another_process_too(tmp_path: Path) -> None:
    def start() -> None:
        bench = Bench(tmp_path, take, clock=FixedClock())
        bench.run(step(take, {"ms": 120}), step(take, {"ms": 1}), time_limit_ms=100)

    assert in_child(start, crash_at="after_dispatch") == KILLED
    bench = Bench(tmp_path, take)
    [run] = bench.runtime.recover()
    assert run.status == "cancelled"
    bench.check(run)
    assert ends(bench, run.run_id, tmp_path / "b")[0] == "Timeout"


@pytest.mark.parametrize("point", ["before_seal", "after_effect:2", "before_commit:3", "after_commit:3"])
def test_killed_around_its_end_it_ends_the_same(point: str, tmp_path: Path) -> None:
    def start() -> None:
        bench = Bench(tmp_path, take, clock=FixedClock())
        bench.run(step(take, {"ms": 80}), step(take, {"ms": 1}), time_limit_ms=60)

    if in_child(start, crash_at=point) == KILLED:
        Bench(tmp_path, take).runtime.recover()
    bench = Bench(tmp_path, take)
    [row] = bench.store.runs()
    assert row.status == "cancelled"
    assert ends(bench, row.run_id, tmp_path / "b")[0] == "Timeout"


def test_who_cancels_a_run_is_told_apart(tmp_path: Path) -> None:
    from tests.runtime.running import ask_to_cancel

    bench = Bench(tmp_path, take)

    @skill("stop", version="1.0.0", tool_class="read")
    def stop(ctx: SkillContext) -> None:
        """Asks for the end of its own run."""
        ask_to_cancel(bench.store, ctx.run_id)

    bench.runtime.registry.register(stop)
    run = bench.run(step(stop), step(take, {"ms": 1}), time_limit_ms=600_000)
    assert run.status == "cancelled"
    assert ends(bench, run.run_id, tmp_path / "b")[0] == "Cancelled"


def test_a_limit_that_is_none_is_refused(tmp_path: Path) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[take])
    for wrong in (0, -1, "soon", 1.5):
        with pytest.raises(Exception, match="time_limit_ms"):
            runtime.run(plan(step(take, {"ms": 1}), time_limit_ms=wrong))
