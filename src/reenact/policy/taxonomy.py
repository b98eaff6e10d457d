"""The error taxonomy: every code that an outcome may carry, as data, with a version.

A code never changes its meaning, and whether it may be retried is looked up by the code alone. Codes are only
added; what was added when stands in CHANGELOG. `tools/taxonomy_page.py` makes `docs/error_taxonomy.md` of it.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

TAXONOMY_VERSION: Final = "1.1.0"

Category = Literal["success", "transient", "client", "third_party", "infra", "policy", "safety"]
Severity = Literal["info", "warning", "error", "critical"]


class ErrorCode(msgspec.Struct, frozen=True):
    """One row of the taxonomy."""

    code: str
    category: Category
    retryable: bool
    severity: Severity
    since: str
    meaning: str


_YES: Final = True
_NO: Final = False

# code, category, retryable, severity, since, meaning
_ROWS: Final[tuple[tuple[str, Category, bool, Severity, str, str], ...]] = (
    ("OK", "success", _NO, "info", "1.0.0", "The call did what it was asked to do."),
    ("OK_HTTP_CALL", "success", _NO, "info", "1.0.0", "An HTTP call was answered with success."),
    ("OK_LLM_INVOKE", "success", _NO, "info", "1.0.0", "A model answered."),
    ("OK_JSON_TRANSFORM", "success", _NO, "info", "1.0.0", "A JSON transformation gave its result."),
    ("ERR_HTTP_TIMEOUT", "transient", _YES, "warning", "1.0.0", "An HTTP exchange took too long (also status 408)."),
    ("ERR_TIMEOUT", "transient", _YES, "warning", "1.0.0", "Something other than an HTTP exchange took too long."),
    ("ERR_HTTP_4XX", "client", _NO, "error", "1.0.0", "A client error status without a code of its own."),
    ("ERR_HTTP_400", "client", _NO, "error", "1.0.0", "The server could not read the request."),
    ("ERR_HTTP_401", "client", _NO, "error", "1.0.0", "The server wants other credentials."),
    ("ERR_HTTP_403", "client", _NO, "error", "1.0.0", "The server does not allow this."),
    ("ERR_HTTP_404", "client", _NO, "error", "1.0.0", "The server knows no such resource."),
    ("ERR_LLM_CONTEXT_LENGTH", "client", _NO, "error", "1.0.0", "The request is longer than the model's context."),
    ("ERR_VALIDATION_FAILED", "client", _NO, "error", "1.0.0", "Parameters that break the skill's rules."),
    ("ERR_SCHEMA_MISMATCH", "client", _NO, "error", "1.0.0", "A value that does not fit its declared schema."),
    ("ERR_SKILL_NOT_FOUND", "client", _NO, "error", "1.0.0", "No skill of that id and version is registered."),
    ("ERR_SERIALIZATION_FAILED", "client", _NO, "error", "1.0.0", "A value that canonical JSON cannot express."),
    ("ERR_DESERIALIZATION_FAILED", "client", _NO, "error", "1.0.0", "Bytes that cannot be read as what they claim."),
    ("ERR_HTTP_429", "third_party", _YES, "warning", "1.0.0", "The server asks for fewer requests."),
    ("ERR_HTTP_5XX", "third_party", _YES, "warning", "1.0.0", "A server error status without a code of its own."),
    ("ERR_HTTP_500", "third_party", _YES, "warning", "1.0.0", "The server failed."),
    ("ERR_HTTP_502", "third_party", _YES, "warning", "1.0.0", "A gateway got no proper answer."),
    ("ERR_HTTP_503", "third_party", _YES, "warning", "1.0.0", "The server is not available now."),
    ("ERR_HTTP_504", "third_party", _YES, "warning", "1.0.0", "A gateway waited too long for an answer."),
    ("ERR_LLM_RATE_LIMIT", "third_party", _YES, "warning", "1.0.0", "The model's provider asks for fewer requests."),
    ("ERR_LLM_API_ERROR", "third_party", _YES, "error", "1.0.0", "The model's provider failed or is overloaded."),
    ("ERR_LLM_INVALID_RESPONSE", "third_party", _NO, "error", "1.0.0", "The provider's answer cannot be understood."),
    ("ERR_DNS_FAILURE", "infra", _YES, "error", "1.0.0", "A host name could not be resolved."),
    ("ERR_CONNECTION_REFUSED", "infra", _YES, "error", "1.0.0", "A connection was refused, reset or cut off."),
    ("ERR_INTERNAL", "infra", _YES, "error", "1.0.0", "The skill's own code raised an exception."),
    ("ERR_SSL_ERROR", "infra", _NO, "error", "1.0.0", "TLS failed: a certificate, a name or the protocol."),
    ("ERR_STORAGE_QUOTA_EXCEEDED", "infra", _NO, "error", "1.0.0", "No room is left where the skill writes."),
    ("ERR_UNKNOWN", "infra", _NO, "error", "1.0.0", "Nothing in this taxonomy knows what happened."),
    ("ERR_RATE_LIMIT_INTERNAL", "policy", _YES, "warning", "1.0.0", "Our own limiter asks for fewer calls."),
    ("ERR_RATE_LIMIT_CONCURRENT", "policy", _YES, "warning", "1.0.0", "Our own limiter allows no more calls at once."),
    ("ERR_POLICY_VIOLATION", "policy", _NO, "critical", "1.0.0", "A supervisor or a policy refused the call."),
    ("ERR_BUDGET_EXCEEDED", "policy", _NO, "critical", "1.0.0", "The call would cost more than the budget has left."),
    ("ERR_QUOTA_EXCEEDED", "policy", _NO, "error", "1.0.0", "A quota of the account is used up."),
    ("ERR_PERMISSION_DENIED", "policy", _NO, "error", "1.0.0", "The plan, or the system, does not permit this."),
    ("ERR_SKILL_DISABLED", "policy", _NO, "warning", "1.0.0", "The skill is switched off."),
    ("ERR_LLM_CONTENT_FILTER", "safety", _NO, "warning", "1.0.0", "The provider's filter, or the model, refused."),
    ("ERR_SAFETY_REJECTED", "safety", _NO, "critical", "1.0.0", "A safety check refused the content."),
    ("ERR_PROMPT_INJECTION", "safety", _NO, "critical", "1.0.0", "Content that tries to give the agent orders."),
    ("ERR_JSON_INVALID", "client", _NO, "error", "1.1.0", "A text that is no strict JSON."),
    ("ERR_JSON_PATH_INVALID", "client", _NO, "error", "1.1.0", "A path that cannot be read."),
    ("ERR_JSON_PATH_NOT_FOUND", "client", _NO, "error", "1.1.0", "A path that leads nowhere in this value."),
    ("ERR_JSON_DEPTH_EXCEEDED", "client", _NO, "error", "1.1.0", "A value nested deeper than is allowed."),
    ("ERR_JSON_SIZE_EXCEEDED", "client", _NO, "error", "1.1.0", "A value larger than is allowed."),
    ("ERR_JSON_TRANSFORM_FAILED", "client", _NO, "error", "1.1.0", "A transformation does not apply to this value."),
    ("ERR_MISSING_IDEMPOTENCY_KEY", "client", _NO, "error", "1.1.0", "The call changes something and has no key."),
    ("ERR_BLOCKED_HOST", "policy", _NO, "error", "1.1.0", "A host that the plan does not allow."),
    ("ERR_LLM_INVALID_MODEL", "client", _NO, "error", "1.1.0", "The provider knows no such model."),
    ("ERR_LLM_AUTH_FAILURE", "client", _NO, "error", "1.1.0", "The model's provider wants other credentials."),
    ("DENIED_DUPLICATE", "policy", _NO, "info", "1.1.0", "The same call succeeded before in this turn; skipped."),
    ("IDEMPOTENCY_CONFLICT", "client", _NO, "error", "1.1.0", "The key was used with other arguments or by another."),
    ("IDEMPOTENCY_IN_FLIGHT", "policy", _NO, "warning", "1.1.0", "A call with the same key has not ended yet."),
    ("ERR_CANCELLED", "policy", _NO, "warning", "1.1.0", "The call or its run was cancelled."),
    ("ERR_IN_DOUBT", "infra", _NO, "critical", "1.1.0", "The call may or may not have happened; a person decides."),
    ("ERR_SECRET_UNAVAILABLE", "infra", _NO, "error", "1.1.0", "A secret that the call needs is not there."),
    (
        "ERR_REFERENCE_UNRESOLVED",
        "client",
        _NO,
        "error",
        "1.1.0",
        "A reference to another step's output leads nowhere.",
    ),
)

ALIASES: Final[dict[str, str]] = {"ERR_RATE_LIMITED": "ERR_RATE_LIMIT_INTERNAL"}
"""Other spellings. A provider's rate limit has codes of its own: ERR_HTTP_429 and ERR_LLM_RATE_LIMIT."""

