"""The taxonomy: what stands in the contract stands in the table, and the page is made from the table."""

from __future__ import annotations

from collections import Counter

import pytest
from tools.taxonomy_page import PAGE, render

from reenact.policy.taxonomy import (
    ALIASES,
    CHANGELOG,
    RETRYABLE_CODES,
    TAXONOMY,
    TAXONOMY_VERSION,
    is_code,
    is_retryable,
    lookup,
)

RETRYABLE = {
    "ERR_HTTP_TIMEOUT", "ERR_TIMEOUT", "ERR_HTTP_429", "ERR_HTTP_5XX", "ERR_HTTP_500", "ERR_HTTP_502", "ERR_HTTP_503",
    "ERR_HTTP_504", "ERR_LLM_RATE_LIMIT", "ERR_LLM_API_ERROR", "ERR_DNS_FAILURE", "ERR_CONNECTION_REFUSED",
    "ERR_INTERNAL", "ERR_RATE_LIMIT_INTERNAL", "ERR_RATE_LIMIT_CONCURRENT",
}  # fmt: skip


def test_version_1_0_has_4_codes_of_success_and_38_of_failure() -> None:
    first = [row for row in TAXONOMY.values() if row.since == "1.0.0"]
    assert Counter(row.category == "success" for row in first) == {True: 4, False: 38}
    assert all(row.code.startswith("ERR_") for row in first if row.category != "success")
    assert Counter(row.category for row in first) == {
        "success": 4, "transient": 2, "client": 11, "third_party": 9, "infra": 6, "policy": 7, "safety": 3,
    }  # fmt: skip


def test_the_codes_that_may_be_retried_are_these_and_no_others() -> None:
    assert RETRYABLE_CODES == RETRYABLE
    assert {code for code in TAXONOMY if is_retryable(code)} == RETRYABLE


@pytest.mark.parametrize(
    ("code", "category", "severity"),
    [
        ("ERR_POLICY_VIOLATION", "policy", "critical"),
        ("ERR_BUDGET_EXCEEDED", "policy", "critical"),
        ("ERR_QUOTA_EXCEEDED", "policy", "error"),
        ("ERR_SKILL_DISABLED", "policy", "warning"),
        ("ERR_LLM_CONTENT_FILTER", "safety", "warning"),
        ("ERR_PROMPT_INJECTION", "safety", "critical"),
        ("ERR_LLM_API_ERROR", "third_party", "error"),
        ("ERR_HTTP_429", "third_party", "warning"),
        ("ERR_HTTP_404", "client", "error"),
        ("ERR_HTTP_TIMEOUT", "transient", "warning"),
        ("OK", "success", "info"),
    ],
)
def test_codes_have_the_category_and_severity_of_the_contract(code: str, category: str, severity: str) -> None:
    row = lookup(code)
    assert row is not None
    assert (row.category, row.severity) == (category, severity)


@pytest.mark.parametrize(
    "code",
    [
        "DENIED_DUPLICATE", "IDEMPOTENCY_CONFLICT", "IDEMPOTENCY_IN_FLIGHT", "ERR_CANCELLED", "ERR_IN_DOUBT",
        "ERR_SECRET_UNAVAILABLE", "ERR_REFERENCE_UNRESOLVED", "ERR_JSON_INVALID", "ERR_JSON_PATH_INVALID",
        "ERR_JSON_PATH_NOT_FOUND", "ERR_JSON_DEPTH_EXCEEDED", "ERR_JSON_SIZE_EXCEEDED", "ERR_JSON_TRANSFORM_FAILED",
        "ERR_MISSING_IDEMPOTENCY_KEY", "ERR_BLOCKED_HOST", "ERR_LLM_INVALID_MODEL", "ERR_LLM_AUTH_FAILURE",
    ],
)  # fmt: skip
def test_the_codes_that_came_later_are_known_and_not_retried(code: str) -> None:
    row = lookup(code)
    assert row is not None
    assert row.since == "1.1.0"
    assert not is_retryable(code)


def test_the_alias_is_the_limiter_of_our_own() -> None:
    assert lookup("ERR_RATE_LIMITED") is TAXONOMY["ERR_RATE_LIMIT_INTERNAL"]
    assert is_retryable("ERR_RATE_LIMITED")
    assert not set(ALIASES) & set(TAXONOMY)
    assert set(ALIASES.values()) <= set(TAXONOMY)


def test_what_nobody_knows_is_not_retried() -> None:
    assert lookup("ERR_OF_MY_OWN") is None
    assert not is_retryable("ERR_OF_MY_OWN")
    assert not is_retryable("")


@pytest.mark.parametrize("text", ["", "err_http", "A" * 65, "ERR_X\n", "ERR-X", "ÉRR", None, 3])
def test_codes_have_one_form(text: object) -> None:
    assert not is_code(text)
    assert all(map(is_code, [*TAXONOMY, *ALIASES]))


def test_every_version_that_added_a_code_is_in_the_changelog_and_the_last_is_current() -> None:
    assert [version for version, _ in CHANGELOG] == sorted({row.since for row in TAXONOMY.values()}, reverse=True)
    assert CHANGELOG[0][0] == TAXONOMY_VERSION


def test_the_page_is_what_the_tables_make_it() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()


def test_the_page_names_every_code_once_in_its_table() -> None:
    table = render().split("## Codes")[1].split("## ")[0]
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == list(TAXONOMY)
