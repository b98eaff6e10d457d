"""Whatever a plan says, pinned or not: it is refused in one line, or it leaves a run whose evidence holds."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from reenact import SkillContext, skill
from reenact.errors import ReenactError, SkillError
from reenact.record.reader import RunReader
from reenact.replay.api import replay
from reenact.replay.sources.instant import InstantClock
from reenact.store.checks.verification import verify_run
from reenact.values.canonical import canonicalize
from reenact.values.clock import SystemClock
from tests.engines.places import store_at
from tests.runtime.running import Bench
from tests.spec.mutations_of_plans import WHOLE_PLAN, mutated

# More plans, or others: REENACT_FUZZ_PLANS=5000 REENACT_FUZZ_SEED=3 pytest tests/runtime/plans/test_spoiled_plans.py
SEED = int(os.environ.get("REENACT_FUZZ_SEED", "11"))
PLANS = int(os.environ.get("REENACT_FUZZ_PLANS", "300"))
ENDED = {"completed": 0, "failed": 0, "cancelled": 0, "held": 4, "waiting": 4}


@skill("steady", version="1.0.0", tool_class="read", idempotent=True, cost_estimate_cents=1)
def steady(n: Any = 0) -> dict[str, Any]:
    """Gives back what it got."""
    return {"n": n}


@skill("flaky", version="1.0.0", tool_class="write", honours_key=True, cost_model="tokens", side_effects=["mail"])
def flaky(ctx: SkillContext, n: Any = 0, model: str = "stub") -> dict[str, Any]:
    """Fails twice, and may be at work all the same."""
    ctx.side_effect("mail", "somebody")
    if ctx.attempt < 2:
        raise SkillError.of("ERR_TIMEOUT", "not yet")
    return {"n": n}


def test_a_spoiled_plan_is_refused_in_one_line_or_leaves_evidence_that_holds(tmp_path: Path) -> None:
    bench = Bench(tmp_path, steady, flaky, clock=InstantClock(SystemClock()))
    context = {key: value for key, value in WHOLE_PLAN["context"].items() if key != "pins"}
    plain = {**WHOLE_PLAN, "context": {**context, "budget_cents": 10**15, "budget": {"mode": "soft"}}}
    pinned = bench.runtime.pinned(plain)
    source, refused, ran = random.Random(SEED), 0, 0
    for number in range(PLANS):
        document, change = mutated(pinned if number % 3 else plain, source)
        before = len(bench.store.runs())
        try:
            result = bench.runtime.run(document)
        except ReenactError as error:
            told, code = str(error), error.exit_code
            refused += 1
        else:
            check(bench, result.run_id, result.status, change)
            ran += 1
            continue
        assert (code, "\n" in told, len(bench.store.runs())) == (2, False, before), (change, told)
    assert min(refused, ran) > PLANS // 10, (refused, ran)


def check(bench: Bench, run_id: str, status: str, change: list[str]) -> None:
    verified = verify_run(store_at(bench.path), run_id)
    assert verified.exit_code == ENDED[status], (change, status, verified.report.first_break, verified.differences)
    if ENDED[status] == 0:
        again = replay(bench.store, run_id)
        assert again.exit_code == 0, (change, again)


def test_a_plan_is_stored_as_it_was_given(tmp_path: Path) -> None:
    """What was decoded to be checked is not what is kept: the hash is over the plan's own words."""
    bench = Bench(tmp_path, steady, flaky)
    pinned = bench.runtime.pinned({key: value for key, value in WHOLE_PLAN.items() if key != "context"})
    pinned["context"]["retry"] = {"backoff_multiplier": 2, "max_retries": 0}
    run_id = bench.runtime.run(pinned).run_id
    assert canonicalize(RunReader(bench.store, run_id).plan()[1]) == canonicalize(pinned)
