"""The rules that a plan carries, written by hand in its context or pinned when it starts. All of them are closed."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

MOST_RETRIES: Final = 10_000
LONGEST_WAIT_MS: Final = 7 * 24 * 3600 * 1000
MOST_CENTS_PER_ATTEMPT: Final = 100_000_000_000
"""Even 10,001 attempts at this price are a number of cents that JSON holds exactly."""

_NAME: Final = r"(?=[^@]{1,128}(?:@|\Z))[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_.-]+)?"
_SEMVER: Final = (
    r"(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)"
    r"(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
SKILL_ID: Final = re.compile(rf"{_NAME}\Z")
VERSION: Final = re.compile(rf"(?=.{{1,128}}\Z){_SEMVER}\Z")
REFERENCE: Final = re.compile(rf"{_NAME}@(?=.{{1,128}}\Z){_SEMVER}\Z")

Hex64 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Code = Annotated[str, Meta(pattern=r"^[A-Z0-9_]{1,64}\Z")]
ModelName = Annotated[str, Meta(min_length=1)]
Picodollars = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,17})\Z")]
"""Whole picodollars per token, as a decimal string."""
Retries = Annotated[int, Meta(ge=0, le=MOST_RETRIES)]
WaitMs = Annotated[int, Meta(ge=0, le=LONGEST_WAIT_MS)]
Multiplier = Annotated[float, Meta(ge=1, le=1000)]


class PlanPart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of a plan's parts: unknown fields are refused."""


class RetryRules(PlanPart, frozen=True, kw_only=True):
    """What a step or a plan says about retries; what it leaves unset is decided by the next one that is asked."""

    max_retries: Retries | UnsetType = UNSET
    backoff_base_ms: WaitMs | UnsetType = UNSET
    backoff_multiplier: Multiplier | UnsetType = UNSET
    max_backoff_ms: WaitMs | UnsetType | None = UNSET
    jitter_enabled: bool | UnsetType = UNSET
    jitter_max_ms: WaitMs | UnsetType = UNSET
    retryable_codes: list[Code] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.backoff_multiplier is not UNSET:
            _check_multiplier(self.backoff_multiplier)


class PinnedRetry(PlanPart, frozen=True, kw_only=True):
    """A retry policy with nothing left to defaults, which another release might change."""

    max_retries: Retries
    backoff_base_ms: WaitMs
    backoff_multiplier: Multiplier
    max_backoff_ms: WaitMs | None
    jitter_enabled: bool
    jitter_max_ms: WaitMs
    retryable_codes: list[Code]

    def __post_init__(self) -> None:
        _check_multiplier(self.backoff_multiplier)


class TokenPrice(PlanPart, frozen=True, kw_only=True):
    """What a token of a model costs."""

    input: Picodollars
    output: Picodollars


class PriceList(PlanPart, frozen=True, kw_only=True):
    """Prices that a plan brings along; they go before the built-in ones."""

    models: dict[ModelName, TokenPrice]
    version: str = ""


class SkillPrice(PlanPart, frozen=True, kw_only=True):
    """What an attempt of a skill costs; `model` is the one that it asks where a call names none."""

    cost_estimate_cents: Annotated[int, Meta(ge=0, le=MOST_CENTS_PER_ATTEMPT)]
    cost_model: Literal["tokens"] | None
    model: str | None = None


class PinnedPrices(PlanPart, frozen=True, kw_only=True):
    models: dict[ModelName, TokenPrice]
    skills: dict[str, SkillPrice]
    version: str


class RateLimit(PlanPart, frozen=True, kw_only=True):
    """`per_second` calls on average, `burst` of them at once, `concurrent` in flight."""

    per_second: Annotated[float, Meta(ge=0.000001, le=1_000_000)] | UnsetType = UNSET
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    concurrent: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET


class RateLimits(PlanPart, frozen=True, kw_only=True):
    """Limits by skill id and by host; the host `*` is every host that has none of its own."""

    skills: dict[str, RateLimit] = {}
    hosts: dict[str, RateLimit] = {}


class ShellRules(PlanPart, frozen=True, kw_only=True):
    """Whether commands may be run, which, and what they may read."""

    allow: bool = False
    workspace: str | None = None
    commands: list[str] | None = None
    confine: Literal["require", "best-effort", "off"] = "require"
    readable: list[str] = []


class Pins(PlanPart, frozen=True, kw_only=True):
    """What a run's behaviour depends on besides the plan's own words."""

    taxonomy: str
    prices: PinnedPrices
    retry: dict[str, PinnedRetry]
    """By `id@version`, for the skills that declare a policy; `default` for all others."""
    skills: dict[str, Hex64]
    """The definition digest of each skill, by `id@version`."""
    salt: Hex64
    side_effects: list[str] | None = None
    """The skills that declare some, `id@version`; pinned where the profile limits external calls."""
    policy: Hex64 | None = None
    """The digest of the host's policy that the plan was narrowed to, where the host had set one."""

    def problem(self) -> str | None:
        """What does not fit together in them, after its place; None where all does."""
        if "default" not in self.retry:
            return ".retry: there is no policy named default"
        for reference in self.skills:
            if not REFERENCE.match(reference):
                return f".skills[{reference!r}]: a skill is named like http_call@1.2.0"
            if reference not in self.prices.skills:
                return f".prices.skills: there is no price for {reference}, which skills names"
        return None


def _check_multiplier(value: float) -> None:
    # Between 1 and 1.001 the exact power would take very many digits, for a wait that hardly grows.
    if 1 < value < 1.001:
        raise ValueError("backoff_multiplier is 1, or a number from 1.001 to 1000")
