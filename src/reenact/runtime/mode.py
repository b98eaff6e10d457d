"""What a mode of running (live, full_replay, fork) registers with the engine, so that its runs can go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from reenact.contracts.plan import Plan
from reenact.journal.run_fold import RunFold
from reenact.record.result import RunResult
from reenact.runtime.effects.source import EffectSource
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.run import Run

if TYPE_CHECKING:
    from reenact.runtime.engine import Engine


class Mode(Protocol):
    """How a run of one mode goes on: where its effects come from, and who drives it to its end."""

    def bind(
        self, engine: Engine, fold: RunFold, plan: Plan, document: dict[str, object]
    ) -> tuple[RunPlan, EffectSource]:
        """The plan of a run that was interrupted, with the skills that are there, and its source of effects."""

    async def go_on(self, engine: Engine, run: Run) -> RunResult:
        """From wherever the run stands to its end, or to where it has to stop."""
