"""Prometheus metrics of this process: what runs do, and how replays compare. Replays do not count as production.

No id is ever a label: labels are skills, codes, statuses and aspects, of which there are few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from reenact.replay.result import ReplayResult
from reenact.runtime.listeners import Notice

MATCH: Final = "aos_replay_behavior_match"
MISMATCH: Final = "aos_replay_behavior_mismatch"
BUCKETS: Final = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)


def aspect_label(aspect: str) -> str:
    """The specification's metric says `error_code` where its trace record says `error_codes`; both stay as they are."""
    return "error_code" if aspect == "error_codes" else aspect


class RuntimeMetrics:
    """A listener: `Runtime(listeners=[RuntimeMetrics()])`. Runs are counted where they are live; replays are counted
    as such, with how they compared."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.replays = ReplayMetrics(registry)
        self.runs = Counter("reenact_runs", "Runs that ended.", ["status"], registry=registry)
        self.started = Counter("reenact_runs_started", "Runs that were started.", registry=registry)
        self.steps = Counter("reenact_steps", "Steps that ended.", ["skill", "status", "code"], registry=registry)
        self.attempts = Counter("reenact_attempts", "Dispatches.", ["skill", "code"], registry=registry)
        self.retries = Counter("reenact_retries", "Retries.", ["skill"], registry=registry)
        self.cost = Counter("reenact_cost_cents", "Cents charged, rounded up per step.", ["skill"], registry=registry)
        self.side_effects = Counter("reenact_side_effects", "Touches of the world.", ["type"], registry=registry)
        self.back_off = Counter("reenact_backoff_seconds", "Seconds of back-off.", ["skill"], registry=registry)
        self.latency = Histogram(
            "reenact_step_latency_seconds", "Latency of the attempt that ended a step.", ["skill"],
            registry=registry, buckets=BUCKETS,
        )  # fmt: skip

    def __call__(self, notice: Notice) -> None:
        if notice.kind == "replay_compared":
            self.replays.count(notice.behavior_match or {}, notice.mode, notice.verdict or "")
        if notice.mode != "live":
            return
        if notice.kind == "run_started":
            self.started.inc()
        elif notice.kind == "run_ended":
            self.runs.labels(notice.status or "").inc()
        elif notice.kind in ("attempt", "lost"):
            self.attempts.labels(notice.skill_id or "", notice.code or "").inc()
            self.back_off.labels(notice.skill_id or "").inc((notice.backoff_ms or 0) / 1000)
        elif notice.kind == "step_ended" and notice.outcome is not None:
            self._step_ended(notice)

    def _step_ended(self, notice: Notice) -> None:
        outcome = notice.outcome
        assert outcome is not None
        skill = outcome.metadata.skill_id
        self.steps.labels(skill, outcome.status, outcome.code).inc()
        self.retries.labels(skill).inc(outcome.observability.backend_retries)
        self.cost.labels(skill).inc(outcome.cost_cents)
        self.latency.labels(skill).observe(outcome.latency_ms / 1000)
        for effect in outcome.side_effects:
            self.side_effects.labels(effect.type).inc()


class ReplayMetrics:
    """How many replays there were, and how they compared, by aspect; kept apart from what counts runs."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.match = Counter(MATCH, "Replays in which an aspect matched.", ["aspect"], registry=registry)
        self.mismatch = Counter(MISMATCH, "Replays in which an aspect differed.", ["aspect"], registry=registry)
        self.replays = Counter("reenact_replays", "Replays.", ["mode", "verdict"], registry=registry)

    def observe(self, result: ReplayResult) -> None:
        """Count a replay that no listener heard of: one on a store, without a runtime."""
        self.count(result.behavior_match, result.mode, result.verdict)

    def count(self, behavior_match: Mapping[str, bool], mode: str, verdict: str) -> None:
        self.replays.labels(mode, verdict).inc()
        for aspect, matched in behavior_match.items():
            (self.match if matched else self.mismatch).labels(aspect_label(aspect)).inc()
