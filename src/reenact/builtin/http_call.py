"""`http_call`: one HTTP request."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Final, Literal, TypedDict, cast

from msgspec import Meta

from reenact.builtin.net.exchange import DEFAULT_MAX_BYTES, Outgoing, exchange
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.values.canonical import canonicalize

Method = Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
READ_METHODS = ("GET", "HEAD", "OPTIONS")
KEY_HEADER = "idempotency-key"


class HttpResult(TypedDict):
    """`format` says what `body` is: parsed JSON, text, base64 of bytes, or nothing."""

    status: int
    headers: dict[str, str]
    format: Literal["json", "text", "base64", "empty"]
    body: Any
    url: str


DECLARED: Final[dict[str, Any]] = {
    "tool_class": "write",
    "read_when": {"method": READ_METHODS},
    "side_effects": ["http_request"],
    "stable_fields": ["status"],
    "redact": ["authorization", "cookie", "set-cookie", "x-api-key", "api-key", "x-auth-token"],
    "permissions": ["network"],
    "failure_modes": [
        "ERR_HTTP_4XX", "ERR_HTTP_5XX", "ERR_HTTP_429", "ERR_HTTP_TIMEOUT", "ERR_DNS_FAILURE", "ERR_SSL_ERROR",
        "ERR_CONNECTION_REFUSED", "ERR_BLOCKED_HOST", "ERR_STORAGE_QUOTA_EXCEEDED", "ERR_VALIDATION_FAILED",
        "ERR_MISSING_IDEMPOTENCY_KEY", "ERR_RATE_LIMIT_INTERNAL", "ERR_RATE_LIMIT_CONCURRENT",
    ],
    "tags": ["network"],
}  # fmt: skip


@skill("http_call", version="1.3.0", in_doubt="hold", **DECLARED)  # whether a server honours the key, nobody here knows
async def http_call(
    ctx: SkillContext,
    url: str,
    *,
    method: Method = "GET",
    headers: dict[str, str] = {},  # noqa: B006 - never changed, and shown in the schema
    body: Any = None,
    body_base64: str | None = None,
    params: dict[str, str] = {},  # noqa: B006 - never changed, and shown in the schema
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None,
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None,
    follow_redirects: bool = True,
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = DEFAULT_MAX_BYTES,
) -> HttpResult:
    """Makes one HTTP request and returns status, headers and body.

    A text body is sent as it is, any other value as JSON. Writes carry an `Idempotency-Key`. Private, loopback,
    link-local and metadata addresses are refused unless the plan's `allow_hosts` names the host.
    """
    content, content_type = _content(body, body_base64)
    outgoing = Outgoing(
        method=method,
        url=url,
        headers=_headers(ctx, method, headers, content_type, idempotency_key),
        content=content,
        params=params,
        timeout_ms=timeout_ms,
        max_bytes=max_bytes,
        follow_redirects=follow_redirects,
    )
    incoming = await exchange(ctx, outgoing, skill="http_call", effect="http_request")
    return cast("HttpResult", incoming.as_output())


def _content(body: Any, body_base64: str | None) -> tuple[bytes | None, str | None]:
    if body_base64 is not None:
        if body is not None:
            raise SkillError.of("ERR_VALIDATION_FAILED", "give body or body_base64, not both")
        try:
            return base64.b64decode(body_base64, validate=True), "application/octet-stream"
        except binascii.Error:
            raise SkillError.of("ERR_VALIDATION_FAILED", "body_base64: this is not base64") from None
    if body is None:
        return None, None
    if isinstance(body, str):
        return body.encode(), "text/plain; charset=utf-8"
    return canonicalize(body), "application/json"


def _headers(
    ctx: SkillContext, method: Method, given: dict[str, str], content_type: str | None, key: str | None
) -> dict[str, str]:
    headers = {name.lower(): value for name, value in given.items()}
    if content_type is not None:
        headers.setdefault("content-type", content_type)
    if method not in READ_METHODS:
        chosen = key or headers.get(KEY_HEADER) or ctx.idempotency_key
        if not chosen:
            raise SkillError.of("ERR_MISSING_IDEMPOTENCY_KEY", f"{method} needs an idempotency_key")
        headers[KEY_HEADER] = chosen
    return headers
