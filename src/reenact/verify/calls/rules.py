"""What a run did, held against its own rules: codes and facts, retries and their policy, amounts and the budget, times.

Digests say that nothing was changed; these say that what stands there can have happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from math import log
from typing import Any, Final

import msgspec
from msgspec import UNSET

from reenact.values.keyed import keyed_random
from reenact.verify.report import Findings, Problem, Where, first_difference
from reenact.verify.shapes import Attempt, DecisionMeta, Plan, RetryRules, Run, SupervisorDecision

PICODOLLARS_PER_CENT: Final = 10**10
LONGEST_RETRY_AFTER_MS: Final = 60_000
LONGEST_WAIT_MS: Final = 7 * 24 * 3600 * 1000
NO_MONEY: Final = "ERR_BUDGET_EXCEEDED"
CONFLICT: Final = 409
"""Of a call that may have been sent before: its first dispatch is waited for, whatever the policy says."""


class Retried(msgspec.Struct, frozen=True):
    """An attempt that says after how long another one follows."""

    record: Attempt
    step_id: str
    step_index: int
    where: Where


class RunRules:
    """Takes attempts and decisions in order; the retries of a session wait for its plan."""

    def __init__(self) -> None:
        self._retried: list[Retried] = []
        self._latest: dict[str, str] = {}  # the last time in each trace that has not ended
        self._back = 0
        self._first_back = ""

    # -- codes -----------------------------------------------------------------------------------------------------

    def attempt(self, record: Attempt, step_id: str | None, step_index: int, where: Where) -> Problem | None:
        self.time(record.trace_id, where, record.started_at, record.ended_at)
        if record.kind != "attempt" or record.facts is None or record.code is None:
            return None
        if record.backoff_ms is not None and step_id is not None:
            self._retried.append(Retried(record, step_id, step_index, where))
        return code_problem(record)

    # -- money -----------------------------------------------------------------------------------------------------

    def decision(self, decision: SupervisorDecision, run: Run, plan: Plan | None, spent: int) -> Problem | None:
        """`spent` is the sum of the attempts before it."""
        meta = decision.meta
        if meta.gate == "budget" and decision.decision == "DENY":
            if meta.code != NO_MONEY:  # a model without a price: no amount was compared
                return None
            return None if passes(meta) else Problem("BUDGET_MISMATCH", "the budget refused what it had money for")
        limits = None if plan is None else plan.context
        cents = None if limits is None else limits.per_run_cents
        if meta.gate != "supervisor" or cents is None or limits is None:
            return None
        pairs: list[tuple[str, object, object]] = [
            ("the limit of the run", str(cents * PICODOLLARS_PER_CENT), meta.limit_exact)
        ]
        if run.kind == "plan" and run.mode == "live":  # one step at a time: nothing else is reserved
            pairs.append(("what the run had spent", str(spent), meta.spent_exact))
        if decision.decision == "APPROVE" and not limits.is_soft:
            pairs.append(("an approval beyond the budget", False, passes(meta)))
        return first_difference("BUDGET_MISMATCH", pairs)

    # -- retries ---------------------------------------------------------------------------------------------------

    def retries(self, run: Run | None, plan: Plan | None) -> Iterator[tuple[Problem, Where]]:
        """What contradicts the policy of its step, as the plan pins it."""
        if run is None or plan is None:
            return
        for retried in self._retried:
            if retried.step_index < len(plan.steps):
                problem = retry_problem(retried, policy_of(plan, retried.step_index), run)
                if problem is not None:
                    yield problem, retried.where

    # -- times -----------------------------------------------------------------------------------------------------

    def time(self, trace_id: str, where: Where, *times: str | None) -> None:
        """Times of one trace, in order. A clock can be set back, so that is told and breaks nothing."""
        for ts in times:
            if ts is None:
                continue
            before = self._latest.get(trace_id, "")
            if ts < before:
                self._back += 1
                self._first_back = self._first_back or f"from {before} to {ts} at commit {where.commit}"
            self._latest[trace_id] = ts

    def ended(self, trace_id: str) -> None:
        self._latest.pop(trace_id, None)

    def note_times(self, findings: Findings) -> None:
        if self._back:
            findings.note(
                f"times go back {self._back} times, first {self._first_back}: a clock was set back, or they were "
                "written afterwards"
            )


def code_problem(record: Attempt) -> Problem | None:
    """A code against the facts that it stands for, as far as they leave no choice."""
    facts, code = record.facts, record.code
    assert facts is not None
    assert code is not None
    good = code == "OK" or code.startswith("OK_")
    failed = bool(facts.exceptions) or (facts.http_status is not None and not 200 <= facts.http_status < 300)
    if failed and good:
        what = facts.exceptions[0].type if facts.exceptions else f"status {facts.http_status}"
        return Problem("CODE_MISMATCH", "a success, and the facts are those of a failure", what, code)
    if not failed and not good and facts.finish_reason is None:
        return Problem("CODE_MISMATCH", "a failure, and the facts are those of a success", "OK", code)
    return None


def passes(meta: DecisionMeta) -> bool:
    """Whether what is required goes beyond the limit that the decision names."""
    if meta.limit_exact is None or meta.spent_exact is None or meta.required_exact is None:
        return False
    return int(meta.spent_exact) + int(meta.required_exact) > int(meta.limit_exact)


def policy_of(plan: Plan, index: int) -> RetryRules:
    """The first that names a field decides it: the step, the plan, what is pinned for the skill."""
    step, pinned = plan.steps[index], plan.context.pins.retry
    of_skill = pinned.get(f"{step.skill_id}@{step.skill_version}") or pinned.get("default")
    merged: dict[str, Any] = {}
    for rules in (of_skill, plan.context.retry, step.retry):
        fields = {} if rules is None else msgspec.structs.asdict(rules)
        merged |= {name: value for name, value in fields.items() if value is not UNSET}
    return RetryRules(**merged)


def retry_problem(retried: Retried, policy: RetryRules, run: Run) -> Problem | None:
    record, facts = retried.record, retried.record.facts
    assert facts is not None
    if facts.http_status == CONFLICT or record.code == "ERR_HTTP_409":
        return None
    if policy.max_retries is not UNSET and record.attempt >= policy.max_retries:
        return Problem("RETRY_MISMATCH", "the policy allows fewer retries", policy.max_retries, record.attempt + 1)
    if policy.retryable_codes is not UNSET and record.code not in policy.retryable_codes:
        return Problem("RETRY_MISMATCH", "the policy does not retry this code", None, record.code)
    bounds = waits(retried, policy, run)
    if bounds is None or record.backoff_ms is None:
        return None
    asked = min(record.retry_after_ms or 0, LONGEST_RETRY_AFTER_MS)
    least, longest = (max(bound, asked) for bound in bounds)
    if not least <= record.backoff_ms <= longest:
        expected = str(least) if least == longest else f"{least} to {longest}"
        return Problem("RETRY_MISMATCH", "the wait that the policy comes to, in ms", expected, record.backoff_ms)
    return None


def waits(retried: Retried, policy: RetryRules, run: Run) -> tuple[int, int] | None:
    """The shortest and the longest wait; one and the same where the jitter is known too."""
    attempt, base, multiplier = retried.record.attempt, policy.backoff_base_ms, policy.backoff_multiplier
    most, jitter = policy.max_backoff_ms, policy.jitter_max_ms if policy.jitter_enabled is True else 0
    if base is UNSET or multiplier is UNSET or most is UNSET or jitter is UNSET:
        return None
    grown = grown_wait(attempt, base, multiplier, LONGEST_WAIT_MS if most is None else most)
    least, longest = grown, grown + max(jitter - 1, 0)
    if jitter and run.mode == "live" and run.parent_run is None:
        least = longest = grown + keyed_random("reenact.backoff", run.run_id, retried.step_id, attempt).randrange(
            jitter
        )
    return (least, longest) if most is None else (min(least, most), min(longest, most))


def grown_wait(attempt: int, base: int, multiplier: float, most: int) -> int:
    """base · multiplier^attempt, rounded down; `most` where it is far beyond that, and need not be computed."""
    if base == 0 or attempt == 0 or multiplier == 1:
        return base
    if attempt > (log(most + 1) - log(base) + 2) / log(multiplier):
        return most
    return int(base * Fraction(Decimal(repr(multiplier))) ** attempt)
