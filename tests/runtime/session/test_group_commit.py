"""Many runs in flight share their transactions, and nothing of one is another's business."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reenact import Runtime
from reenact.store.checks.verification import verify_run
from tests.engines.places import store_at
from tests.runtime.session.conftest import World


def test_runs_in_flight_are_committed_in_groups_and_each_verifies(world: World, tmp_path: Path) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=world.skills())
    steps = [{"step_id": f"s{n}", "skill_id": "search", "parameters": {"q": str(n)}} for n in range(6)]
    plan = {"plan_id": "p", "agent_id": "a", "steps": steps}
    sizes: list[int] = []
    real = runtime.store.append_many

    def counted(units: list) -> list:  # type: ignore[type-arg]
        sizes.append(len(units))
        return real(units)

    runtime.store.append_many = counted  # type: ignore[method-assign]

    async def main() -> list[str]:
        results = await asyncio.gather(*[runtime.run_async(plan) for _ in range(20)])
        assert {result.status for result in results} == {"completed"}
        return [result.run_id for result in results]

    run_ids = asyncio.run(main())
    assert max(sizes) > 1
    assert all(verify_run(runtime.store.url, run_id).exit_code == 0 for run_id in run_ids)
