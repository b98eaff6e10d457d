"""Retries and back-off: whether to try again, and how long to wait; the same answer in every process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from math import log
from typing import Any, Final

import msgspec

from reenact.contracts.plan_rules import LONGEST_WAIT_MS, MOST_RETRIES, PinnedRetry, RetryRules
from reenact.errors import PolicyInputError
from reenact.policy.taxonomy import RETRYABLE_CODES, TAXONOMY, canonical_code, is_code
from reenact.values.keyed import keyed_random


class RetryPolicy(msgspec.Struct, frozen=True):
    """How a failed attempt is retried. PolicyInputError where a field makes no sense.

    `max_retries` retries mean `max_retries + 1` attempts. `retryable_codes` may be given as any collection of codes.
    `max_backoff_ms` caps each wait, jitter included; None takes the cap away, but for the week that any wait may last.
    """

    max_retries: int = 3
    backoff_base_ms: int = 100
    backoff_multiplier: float = 2.0
    max_backoff_ms: int | None = 5000
    jitter_enabled: bool = False
    jitter_max_ms: int = 0
    retryable_codes: frozenset[str] = RETRYABLE_CODES

    def __post_init__(self) -> None:
        _whole("max_retries", self.max_retries, MOST_RETRIES)
        for field in ("backoff_base_ms", "max_backoff_ms", "jitter_max_ms"):
            if getattr(self, field) is not None or field != "max_backoff_ms":
                _whole(field, getattr(self, field), LONGEST_WAIT_MS)
        if type(self.jitter_enabled) is not bool:
            raise PolicyInputError("retry: jitter_enabled is true or false")
        msgspec.structs.force_setattr(self, "backoff_multiplier", _multiplier(self.backoff_multiplier))
        msgspec.structs.force_setattr(self, "retryable_codes", _codes(self.retryable_codes))

    @property
    def longest_wait_ms(self) -> int:
        return LONGEST_WAIT_MS if self.max_backoff_ms is None else self.max_backoff_ms


def should_retry(
    error_code: str,
    attempt: int | None = None,
    policy: RetryPolicy | Mapping[str, Any] | None = None,
    *,
    attempt_number: int | None = None,
    max_retries: int | None = None,
    retry_policy: RetryPolicy | Mapping[str, Any] | None = None,
) -> bool:
    """Whether the attempt `attempt` (counted from 0), which failed with `error_code`, is followed by another.

    `attempt_number` and `retry_policy` are other names for `attempt` and `policy`; a policy may be partial or left
    out, then the defaults hold. `max_retries` goes before the policy's.
    """
    if attempt is not None and attempt_number is not None and attempt != attempt_number:
        raise PolicyInputError("should_retry: attempt and attempt_number differ; give one")
    if policy is not None and retry_policy is not None and policy != retry_policy:
        raise PolicyInputError("should_retry: policy and retry_policy differ; give one")
    number = attempt if attempt is not None else attempt_number
    if number is None:
        raise PolicyInputError("should_retry: needs the number of the attempt, counted from 0")
    _whole("attempt", number, None)
    given = policy if policy is not None else retry_policy
    rules = given if isinstance(given, RetryPolicy) else merge_retry(given)
    most = rules.max_retries if max_retries is None else _whole("max_retries", max_retries, MOST_RETRIES)
    return number < most and canonical_code(error_code) in rules.retryable_codes


def calculate_backoff_ms(
    attempt: int, policy: RetryPolicy | Mapping[str, Any], run_id: str, *, step_id: str = ""
) -> int:
    """Milliseconds to wait after the attempt `attempt` (counted from 0): base · multiplier^attempt, rounded down,
    plus jitter, at most `max_backoff_ms`: 5000 unless the policy says otherwise, no such cap where it says None.

    The arithmetic is exact: a multiplier of 1.1 is eleven tenths. Jitter is a whole number in [0, jitter_max_ms)
    that depends on run, step and attempt alone; `run_id` is the original run's, also in a replay.
    """
    _whole("attempt", attempt, None)
    if not isinstance(policy, RetryPolicy):
        policy = merge_retry(policy)
    wait = _grown(attempt, policy)
    if policy.jitter_enabled and policy.jitter_max_ms > 0:
        wait += keyed_random("reenact.backoff", run_id, step_id, attempt).randrange(policy.jitter_max_ms)
    return min(wait, policy.longest_wait_ms)


def merge_retry(*partials: Mapping[str, Any] | RetryPolicy | RetryRules | PinnedRetry | None) -> RetryPolicy:
    """A policy from partial ones, most specific first; the first that names a field decides it, defaults come last."""
    merged: dict[str, Any] = {}
    for partial in partials:
        if partial is None:
            continue
        fields = partial if isinstance(partial, Mapping) else msgspec.structs.asdict(partial)
        for field, value in fields.items():
            if value is msgspec.UNSET:
                continue
            if field not in RetryPolicy.__struct_fields__:
                known = ", ".join(RetryPolicy.__struct_fields__)
                raise PolicyInputError(f"retry: no field {field!r}; it has {known}")
            merged.setdefault(field, value)
    return RetryPolicy(**merged) if merged else DEFAULT_POLICY


def policy_to_dict(policy: RetryPolicy) -> dict[str, Any]:
    """All fields as plain JSON values, to be pinned in a plan; `merge_retry` reads it back."""
    fields = msgspec.structs.asdict(policy)
    return {**fields, "retryable_codes": sorted(policy.retryable_codes)}


def _grown(attempt: int, policy: RetryPolicy) -> int:
    """The wait without jitter, cut off where it is past the cap anyway."""
    base, multiplier = policy.backoff_base_ms, policy.backoff_multiplier
    if base == 0 or attempt == 0 or multiplier == 1.0:
        return base
    # Far beyond the cap the power need not be computed; the margin of e² swallows any rounding of the logarithms.
    if attempt > (log(policy.longest_wait_ms + 1) - log(base) + 2) / log(multiplier):
        return policy.longest_wait_ms
    return int(base * Fraction(Decimal(repr(multiplier))) ** attempt)


def _whole(field: str, value: object, most: int | None) -> int:
    if type(value) is not int or value < 0 or (most is not None and value > most):
        limit = "" if most is None else f" up to {most}"
        raise PolicyInputError(f"retry: {field} is a whole number from 0{limit}")
    return value


def _multiplier(value: object) -> float:
    # Between 1 and 1.001 the exact power would take very many digits, for a wait that hardly grows.
    if (type(value) is int or type(value) is float) and (value == 1 or 1.001 <= value <= 1000):
        return float(value)
    raise PolicyInputError("retry: backoff_multiplier is 1, or a number from 1.001 to 1000")


def _codes(value: object) -> frozenset[str]:
    if isinstance(value, frozenset) and TAXONOMY.keys() >= value:
        return value
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise PolicyInputError("retry: retryable_codes is a list of codes")
    codes = list(value)
    for code in codes:
        if not is_code(code):
            raise PolicyInputError("retry: retryable_codes holds codes like ERR_HTTP_503, and nothing else")
    return frozenset(canonical_code(code) for code in codes)


DEFAULT_POLICY: Final = RetryPolicy()
