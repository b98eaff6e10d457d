"""While the journal cannot be written effects fail closed; reads go on where the host said so, and say so."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reenact import RunResult, Runtime, SkillContext, skill
from reenact.errors import SkillError, StoreError, StoreUnavailable
from reenact.runtime.listeners import Notice
from reenact.skills.skill import Skill
from reenact.store.base import Lease, Unit
from tests.engines.places import store_at
from tests.runtime.running import Bench, plan, step

CALLED: list[str] = []
CENT = 10_000_000_000


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLED.clear()


class Disk:
    """Is full from when a step says so until another one does."""

    def __init__(self) -> None:
        self.is_full = False
        self.is_mended = False

    def under(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        real = bench.store.append

        def append(unit: Unit, lease: Lease | None, *, owner: str = "") -> Lease:
            if self.is_full:
                raise StoreUnavailable("the disk is full")
            return real(unit, lease, owner=owner)

        monkeypatch.setattr(bench.store, "append", append)


def skills(disk: Disk) -> tuple[Skill, ...]:
    @skill("look", version="1.0.0", tool_class="read", cost_estimate_cents=4)
    async def look(ctx: SkillContext, full: bool | None = None, given: Any = None, failures: int = 0) -> Any:
        """Reads; what it finds is what it is given."""
        CALLED.append(ctx.step_id)
        if full is not None and not disk.is_mended:
            disk.is_full = full
        if ctx.attempt < failures:
            raise SkillError.of("ERR_HTTP_503", "later")
        return {"found": given}

    @skill("put", version="1.0.0", tool_class="write")
    async def put(ctx: SkillContext) -> str:
        """Writes."""
        CALLED.append(ctx.step_id)
        return "done"

    return look, put


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def told() -> list[Notice]:
    return []


@pytest.fixture
def bench(tmp_path: Path, disk: Disk, told: list[Notice], monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path, *skills(disk), unrecorded_reads=True, listeners=[told.append])
    disk.under(made, monkeypatch)
    return made


def unrecorded(result: RunResult) -> list[str]:
    return [outcome.step_id for outcome in result.outcomes if (outcome.details or {}).get("unrecorded")]


def test_reads_of_a_plan_go_on_and_are_recorded_once_that_is_possible(
    bench: Bench, told: list[Notice], caplog: pytest.LogCaptureFixture
) -> None:
    fills = step("look", {"full": True, "given": 7})
    refers = step("look", {"given": "{{s0.found}}", "failures": 1}, retry={"max_retries": 2, "backoff_base_ms": 1})
    frees = step("look", {"full": False, "given": "{{s1.found}}"})
    with caplog.at_level(logging.WARNING, logger="reenact.journal"):
        result = bench.run(fills, refers, frees, step("put"))
    assert result.status == "completed"
    assert [outcome.code for outcome in result.outcomes] == ["OK"] * 4
    assert result.outcomes[2].output == {"found": 7}
    assert unrecorded(result) == ["s1", "s2"]
    assert [notice.step_id for notice in told if notice.kind == "unrecorded"] == ["s1", "s2"]
    assert "step s1 goes on without a record: the disk is full" in caplog.text
    assert CALLED == ["s0", "s1", "s1", "s2", "s3"]
    bench.check(result)
    assert bench.runtime.replay(result.run_id).verdict == "matched"


def test_a_write_stops_the_run_before_it_is_made(bench: Bench, disk: Disk) -> None:
    with pytest.raises(StoreError):
        bench.run(step("look", {"full": True}), step("look"), step("put"))
    assert CALLED == ["s0", "s1"]
    disk.is_full, disk.is_mended = False, True
    result = bench.runtime.resume("last")
    assert result.status == "completed"
    bench.check(result)


def test_a_run_does_not_end_without_its_record(bench: Bench) -> None:
    with pytest.raises(StoreError):
        bench.run(step("look", {"full": True}), step("look"))
    assert CALLED == ["s0", "s1"]


@pytest.mark.parametrize(("then", "context"), [
    (step("look", {"full": 5}), {}),
    (step("look", {"given": 1}), {"profile": {"denied_skills": ["look@1.0.0"]}}),
    (step("look"), {"budget_cents": 5}),
    (step("look"), {"budget": {"per_day_cents": 5}}),
    (step("look"), {"supervisor": "ask"}),
    (step("look", idempotency_key="k"), {}),
    (step("nobody"), {}),
])  # fmt: skip
def test_what_a_gate_would_not_let_pass_is_not_made(
    then: dict[str, Any], context: dict[str, Any], tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    @skill("first", version="1.0.0", tool_class="read", cost_estimate_cents=4)
    async def first() -> None:
        """Fills the disk."""
        disk.is_full = True

    @skill("look", version="1.0.0", tool_class="read", high_risk=True, cost_estimate_cents=4)
    async def look(ctx: SkillContext, full: bool | None = None, given: Any = None) -> None:
        """Is not to be called."""
        CALLED.append(ctx.step_id)

    bench = Bench(tmp_path, first, look, unrecorded_reads=True)
    disk.under(bench, monkeypatch)
    with pytest.raises(StoreError):
        bench.run(step("first"), then, on_error="continue", **context)
    assert CALLED == []


def test_reads_without_a_record_are_charged(bench: Bench, disk: Disk) -> None:
    """Five cents are left for reads of four: there is no second one."""
    context = {"budget": {"per_day_cents": 9}}
    with bench.runtime.session(budget_cents=9, context=context) as session:
        assert session.call("look", {"full": True}).ok
        assert session.call("look").ok
        with pytest.raises(StoreError):
            session.call("look")
        assert len(CALLED) == 2
        disk.is_full = False
        assert session.call("look").code == "ERR_BUDGET_EXCEEDED"
        assert session.spent_exact == 8 * CENT
    bench.check(session.run_id)
    day = bench.runtime.clock.timestamp()[:10]
    assert bench.store.spent(day, "agent") == {"": 8 * CENT}
    assert bench.store.set_apart(day, "agent") == {}


LIMITS = ({"per_day_cents": 10}, {"per_model_cents": {"m": 10}})


@skill("ask", version="1.0.0", tool_class="read", cost_model="tokens")
async def ask(ctx: SkillContext, model: str = "m", max_tokens: int = 4) -> None:
    """Costs four cents."""
    CALLED.append(ctx.step_id)
    ctx.usage(0, 4)


@pytest.mark.parametrize("budget", LIMITS)
@pytest.mark.parametrize("together", [False, True])
def test_reads_without_a_record_do_not_spend_more_than_a_day_or_a_model_has(
    budget: dict[str, Any], together: bool, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, ask, unrecorded_reads=True)
    disk.under(bench, monkeypatch)
    context = {"budget": budget, "prices": {"models": {"m": {"input": "0", "output": str(CENT)}}}}

    async def scene() -> str:
        async with bench.runtime.session(context=context) as session:
            disk.is_full = True
            if together:
                await asyncio.gather(*(session.call("ask") for _ in range(5)), return_exceptions=True)
            for _ in range(0 if together else 5):
                with suppress(StoreError):
                    await session.call("ask")
            assert len(CALLED) == 2
            disk.is_full = False
            assert (await session.call("ask")).code == "ERR_BUDGET_EXCEEDED"
        return session.run_id

    asyncio.run(scene())
    assert bench.store.spent(bench.runtime.clock.timestamp()[:10], "agent") == {"m": 8 * CENT}


def test_a_result_that_cannot_be_recorded_is_handed_over_and_not_asked_for_again(bench: Bench, disk: Disk) -> None:
    with bench.runtime.session() as session:
        outcome = session.call("look", {"full": True, "given": 3})
        assert outcome.output == {"found": 3}
        assert (outcome.details or {})["unrecorded"] is True
        disk.is_full = False
    assert CALLED == ["c1"]
    bench.check(session.run_id)


def test_a_session_may_say_otherwise_than_its_runtime(bench: Bench) -> None:
    with pytest.raises(StoreError), bench.runtime.session(unrecorded_reads=False) as session:
        session.call("look", {"full": True})


def test_nothing_goes_on_where_nobody_said_so(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, *skills(disk))
    disk.under(bench, monkeypatch)
    with pytest.raises(StoreError):
        bench.run(step("look", {"full": True}), step("look"))
    assert CALLED == ["s0"]


def test_a_plan_cannot_allow_itself_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="unrecorded_reads"):
        Runtime(store_at(tmp_path / "store.db")).run(plan(step("look"), unrecorded_reads=True))
