"""A pinned plan is run as it is pinned, or refused as a whole with the place of what does not fit."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from reenact import SkillContext, skill
from reenact.errors import PlanError
from tests.runtime.running import LOADS_ANY, Bench, Document, plan, step

PINNED = "pin the plan again"


@skill("flaky", version="1.0.0", tool_class="read", cost_estimate_cents=2, retry={"backoff_base_ms": 0})
def flaky(ctx: SkillContext, failures: int = 1) -> int:
    """Fails, then works."""
    if ctx.attempt < failures:
        raise TimeoutError
    return ctx.attempt


@skill("ask-a-model", version="1.0.0", tool_class="read", cost_model="tokens")
def ask(prompt: str, model: str = "stub") -> str:
    """Stands for a model."""
    return prompt


@pytest.fixture(scope="module")
def bench(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("pins"), flaky, ask, policy=LOADS_ANY)


@pytest.fixture
def pinned(bench: Bench) -> Document:
    return deepcopy(bench.runtime.pinned(plan(step(flaky), step(ask, {"prompt": "hello"}))))


def put(document: Document, path: str, value: object) -> None:
    """Set, or with `...` remove, what stands at a path of keys and indexes."""
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place: Any = document
    for part in way:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value


PINS = "context/pins"
ROW = f"{PINS}/prices/skills/flaky@1.0.0"
DEFAULT = f"{PINS}/retry/default"
WRONG: list[tuple[str, object, str]] = [
    (f"{ROW}/cost_estimate_cents", -1, "$.context.pins.prices.skills['flaky@1.0.0'].cost_estimate_cents"),
    (f"{ROW}/cost_estimate_cents", "x", "$.context.pins.prices.skills['flaky@1.0.0'].cost_estimate_cents"),
    (f"{ROW}/cost_estimate_cents", 1.5, "$.context.pins.prices.skills['flaky@1.0.0'].cost_estimate_cents"),
    (f"{ROW}/cost_estimate_cents", True, "$.context.pins.prices.skills['flaky@1.0.0'].cost_estimate_cents"),
    (f"{ROW}/cost_estimate_cents", 2**53 - 1, "$.context.pins.prices.skills['flaky@1.0.0'].cost_estimate_cents"),
    (f"{ROW}/cost_estimate_cents", ..., "$.context.pins.prices.skills['flaky@1.0.0']"),
    (f"{ROW}/cost_model", "vibes", "$.context.pins.prices.skills['flaky@1.0.0'].cost_model"),
    (f"{ROW}/colour", "red", "$.context.pins.prices.skills['flaky@1.0.0']"),
    (ROW, ..., "$.context.pins.prices.skills: there is no price for flaky@1.0.0"),
    (f"{PINS}/prices/skills", [], "$.context.pins.prices.skills"),
    (f"{PINS}/prices", {}, "$.context.pins.prices"),
    (f"{PINS}/prices/models", ..., "$.context.pins.prices"),
    (f"{PINS}/prices/version", ..., "$.context.pins.prices"),
    (f"{PINS}/prices/models/stub/input", "3.00", "$.context.pins.prices.models.stub.input"),
    (f"{PINS}/prices/models/stub/input", "-3", "$.context.pins.prices.models.stub.input"),
    (f"{PINS}/prices/models/stub", {"input": "3"}, "$.context.pins.prices.models.stub"),
    (f"{DEFAULT}/max_retries", -1, "$.context.pins.retry.default.max_retries"),
    (f"{DEFAULT}/retryable_codes", ..., "$.context.pins.retry.default"),
    (f"{DEFAULT}/retryable_codes", ["no code"], "$.context.pins.retry.default.retryable_codes[0]"),
    (f"{DEFAULT}/backoff_multiplier", 1.0005, "$.context.pins.retry.default"),
    (f"{PINS}/retry/flaky@1.0.0/zz", 1, "$.context.pins.retry['flaky@1.0.0']"),
    (DEFAULT, ..., "$.context.pins.retry: there is no policy named default"),
    (f"{PINS}/skills/flaky@1.0.0", "x", "$.context.pins.skills['flaky@1.0.0']"),
    (f"{PINS}/skills/flaky@1.0.0", "A" * 64, "$.context.pins.skills['flaky@1.0.0']"),
    (f"{PINS}/skills/flaky", "0" * 64, "$.context.pins.skills['flaky']"),
    (f"{PINS}/skills/flaky@1.0.0", ..., "$.context.pins.skills: nothing is pinned for flaky@1.0.0"),
    (f"{PINS}/skills", {}, "$.context.pins.skills: nothing is pinned for flaky@1.0.0"),
    (f"{PINS}/taxonomy", "9.9.9", "$.context.pins.taxonomy"),
    (f"{PINS}/salt", "00", "$.context.pins.salt"),
    ("steps/0/skill_version", None, "$.steps[0]: the plan is pinned, and this step names no skill_version of flaky"),
    ("steps/1/skill_version", ..., "$.steps[1]: the plan is pinned"),
]


@pytest.mark.parametrize(("path", "value", "place"), WRONG, ids=[f"{path}={value}"[:60] for path, value, _ in WRONG])
def test_pins_that_make_no_sense_are_refused_with_their_place_and_what_to_do(
    bench: Bench, pinned: Document, path: str, value: object, place: str
) -> None:
    put(pinned, path, value)
    before = len(bench.store.runs())
    with pytest.raises(PlanError) as refused:
        bench.runtime.run(pinned)
    assert place in str(refused.value)
    assert PINNED in str(refused.value)
    assert len(bench.store.runs()) == before


def test_a_plan_runs_as_it_is_pinned(bench: Bench, pinned: Document) -> None:
    put(pinned, f"{ROW}/cost_estimate_cents", 7)
    put(pinned, f"{PINS}/retry/flaky@1.0.0/max_retries", 0)
    result = bench.runtime.run(pinned)
    assert [(found.code, found.cost_cents) for found in result.outcomes] == [("ERR_TIMEOUT", 7)]
    bench.check(result)


def test_the_dearest_skill_that_may_be_pinned_still_verifies(bench: Bench, pinned: Document) -> None:
    put(pinned, f"{ROW}/cost_estimate_cents", 100_000_000_000)
    result = bench.runtime.run(pinned)
    assert result.outcomes[0].cost_cents == 200_000_000_000
    bench.check(result)


def test_a_skill_that_was_unknown_when_the_plan_was_pinned_is_refused_by_name(tmp_path: Path, bench: Bench) -> None:
    """No version can have been pinned: nothing is substituted, and nothing called None is looked for."""
    elsewhere = Bench(tmp_path)
    document = elsewhere.runtime.pinned(plan(step(flaky)))
    (outcome,) = elsewhere.runtime.run(document).outcomes
    assert outcome.code == "ERR_SKILL_NOT_FOUND"
    assert outcome.details is not None
    assert "flaky" in str(outcome.details["reason"])
    assert "None" not in str(outcome.details["reason"])
    with pytest.raises(PlanError, match=r"names no skill_version of flaky \(there is 1\.0\.0\)"):
        bench.runtime.run(document)


CLOSED: list[tuple[str, object, str]] = [
    ("context/rate_limits", {"x": 1}, "$.context.rate_limits"),
    ("context/rate_limits", {"skills": {"flaky": {"per_minute": 1}}}, "$.context.rate_limits.skills.flaky"),
    ("context/rate_limits", {"hosts": {"*": {"burst": 0}}}, "$.context.rate_limits.hosts['*'].burst"),
    ("context/shell", {"a": 1}, "$.context.shell"),
    ("context/shell", {"confine": "maybe"}, "$.context.shell.confine"),
    ("context/prices", {"a": 1}, "$.context.prices"),
    ("context/prices", {"models": {"m": {"input": "1"}}}, "$.context.prices.models.m"),
    ("context/retry", {"zz": 1}, "$.context.retry"),
    ("context/retry", {"max_retries": None}, "$.context.retry.max_retries"),
    ("steps/1/retry", {"zz": 1}, "$.steps[1].retry"),
    ("steps/1/retry", {"backoff_multiplier": 1.0001}, "$.steps[1].retry"),
    ("context/supervisor", "nobody", "$.context.supervisor: 'nobody' is neither auto, ask, nor module:function"),
    ("context/supervisor", ":f", "$.context.supervisor"),
    ("context/supervisor", "..up:f", "$.context.supervisor"),
    ("context/supervisor", "no.such.module:f", "$.context.supervisor: 'no.such.module:f' cannot be loaded"),
    ("context/supervisor", "json:nothing", "$.context.supervisor: 'json:nothing' cannot be loaded"),
    ("context/supervisor", "json:__name__", "$.context.supervisor: 'json:__name__' is not a function"),
    ("created_at", "yesterday", "$.created_at: 'yesterday' is not a time"),
    ("created_at", "2026-02-30T00:00:00Z", "$.created_at"),
    ("created_at", "٢٠٢٦-01-01T00:00:00Z", "$.created_at"),
    ("steps/0/skill_version", "١.0.0", "$.steps[0].skill_version"),
]


@pytest.mark.parametrize("is_pinned", [False, True], ids=["plain", "pinned"])
@pytest.mark.parametrize(("path", "value", "place"), CLOSED, ids=[f"{path}={value}"[:60] for path, value, _ in CLOSED])
def test_what_no_run_could_follow_is_refused_with_its_place_pinned_or_not(
    bench: Bench, pinned: Document, path: str, value: object, place: str, is_pinned: bool
) -> None:
    document = pinned if is_pinned else plan(step(flaky), step(ask, {"prompt": "hello"}))
    put(document, path, value)
    before = len(bench.store.runs())
    with pytest.raises(PlanError) as refused:
        bench.runtime.run(document)
    assert place in str(refused.value)
    assert len(bench.store.runs()) == before


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123+02:00", "2026-01-31T12:00:00"])
def test_a_plan_may_say_when_it_was_made(bench: Bench, text: str) -> None:
    document = {**plan(step(flaky, {"failures": 0})), "created_at": text}
    result = bench.runtime.run(document)
    assert result.status == "completed"
    bench.check(result)