CHANGELOG: Final[tuple[tuple[str, str], ...]] = (
    ("1.1.0", "Added codes for JSON, keys, hosts, models, duplicates, cancelling, doubt, secrets and references."),
    ("1.0.0", "4 codes of success and 38 of failure."),
)

TAXONOMY: Final[dict[str, ErrorCode]] = {row[0]: ErrorCode(*row) for row in _ROWS}
RETRYABLE_CODES: Final = frozenset(code for code, row in TAXONOMY.items() if row.retryable)

_CODE: Final = re.compile(r"[A-Z0-9_]{1,64}")


def is_code(text: object) -> bool:
    """True if `text` has the form of a code; a skill may use codes that the taxonomy does not know."""
    return isinstance(text, str) and _CODE.fullmatch(text) is not None


def canonical_code(code: str) -> str:
    """The code that `code` stands for: itself, unless it is an alias."""
    return ALIASES.get(code, code)


def lookup(code: str) -> ErrorCode | None:
    """The row of `code` or of what it is an alias for; None for a code that the taxonomy does not know."""
    return TAXONOMY.get(canonical_code(code))


def is_retryable(code: str) -> bool:
    """Whether a failure with this code may be tried again. What nobody knows is not retried."""
    return ALIASES.get(code, code) in RETRYABLE_CODES
