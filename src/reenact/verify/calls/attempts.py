"""The chain of one trace's attempts, and what must stand in its effect because of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reenact.values.digest import digest
from reenact.verify.report import Problem, first_difference
from reenact.verify.shapes import Attempt, EffectMeta

PICODOLLARS_PER_CENT = 10**10


class AttemptChain:
    """Folds attempt records to the sums that an effect repeats."""

    __slots__ = ("cost", "count", "effects", "head", "last", "results")

    def __init__(self, call_digest: str) -> None:
        self.head = call_digest
        self.count = 0
        self.results = 0  # records of kind `attempt`
        self.cost = 0
        self.effects: list[list[str]] = []
        self.last: Attempt | None = None

    def append(self, record: Attempt, value: Mapping[str, Any]) -> Problem | None:
        """Apply a record and return what is wrong with it."""
        problem = self._problem(record, value)
        self.head = record.digest
        self.count += 1
        self.results += record.kind == "attempt"
        self.cost += int(record.cost_exact)
        self.effects += [[effect.type, effect.target] for effect in record.side_effects]
        self.last = record
        return problem

    def _problem(self, record: Attempt, value: Mapping[str, Any]) -> Problem | None:
        recomputed = digest({key: item for key, item in value.items() if key != "digest"})
        if record.digest != recomputed:
            return Problem("ATTEMPT_DIGEST", "the digest of an attempt", recomputed, record.digest)
        if self.last is not None and self.last.kind == "served":
            return Problem("ATTEMPT_CHAIN", "an attempt follows one that was served from the record")
        if record.kind == "lost" and self.last is not None and self.last.kind == "lost":
            return Problem("ATTEMPT_CHAIN", "the answer to one dispatch was lost twice")
        return first_difference(
            "ATTEMPT_CHAIN",
            (
                ("the attempt's ordinal", self.count, record.ordinal),
                ("the attempt's prev", self.head, record.prev),
                ("the attempt's number", self.results, record.attempt),
                (
                    "the attempt number of its side effects",
                    {record.attempt} if record.side_effects else set(),
                    {effect.attempt for effect in record.side_effects},
                ),
            ),
        ) or form_problem(record)

    def summary_problem(self, meta: EffectMeta) -> Problem | None:
        """The effect's `meta` against the attempts that it sums up."""
        served = self.last is not None and self.last.kind == "served"
        spent = meta.retries if meta.status == "failure" and meta.retryable else 0
        return first_difference(
            "EFFECT_MISMATCH",
            (
                ("meta.attempts", self.count, meta.attempts),
                ("meta.attempts_head", self.head, meta.attempts_head),
                ("meta.retries", max(0, self.results - 1), meta.retries),
                ("meta.cost_exact", str(self.cost), meta.cost_exact),
                ("meta.cost_cents", -(-self.cost // PICODOLLARS_PER_CENT), meta.cost_cents),
                ("meta.side_effects", digest(self.effects), meta.side_effects),
                ("meta.served_from is there", served, meta.served_from is not None),
                ("retries that are used up belong to a failure", False, meta.retries_used_up is True and spent < 1),
            ),
        )


def form_problem(record: Attempt) -> Problem | None:
    """Which fields a record of each kind has set, and which it has not."""
    given = {name for name in ("facts", "code", "started_at", "ended_at") if getattr(record, name) is not None}
    unset = {
        "redispatch": (
            "facts",
            "code",
            "request_id",
            "retry_after_ms",
            "backoff_ms",
            "response",
            "started_at",
            "ended_at",
        ),
        "served": ("facts", "backoff_ms"),
        "lost": ("request_id", "retry_after_ms", "backoff_ms"),
        "attempt": (),
    }[record.kind]
    for name in unset:
        if getattr(record, name) is not None:
            return Problem("LINE_MALFORMED", f"a record of kind {record.kind} has {name}")
    if record.kind == "attempt" and len(given) != 4:
        return Problem("LINE_MALFORMED", "an attempt without facts, code, started_at or ended_at")
    if record.kind == "lost" and (not given >= {"facts", "code", "ended_at"} or record.response is None):
        return Problem("LINE_MALFORMED", "a lost record without facts, code, ended_at or response")
    if record.kind == "lost" and (record.code, record.cost_exact) != ("ERR_IN_DOUBT", "0"):
        return Problem("LINE_MALFORMED", "a lost record with another code than ERR_IN_DOUBT, or with a cost")
    if record.kind == "served" and (record.code is None or record.cost_exact != "0"):
        return Problem("LINE_MALFORMED", "a served record without a code, or with a cost")
    if record.kind != "attempt" and record.side_effects:
        return Problem("LINE_MALFORMED", f"a record of kind {record.kind} has side effects")
    return None
