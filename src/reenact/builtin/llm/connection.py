"""The HTTP side of a provider's SDK: guarded, bounded, and reporting what each response says about itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reenact.builtin.extras import require
from reenact.builtin.limiter import limited
from reenact.builtin.llm.messages import ModelRequest
from reenact.builtin.net.body import BoundedAnswer
from reenact.builtin.net.quiet import quiet
from reenact.builtin.net.retry_after import retry_after_ms
from reenact.builtin.net.transport import guarded_client, on_first_byte
from reenact.errors import SkillError
from reenact.skills.context import SkillContext

if TYPE_CHECKING:
    import httpx2

SKILL = "llm_invoke"
EXTRA = "models"
# An SDK adds headers from the environment (organization, custom ones). A server that a plan names gets none of them.
_HEADERS_FOR_STRANGERS = frozenset(
    {
        "accept", "accept-encoding", "anthropic-beta", "anthropic-version", "authorization", "connection",
        "content-length", "content-type", "host", "idempotency-key", "user-agent", "x-api-key",
    }
)  # fmt: skip
_CREDENTIALS = {"authorization": "Bearer {}", "x-api-key": "{}"}
NO_KEY = "none"


@asynccontextmanager
async def provider_client(
    ctx: SkillContext, request: ModelRequest, *, provider: str, default_host: str
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client for one request to one provider, under the limits of skill and host and the attempt's deadline."""
    require("httpx2", extra=EXTRA, skill=SKILL)
    import httpx2

    seconds = max(0.001, ctx.remaining_seconds)
    host = urlsplit(request.base_url).hostname if request.base_url else default_host
    first_byte = on_first_byte(lambda: ctx.side_effect("llm_request", f"{provider}/{request.model}"))

    async def before(outgoing: httpx2.Request) -> None:
        outgoing.extensions = {**outgoing.extensions, **first_byte}
        if request.base_url is not None:
            for name in [name for name in outgoing.headers if name.lower() not in _HEADERS_FOR_STRANGERS]:
                del outgoing.headers[name]
            for name, form in _CREDENTIALS.items():
                if name in outgoing.headers:  # the environment may have put one of its own in the place of the plan's
                    outgoing.headers[name] = form.format(request.api_key or NO_KEY)

    async def after(response: httpx2.Response) -> None:
        _report(ctx, response)

    with limited(ctx, SKILL, host), quiet():
        answer = BoundedAnswer()
        client = guarded_client(ctx, SKILL, seconds=seconds, answer=answer)
        client.event_hooks = {"request": [before], "response": [after]}
        try:
            async with asyncio.timeout(seconds), client:
                yield client
        except TimeoutError as error:
            raise httpx2.ReadTimeout(f"no complete answer within {round(seconds * 1000)} ms") from error
        except Exception as error:
            if answer.refused is not None:
                raise answer.refused from error
            raise


def _report(ctx: SkillContext, response: httpx2.Response) -> None:
    ctx.http_status(response.status_code)
    headers = response.headers
    request_id = headers.get("request-id") or headers.get("x-request-id")
    if request_id:
        ctx.request_id(request_id[:200])
    precise = headers.get("retry-after-ms", "")
    if precise.isascii() and precise.isdigit():
        ctx.retry_after(int(precise[:9]))
        return
    wait = retry_after_ms(headers.get("retry-after"), ctx.clock.now_ms())
    if wait is not None:
        ctx.retry_after(wait)


def provider_key(request: ModelRequest, variable: str) -> str:
    """The plan's key. The machine's own one goes to the provider itself only, never to a server that a plan names."""
    key = request.api_key or (None if request.base_url else os.environ.get(variable))
    if not key and request.base_url is None:
        raise SkillError.of(
            "ERR_LLM_AUTH_FAILURE",
            f"no key: set {variable} in the environment, or name a secret for api_key "
            f'(in a plan {{"$secret": "NAME"}}, in a session secrets={{"/api_key": "NAME"}})',
        )
    return key or NO_KEY
