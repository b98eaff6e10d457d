"""What a replay comes to, as a value. "Failed" and "differed" are two results, and neither is an exception."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from msgspec import Struct

from reenact.contracts.outcome import StructuredOutcome
from reenact.record.result import RunResult, StepResult
from reenact.replay.breakers import Breaker
from reenact.replay.compare.compare import Comparison, Difference
from reenact.replay.compare.content import ContentDifference

ReplayMode = Literal["mock_replay", "full_replay", "dry_run", "fork"]
GoOn = Literal["mock", "live"]
"""How a fork goes on: with what was recorded, or with calls."""
How = Literal["served", "live", "simulated", "skipped", "checked", "not reached"]
ReplayVerdict = Literal["matched", "differed", "world_differed", "not_compared", "failed", "estimated"]
WORLD_DIFFERED: Final = 5
"""Exit code: nothing is wrong with the runtime, and yet this run is not that run."""

COMPUTED = (
    "code", "retryable", "retry count", "back-off", "cost", "run and step budget", "permission", "duplicate",
)  # fmt: skip
SERVED = (
    "attempts' facts and responses", "decisions of people and functions", "spending of day and model", "limiter",
    "idempotency hits", "side effects that a skill reported",
)  # fmt: skip


class StepReport(Struct, frozen=True, kw_only=True):
    """Where one step's effect came from, and what was served for it beyond the contract's list."""

    step_id: str
    how: How
    served_without_code: tuple[str, ...] = ()
    note: str = ""


class Nearest(Struct, frozen=True, kw_only=True):
    """The recorded call that comes nearest to one that has no record."""

    step_id: str
    skill: str
    attempt: int | None
    code: str | None
    differs_in: tuple[str, ...]


class Divergence(Struct, frozen=True, kw_only=True):
    """The first moment at which the replay took another way."""

    difference: Difference
    asked: str | None
    """What the replay asked for and the recording does not have."""
    nearest: Nearest | None
    explanation: str


class StepEstimate(Struct, frozen=True, kw_only=True):
    """What one step of a dry run would do. `time_ms` is None where it never ran."""

    step_id: str
    code: str
    cost_exact: str
    time_ms: int | None
    side_effects: tuple[tuple[str, str], ...]
    asks_person: bool


class Estimate(Struct, frozen=True, kw_only=True):
    """What a dry run adds up to. Tokens that nobody counted yet are priced at what would be reserved for them."""

    steps: tuple[StepEstimate, ...]
    cost_exact: str
    cost_cents: int
    time_ms: int | None
    budget_stops_at: str | None


@dataclass(frozen=True)
class ReplayResult(RunResult):
    """A replay's run, and how it compares with its original."""

    mode: ReplayMode = "mock_replay"
    original_run_id: str = ""
    verdict: ReplayVerdict = "failed"
    comparison: Comparison | None = None
    divergence: Divergence | None = None
    content: tuple[ContentDifference, ...] = ()
    how: tuple[StepReport, ...] = ()
    told: Mapping[str, StructuredOutcome] = field(default_factory=dict)
    """Of steps whose caller was told that its answer is lost, and went on before there was another: that outcome."""
    breakers: tuple[Breaker, ...] = field(default=())
    estimate: Estimate | None = None
    retried: bool = False
    """What had failed was made once more, so that the world may differ: `retry_failed`."""

    def __iter__(self) -> Iterator[StepResult]:
        for step in super().__iter__():
            yield replace(step, outcome=self.told.get(step.step_id, step.outcome))

    @property
    def matches(self) -> bool:
        return self.verdict == "matched"

    @property
    def behavior_match(self) -> dict[str, bool]:
        """Aspect → whether it matched in every step."""
        return {} if self.comparison is None else self.comparison.behavior_match

    @property
    def exit_code(self) -> int:
        if self.status in ("waiting", "held"):
            return 4
        if self.retried and self.verdict in ("matched", "world_differed"):
            return 0 if self.status == "completed" else 1
        if self.verdict == "world_differed":
            return WORLD_DIFFERED
        return 0 if self.verdict in ("matched", "estimated") else 1
