"""full_replay, dry_run, forks and diffs: what is called, what is not, what is charged, and how it compares."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, SkillContext, skill
from reenact.errors import DeterminismBroken, UntrustedPlan, UsageError
from reenact.record.export import export_run
from reenact.record.recording import Recording
from reenact.replay import Runtime, apply_changes, load_recording, side_by_side
from reenact.replay.compare.render import comparison_document, text_lines
from reenact.replay.compare.sides import text_lines as side_lines
from reenact.replay.modes.notes import notes_of
from reenact.replay.result import ReplayResult
from reenact.store.checks.verification import verify_run
from reenact.values.canonical import canonicalize
from reenact.values.clock import FixedClock
from tests.engines.places import opened, store_at
from tests.replay.recording import Crash, armed

CALLS: list[tuple[str, object]] = []
READ_BACK: list[str] = []
WORLD: dict[str, Any] = {"price": 5, "there": True, "answers": "ok"}


@skill("price", version="1.0.0", tool_class="read", side_effects=["http_request"], cost_estimate_cents=2)
async def price(ctx: SkillContext, item: str) -> dict[str, Any]:
    CALLS.append(("price", item))
    ctx.side_effect("http_request", "shop.example")
    if ctx.attempt == 0 and WORLD["answers"] == "ok":
        ctx.http_status(503)
    return {"item": item, "cents": WORLD["price"]}


async def read_back(ctx: SkillContext, cents: int) -> dict[str, Any]:
    READ_BACK.append(ctx.idempotency_key)
    return {"done": WORLD["there"], "output": f"paid {cents}"}


@skill(
    "pay", version="1.0.0", tool_class="write", side_effects=["payment"], cost_estimate_cents=1,
    in_doubt="reconcile", reconcile=read_back,
)  # fmt: skip
async def pay(ctx: SkillContext, cents: int) -> str:
    CALLS.append(("pay", ctx.idempotency_key))
    ctx.side_effect("payment", "bank.example")
    return f"paid {cents}"


@skill("mail", version="1.0.0", tool_class="write", side_effects=["email_queued"])
async def mail(ctx: SkillContext, text: str) -> str:
    CALLS.append(("mail", text))
    ctx.side_effect("email_queued", "example.org")
    return text


PLAN: dict[str, Any] = {
    "plan_id": "shopping",
    "agent_id": "buyer",
    "goal": "buy it",
    "steps": [
        {"step_id": "look", "skill_id": "price", "parameters": {"item": "tea"},
         "retry": {"jitter_enabled": True, "jitter_max_ms": 90}},
        {"step_id": "pay", "skill_id": "pay", "parameters": {"cents": "{{look.cents}}"}, "idempotency_key": "order-1"},
        {"step_id": "tell", "skill_id": "mail", "parameters": {"text": "{{pay}}"}},
        {"step_id": "again", "skill_id": "price", "parameters": {"item": "cup"}},
    ],
    "context": {"budget_cents": 100},
}  # fmt: skip


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    WORLD.update(price=5, there=True, answers="ok")
    clock = FixedClock()
    store = opened(tmp_path / "store.db", clock=clock)
    return Runtime(store, skills=Registry([price, pay, mail]), clock=clock)


@pytest.fixture
def original(runtime: Runtime) -> Recording:
    run_id = runtime.run(PLAN).run_id
    CALLS.clear()
    return load_recording(runtime.store, run_id)


def hows(result: ReplayResult) -> dict[str, str]:
    return {report.step_id: report.how for report in result.how}


def holds(runtime: Runtime, run_id: str) -> bool:
    return verify_run(runtime.store.url, run_id).exit_code == 0


# -- full_replay -----------------------------------------------------------------------------------------------------


def test_reads_are_made_again_and_writes_are_not(runtime: Runtime, original: Recording) -> None:
    result = runtime.replay(original.run_id, mode="full_replay")

    assert result.verdict == "matched"
    assert [name for name, _ in CALLS] == ["price", "price", "price", "price"]
    assert hows(result) == {"look": "live", "pay": "skipped", "tell": "skipped", "again": "live"}
    assert result.get_step("pay").outcome.output == "paid 5"
    assert result.get_step("pay").cost_cents == 1, "what it cost is charged to the replay as it was then"
    assert holds(runtime, result.run_id)


def test_a_write_is_made_again_by_its_name_with_a_new_key(runtime: Runtime, original: Recording) -> None:
    first_key = original.trace("pay").call.idempotency_key  # type: ignore[union-attr]
    result = runtime.replay(original.run_id, mode="full_replay", execute=["pay"])

    assert [name for name, _ in CALLS] == ["price", "price", "pay", "price", "price"]
    assert CALLS[2][1] != first_key
    assert hows(result)["pay"] == "live"
    assert result.verdict == "matched"
    assert holds(runtime, result.run_id)


def test_all_writes_are_not_repeated_by_one_word(runtime: Runtime, original: Recording) -> None:
    with pytest.raises(UsageError, match="by the name of their step only"):
        runtime.replay(original.run_id, mode="full_replay", execute=["write"])
    assert CALLS == []


def test_reads_can_be_skipped_too(runtime: Runtime, original: Recording) -> None:
    result = runtime.replay(original.run_id, mode="full_replay", skip=["read"], execute=["again"])

    assert CALLS == [("price", "cup"), ("price", "cup")]
    assert hows(result) == {"look": "skipped", "pay": "skipped", "tell": "skipped", "again": "live"}


@pytest.mark.parametrize(("there", "verdict"), [(True, "matched"), (False, "world_differed")])
def test_a_check_asks_whether_the_effect_still_stands(
    runtime: Runtime, original: Recording, there: bool, verdict: str
) -> None:
    WORLD["there"] = there
    result = runtime.replay(original.run_id, mode="full_replay", check=["pay"])

    assert ("pay" in [name for name, _ in CALLS]) is False
    assert (hows(result)["pay"], result.verdict) == ("checked", verdict)
    if not there:
        assert result.get_step("pay").final_code == "ERR_IN_DOUBT"
        assert result.divergence is not None
        assert (result.divergence.difference.step_id, result.divergence.difference.aspect) == ("pay", "status")


def test_a_check_looks_for_the_effect_under_the_key_that_it_was_made_with(
    runtime: Runtime, original: Recording
) -> None:
    READ_BACK.clear()
    runtime.replay(original.run_id, mode="full_replay", check=["pay"])

    made = original.trace("pay")
    assert made is not None
    assert made.call is not None
    assert [made.call.idempotency_key] == READ_BACK


def test_what_cannot_be_checked_is_refused_before_anything_runs(runtime: Runtime, original: Recording) -> None:
    with pytest.raises(UsageError, match=r"step tell cannot be checked: mail@1\.0\.0 declares no read-back"):
        runtime.replay(original.run_id, mode="full_replay", check=["tell"])
    assert CALLS == []


def test_a_name_that_no_step_has_is_refused(runtime: Runtime, original: Recording) -> None:
    with pytest.raises(UsageError, match="there is no step 'pays'"):
        runtime.replay(original.run_id, mode="full_replay", execute=["pays"])
    with pytest.raises(UsageError, match="asked for as execute and as skip"):
        runtime.replay(original.run_id, mode="full_replay", execute=["pay"], skip=["pay"])


def test_the_new_run_is_linked_and_its_jitter_is_the_originals(runtime: Runtime, original: Recording) -> None:
    result = runtime.replay(original.run_id, mode="full_replay")
    again = load_recording(runtime.store, result.run_id)

    assert (again.record.mode, again.record.parent_run) == ("full_replay", original.run_id)
    assert [attempt.backoff_ms for attempt in again.results("look")] == [
        attempt.backoff_ms for attempt in original.results("look")
    ]
    assert again.document["context"] != original.document["context"], "its salt is its own"


def test_the_journal_of_the_replay_holds_its_trace_record(runtime: Runtime, original: Recording) -> None:
    result = runtime.replay(original.run_id, mode="full_replay")
    told, trace = notes_of(runtime.store, result.run_id)

    assert told["actions"] == {"look": "execute", "pay": "skip", "tell": "skip", "again": "execute"}
    assert (trace["trace_id"], trace["replay_mode"]) == (result.run_id, "full_replay")
    assert trace["original_run_id"] == original.run_id
    assert trace["behavior_match"] == result.behavior_match
    assert result.behavior_match["retry_count"] is True


def test_another_world_is_a_difference_and_no_failure(runtime: Runtime, original: Recording) -> None:
    WORLD["answers"] = "at once"
    result = runtime.replay(original.run_id, mode="full_replay")

    assert (result.verdict, result.status, result.exit_code) == ("world_differed", "completed", 5)
    assert result.behavior_match["retry_count"] is False
    assert result.behavior_match["status"] is True


def test_another_price_is_content_and_differs_nowhere_else(runtime: Runtime, original: Recording) -> None:
    WORLD["price"] = 6
    result = runtime.replay(original.run_id, mode="full_replay")

    assert result.verdict == "matched"
    assert [(item.step_id, item.pointers) for item in result.content] == [("look", ("/cents",)), ("again", ("/cents",))]


@pytest.mark.parametrize("point", ["before_dispatch", "after_dispatch", "in_backoff", "before_commit", "before_seal"])
def test_a_replay_that_crashed_goes_on_as_it_was_told(runtime: Runtime, original: Recording, point: str) -> None:
    with armed(point, 2 if point == "before_commit" else 1), pytest.raises(Crash):
        runtime.replay(original.run_id, mode="full_replay")
    runtime.clock.advance(60)  # type: ignore[attr-defined]
    (run_id,) = [row.run_id for row in runtime.store.runs() if row.mode == "full_replay"]
    result = runtime.resume(run_id)

    assert isinstance(result, ReplayResult)
    assert (result.status, result.verdict in ("matched", "world_differed")) == ("completed", True)
    assert {name for name, _ in CALLS} == {"price"}, "no write, whatever happened"
    assert holds(runtime, run_id)


def test_recovery_goes_on_with_replays_too(runtime: Runtime, original: Recording) -> None:
    with armed("in_backoff", 1), pytest.raises(Crash):
        runtime.replay(original.run_id, mode="full_replay")
    runtime.clock.advance(60)  # type: ignore[attr-defined]
    (result,) = runtime.recover()

    assert (result.status, {name for name, _ in CALLS}) == ("completed", {"price"})


def test_a_replay_of_a_replay_and_a_mock_of_it_match(runtime: Runtime, original: Recording) -> None:
    first = runtime.replay(original.run_id, mode="full_replay", execute=["pay", "tell"])
    second = runtime.replay(first.run_id, mode="full_replay", execute=["pay", "tell"])

    assert second.verdict == "matched"
    assert runtime.replay(first.run_id).verdict == "matched"
    assert runtime.replay(second.run_id).verdict == "matched"


# -- from a folder ---------------------------------------------------------------------------------------------------


def test_a_folder_is_replayed_live_on_another_machine(runtime: Runtime, original: Recording, tmp_path: Path) -> None:
    export_run(runtime.store.url, original.run_id, tmp_path / "bundle")
    elsewhere = Runtime(store_at(tmp_path / "elsewhere.db"), skills=Registry([price, pay, mail]))

    assert elsewhere.replay(tmp_path / "bundle").verdict == "matched"
    with pytest.raises(UntrustedPlan, match=r"would use skills price@1\.0\.0\. If you trust it, say --trust-plan"):
        elsewhere.replay(tmp_path / "bundle", mode="full_replay")
    live = elsewhere.replay(str(tmp_path / "bundle"), mode="full_replay", trust_plan=True)
    assert live.verdict == "matched"
    assert [row.mode for row in elsewhere.store.runs()] == ["full_replay"]


# -- dry_run ---------------------------------------------------------------------------------------------------------


def test_a_dry_run_touches_nothing_and_estimates(runtime: Runtime, original: Recording) -> None:
    runs, key = runtime.store.runs(), original.trace("pay").call.idempotency_key  # type: ignore[union-attr]
    before = runtime.store.key_record("local", "pay", key)
    result = runtime.replay(original.run_id, mode="dry_run")

    assert (CALLS, runtime.store.runs()) == ([], runs)
    assert runtime.store.key_record("local", "pay", key) == before
    assert (result.verdict, result.exit_code) == ("estimated", 0)
    assert result.estimate is not None
    assert (result.estimate.cost_cents, result.estimate.budget_stops_at) == (5, None)
    assert [step.side_effects for step in result.estimate.steps] == [
        (("http_request", "shop.example"),),
        (("payment", "bank.example"),),
        (("email_queued", "example.org"),),
        (("http_request", "shop.example"),),
    ]
    assert result.estimate.time_ms is not None
    assert result.estimate.time_ms >= 100


def test_a_dry_run_says_where_the_budget_would_stop(runtime: Runtime) -> None:
    plan = {**PLAN, "context": {"budget_cents": 6}}
    run_id = runtime.run(plan).run_id
    result = runtime.replay(run_id, mode="dry_run")

    assert result.estimate is not None
    assert result.estimate.budget_stops_at is None, "without retries it costs 5 cents"
    lines = "\n".join(text_lines(result))
    assert "in all about 5 cents" in lines
    assert "touches payment → bank.example" in lines

    run_id = runtime.run({**PLAN, "context": {"budget_cents": 4, "on_error": "continue"}}).run_id
    result = runtime.replay(run_id, mode="dry_run")
    assert result.estimate is not None
    assert result.estimate.budget_stops_at == "again"


def test_a_plan_that_never_ran_is_estimated_by_what_its_skills_declare(runtime: Runtime) -> None:
    CALLS.clear()
    result = runtime.dry_run({**PLAN, "context": {"budget_cents": 4, "supervisor": "ask"}})

    assert (CALLS, runtime.store.runs()) == ([], [])
    assert result.estimate is not None
    assert [(step.step_id, step.code, step.side_effects) for step in result.estimate.steps] == [
        ("look", "OK", (("http_request", "price"),)),
        ("pay", "OK", (("payment", "pay"),)),
        ("tell", "OK", (("email_queued", "mail"),)),
        ("again", "ERR_BUDGET_EXCEEDED", ()),
    ]
    assert [step.asks_person for step in result.estimate.steps] == [False, True, True, False]
    assert (result.estimate.budget_stops_at, result.estimate.time_ms) == ("again", None)


def test_a_dry_run_still_sees_what_is_wrong_with_a_plan(runtime: Runtime) -> None:
    wrong = {"step_id": "pay", "skill_id": "pay", "parameters": {"cents": "many"}}
    result = runtime.dry_run({**PLAN, "steps": [wrong]})

    assert result.estimate is not None
    assert [step.code for step in result.estimate.steps] == ["ERR_VALIDATION_FAILED"]


# -- forks -----------------------------------------------------------------------------------------------------------


def test_a_fork_takes_the_record_before_its_step_and_goes_on_live(runtime: Runtime, original: Recording) -> None:
    changes = apply_changes(original, {"outputs.look.cents": 7})
    result = runtime.fork(original.run_id, "pay", changes=changes, live=True)

    assert [name for name, _ in CALLS] == ["pay", "mail", "price", "price"]
    assert hows(result) == {"look": "served", "pay": "live", "tell": "live", "again": "live"}
    assert result.get_step("tell").outcome.output == "paid 7"
    again = load_recording(runtime.store, result.run_id)
    assert (again.record.mode, again.record.parent_run) == ("fork", original.run_id)
    assert holds(runtime, result.run_id)


def test_a_mocked_fork_ends_where_nobody_knows_the_answer(runtime: Runtime, original: Recording) -> None:
    changes = apply_changes(original, {"steps.again.parameters.item": "pot"})
    result = runtime.fork(original.run_id, "again", changes=changes)

    assert CALLS == []
    assert (result.status, result.verdict) == ("cancelled", "differed")
    assert result.divergence is not None
    assert result.divergence.difference.aspect == "parameters"
    assert result.divergence.asked == "a call with parameters that the recorded run did not use"
    assert result.divergence.nearest is not None
    assert result.divergence.nearest.differs_in == ("/item",)
    assert holds(runtime, result.run_id)


def test_a_mocked_fork_with_a_smaller_budget_shows_where_it_stops(runtime: Runtime, original: Recording) -> None:
    changes = apply_changes(original, {}, {"budget_cents": 6})
    result = runtime.fork(original.run_id, "again", changes=changes)

    assert result.divergence is not None
    difference = result.divergence.difference
    assert (difference.step_id, difference.aspect, difference.when) == ("again", "budget_stop", "gates")
    assert holds(runtime, result.run_id)


def test_a_change_that_takes_effect_before_the_fork_is_refused(runtime: Runtime, original: Recording) -> None:
    with pytest.raises(UsageError, match=r"already takes effect in step look \(.*\); fork at look or earlier"):
        runtime.fork(original.run_id, "tell", changes=apply_changes(original, {"context.retry": {"max_retries": 0}}))


def test_a_fork_at_a_step_that_is_not_there_is_refused(runtime: Runtime, original: Recording) -> None:
    with pytest.raises(UsageError, match=r"--at nowhere: run .* has no such step"):
        runtime.fork(original.run_id, "nowhere")


def test_a_live_fork_needs_the_skills_of_its_live_steps_only(runtime: Runtime, original: Recording) -> None:
    runtime.registry = Registry([pay, mail])
    with pytest.raises(DeterminismBroken, match=r"price@1\.0\.0"):
        runtime.fork(original.run_id, "pay", live=True)

    runtime.registry = Registry([price])
    assert runtime.fork(original.run_id, "again", live=True).verdict == "matched"


@pytest.mark.parametrize("point", ["before_dispatch", "after_dispatch", "before_seal"])
def test_a_fork_that_crashed_goes_on_where_it_was(runtime: Runtime, original: Recording, point: str) -> None:
    changes = apply_changes(original, {"outputs.look.cents": 7})
    with armed(point, 1 if point == "before_seal" else 3), pytest.raises(Crash):
        runtime.fork(original.run_id, "pay", changes=changes, live=True)
    runtime.clock.advance(60)  # type: ignore[attr-defined]
    (run_id,) = [row.run_id for row in runtime.store.runs() if row.mode == "fork"]
    result = runtime.resume(run_id)

    assert result.status == "completed"
    assert result.get_step("tell").outcome.output == "paid 7"
    assert holds(runtime, run_id)


CHANGES: dict[str, tuple[dict[str, object], dict[str, object] | None, str]] = {
    "a path that leads nowhere": (
        {"steps.look.parameters.item.deeper": 1},
        None,
        "there is nothing to set 'deeper' in",
    ),
    "no such step": ({"steps.lok.parameters.item": 1}, None, "there is no such step"),
    "no such beginning": ({"plan_id": "x"}, None, "begins with steps.STEP., context. or outputs.STEP."),
    "the pins": ({"context.pins.salt": "00"}, None, "begins with"),
    "an unknown policy": ({}, {"colour": "red"}, "a policy has no field 'colour'"),
    "a plan that is none": ({"context.budget_cents": -1}, None, "budget_cents"),
    "nothing to set": ({"steps.look": 1}, None, "say what to set in it"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_refused_with_its_path(original: Recording, case: str) -> None:
    sets, policy, words = CHANGES[case]
    with pytest.raises(UsageError) as caught:
        apply_changes(original, sets, policy)
    assert words in str(caught.value)


# -- side by side ----------------------------------------------------------------------------------------------------


def test_two_runs_side_by_side_show_aspects_and_values(runtime: Runtime, original: Recording) -> None:
    changes = apply_changes(original, {"outputs.look.cents": 7})
    forked = runtime.fork(original.run_id, "pay", changes=changes, live=True)
    sides = side_by_side(original, load_recording(runtime.store, forked.run_id))

    assert not sides.same
    assert [(row.step_id, row.differs_in) for row in sides.rows if row.differs_in] == [
        ("pay", ("parameters",)), ("tell", ("parameters",)),
    ]  # fmt: skip
    assert [(item.step_id, item.where, item.left, item.right) for item in sides.values] == [
        ("look", "output/cents", 5, 7),
        ("pay", "parameters/cents", 5, 7),
        ("pay", "output", "paid 5", "paid 7"),
        ("tell", "parameters/text", "paid 5", "paid 7"),
        ("tell", "output", "paid 5", "paid 7"),
    ]
    assert any("value look output/cents: 5 | 7" in line for line in side_lines(sides))


def test_a_run_beside_itself_is_the_same(original: Recording) -> None:
    sides = side_by_side(original, original)

    assert sides.same
    assert (sides.values, sides.plans) == ((), ())


# -- reports ---------------------------------------------------------------------------------------------------------


def test_a_saved_report_is_a_sealed_run_without_anybodys_values(runtime: Runtime, original: Recording) -> None:
    result = runtime.replay(original.run_id, save=True)
    (saved,) = [row for row in runtime.store.runs() if row.mode == "mock_replay"]
    (note,) = notes_of(runtime.store, saved.run_id)

    assert (saved.status, saved.parent_run) == ("completed", original.run_id)
    assert canonicalize(note["report"]) == canonicalize(comparison_document(result))
    assert holds(runtime, saved.run_id)
    assert not any(b"paid 5" in envelope or b"tea" in envelope for _, envelope in runtime.store.payloads(saved.run_id))


def test_options_of_one_mode_are_refused_in_another(runtime: Runtime, original: Recording) -> None:
    for options in ({"execute": ["pay"]}, {"save": True, "mode": "dry_run"}, {"mode": "wet_run"}):
        with pytest.raises(UsageError):
            runtime.replay(original.run_id, **{"mode": "mock_replay", **options})  # type: ignore[arg-type]


def test_inside_a_loop_the_async_front_is_used(runtime: Runtime, original: Recording) -> None:
    async def inside() -> ReplayResult:
        with pytest.raises(UsageError, match="_async"):
            runtime.replay(original.run_id)
        return await runtime.replay_async(original.run_id)

    assert asyncio.run(inside()).matches
