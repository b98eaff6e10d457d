"""`webhook_send`: a signed notification to somebody else's server."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from reenact.builtin.net.exchange import Outgoing, exchange
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.values.canonical import canonicalize

_MAX_RESPONSE = 1_000_000
_SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix that marks such a secret, not one


class WebhookResult(TypedDict):
    status: int
    webhook_id: str
    body: Any


@skill(
    "webhook_send",
    version="1.0.0",
    tool_class="write",
    honours_key=True,  # receivers drop a second delivery with the same webhook-id
    side_effects=["webhook_sent"],
    stable_fields=["status"],
    redact=["secret", "authorization", "webhook-signature"],
    permissions=["network"],
    failure_modes=[
        "ERR_HTTP_4XX", "ERR_HTTP_5XX", "ERR_HTTP_429", "ERR_HTTP_TIMEOUT", "ERR_DNS_FAILURE", "ERR_SSL_ERROR",
        "ERR_CONNECTION_REFUSED", "ERR_BLOCKED_HOST", "ERR_VALIDATION_FAILED", "ERR_MISSING_IDEMPOTENCY_KEY",
    ],
    tags=["network"],
)  # fmt: skip
async def webhook_send(
    ctx: SkillContext,
    url: str,
    payload: Any,
    *,
    secret: str | None = None,
    headers: dict[str, str] = {},  # noqa: B006 - never changed, and shown in the schema
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None,
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None,
) -> WebhookResult:
    """Posts a JSON payload, signed with HMAC-SHA-256 over id, timestamp and body (Standard Webhooks).

    The id is the idempotency key, the same on every delivery of one call. Redirects are not followed.
    """
    webhook_id = idempotency_key or ctx.idempotency_key
    if not webhook_id:
        raise SkillError.of("ERR_MISSING_IDEMPOTENCY_KEY", "a webhook needs an idempotency_key")
    body = canonicalize(payload)
    timestamp = str(ctx.clock.now_ms() // 1000)
    own = {
        "content-type": "application/json",
        "idempotency-key": webhook_id,
        "webhook-id": webhook_id,
        "webhook-timestamp": timestamp,
    }
    if secret is not None:
        own["webhook-signature"] = sign(secret, webhook_id, timestamp, body)
    outgoing = Outgoing(
        method="POST",
        url=url,
        headers={**{name.lower(): value for name, value in headers.items()}, **own},
        content=body,
        timeout_ms=timeout_ms,
        max_bytes=_MAX_RESPONSE,
        follow_redirects=False,
    )
    incoming = await exchange(ctx, outgoing, skill="webhook_send", effect="webhook_sent")
    if incoming.status >= 300:
        raise SkillError.of("ERR_UNKNOWN", f"the receiver answered {incoming.status}; a webhook follows no redirect")
    return WebhookResult(status=incoming.status, webhook_id=webhook_id, body=incoming.body)


def sign(secret: str, webhook_id: str, timestamp: str, body: bytes) -> str:
    """`v1,` and the base64 of HMAC-SHA-256 over `id.timestamp.body`; a `whsec_` secret is base64 itself."""
    key = secret.encode()
    if secret.startswith(_SECRET_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
        except binascii.Error:
            raise SkillError.of("ERR_VALIDATION_FAILED", "secret: what follows whsec_ is not base64") from None
    digest = hmac.new(key, f"{webhook_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode("ascii")
