"""Short ways to run a plan in a test and to see that its evidence holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reenact import RunResult, Runtime
from reenact.contracts.outcome import StructuredOutcome
from reenact.journal.fold import TraceFold
from reenact.skills.skill import Skill
from reenact.store.base import Store
from reenact.store.checks.verification import verify_run
from reenact.store.keys.ballots import CancelRequest, signed
from tests.crash.harness import folded
from tests.engines.places import store_at

Document = dict[str, Any]
LOADS_ANY: Document = {"supervisors": ["*"]}
"""The policy of a host that loads whatever supervisor its plans name."""


class Bench:
    """A store in a folder, and a runtime on it."""

    def __init__(self, folder: Path, *skills: Skill, **options: Any) -> None:
        self.path = str(folder / "store.db")
        self.runtime = Runtime(store_at(self.path), skills=skills, **options)

    @property
    def store(self) -> Store:
        return self.runtime.store

    def run(self, *steps: Mapping[str, object], **context: object) -> RunResult:
        return self.runtime.run(plan(*steps, **context))

    def gather(self, *plans: Document) -> list[RunResult]:
        """Run plans at the same time."""

        async def all_of_them() -> list[RunResult]:
            return list(await asyncio.gather(*(self.runtime.run_async(each) for each in plans)))

        return asyncio.run(all_of_them())

    def traces(self, run_id: str) -> list[TraceFold]:
        return folded(run_id, list(self.store.bodies(run_id)))[1]

    def check(self, run: RunResult | str, *, exit_code: int = 0) -> None:
        """The evidence verifies; 4 for a run that has not ended."""
        verified = verify_run(store_at(self.path), run if isinstance(run, str) else run.run_id)
        assert verified.exit_code == exit_code, (verified.report.first_break, verified.differences)


def ask_to_cancel(store: Store, run_id: str) -> None:
    """As `cancel` does where somebody works on the run."""
    asked = CancelRequest(reason="enough", ts="2026-01-01T00:00:00.000Z", who="kim")
    note = signed(store.signing_key, store.store_id, asked, run_id=run_id, trace_id="")
    store.request_cancel(run_id, note.decode())


def plan(*steps: Mapping[str, object], **context: object) -> Document:
    return {
        "plan_id": "plan",
        "agent_id": "agent",
        "steps": [{"step_id": f"s{index}", **each} for index, each in enumerate(steps)],
        "context": context,
    }


def step(skill: Skill | str, parameters: Mapping[str, object] | None = None, **fields: object) -> Document:
    skill_id = skill if isinstance(skill, str) else skill.skill_id
    return {"skill_id": skill_id, "parameters": dict(parameters or {}), **fields}


def outcome_of(result: RunResult) -> StructuredOutcome:
    """The only outcome."""
    (outcome,) = result.outcomes
    return outcome
