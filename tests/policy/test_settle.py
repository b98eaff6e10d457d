"""An attempt is charged for what was billed: what never left the machine, or was refused out there, costs nothing."""

from __future__ import annotations

import pytest

from reenact.contracts.facts import ExceptionFact, Facts, Usage
from reenact.policy.cost import DEFAULT_PRICES, PICODOLLARS_PER_CENT
from reenact.policy.settle import Settlement, Tariff, settle

MODEL = "claude-sonnet-4-20250514"
BY_TOKENS = Tariff(fixed_cents=0, by_tokens=True, model=MODEL)
FIXED = Tariff(fixed_cents=3, by_tokens=False, model=None)
RESERVED = 5 * PICODOLLARS_PER_CENT
NOTHING = Settlement(0, estimated=False)
FIXED_PRICE = Settlement(3 * PICODOLLARS_PER_CENT, estimated=False)
AT_THE_RESERVATION = Settlement(RESERVED, estimated=True)


def said(code: str) -> Facts:
    """A skill that names its code itself, without having heard of anybody."""
    return Facts(exceptions=(ExceptionFact(errno=None, type=f"reenact.errors.SkillError.{code}"),))


REFUSED = Facts(exceptions=(ExceptionFact(errno=111, type="builtins.ConnectionRefusedError"),))


@pytest.mark.parametrize(
    ("code", "facts", "by_tokens", "fixed"),
    [
        ("ERR_SKILL_DISABLED", said("ERR_SKILL_DISABLED"), NOTHING, NOTHING),
        ("ERR_LLM_AUTH_FAILURE", said("ERR_LLM_AUTH_FAILURE"), NOTHING, FIXED_PRICE),
        ("ERR_LLM_INVALID_MODEL", said("ERR_LLM_INVALID_MODEL"), NOTHING, FIXED_PRICE),
        ("ERR_DNS_FAILURE", said("ERR_DNS_FAILURE"), NOTHING, NOTHING),
        ("ERR_CONNECTION_REFUSED", REFUSED, NOTHING, NOTHING),
        ("ERR_LLM_RATE_LIMIT", Facts(http_status=429), NOTHING, NOTHING),
        ("ERR_LLM_API_ERROR", Facts(http_status=529), NOTHING, FIXED_PRICE),
        ("ERR_TIMEOUT", said("ERR_TIMEOUT"), AT_THE_RESERVATION, FIXED_PRICE),
        ("ERR_VALIDATION_FAILED", said("ERR_VALIDATION_FAILED"), AT_THE_RESERVATION, FIXED_PRICE),
        ("OK_LLM_INVOKE", Facts(), AT_THE_RESERVATION, FIXED_PRICE),
    ],
)
def test_an_attempt_is_charged_for_what_may_have_been_billed(
    code: str, facts: Facts, by_tokens: Settlement, fixed: Settlement
) -> None:
    assert settle(BY_TOKENS, DEFAULT_PRICES, RESERVED, code, facts) == by_tokens
    assert settle(FIXED, DEFAULT_PRICES, RESERVED, code, facts) == fixed


def test_tokens_that_a_provider_counted_are_charged_whatever_the_code_says() -> None:
    facts = Facts(usage=Usage(input_tokens=1000, output_tokens=500))
    for code in ("OK_LLM_INVOKE", "ERR_LLM_CONTENT_FILTER", "ERR_LLM_INVALID_MODEL"):
        charged = settle(BY_TOKENS, DEFAULT_PRICES, RESERVED, code, facts)
        assert charged == Settlement(1000 * 3_000_000 + 500 * 15_000_000, estimated=False)
