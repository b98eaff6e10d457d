"""Skills that do what their parameters say, attempt by attempt, and plans made of them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

from reenact import Registry, SkillContext, skill
from reenact.errors import SkillError
from reenact.runtime.gates.supervisor import Proposal


class Odd(Exception):
    """An exception that no rule knows."""


def act(ctx: SkillContext, word: str, *, effect: str | None) -> None:
    """Touch the world, then end the attempt as `word` says."""
    if effect is not None and word != "refused":
        ctx.side_effect(effect, f"{effect}.example")
    match word:
        case "ok":
            return
        case "429":
            ctx.http_status(429)
            ctx.retry_after(1700)
        case "timeout":
            raise TimeoutError
        case "dns":
            raise socket.gaierror(-2, "unknown name")
        case "tls":
            raise ssl.SSLCertVerificationError("bad certificate")
        case "refused":
            raise ConnectionRefusedError(111, "refused")
        case "odd":
            raise Odd("something else")
        case "caused":
            raise Odd("outer") from ConnectionResetError(104, "reset")
        case "json":
            raise SkillError.of("ERR_JSON_INVALID", "no JSON")
        case "filter":
            ctx.finish_reason("content_filter")
        case "cancelled":
            raise asyncio.CancelledError
        case _:
            ctx.http_status(int(word))


def word_for(script: list[str], attempt: int) -> str:
    return script[min(attempt, len(script) - 1)] if script else "ok"


@skill("reader", version="1.0.0", tool_class="read", idempotent=True, side_effects=["http_request"])
async def reader(ctx: SkillContext, script: list[str], value: Any = None) -> dict[str, Any]:
    act(ctx, word_for(script, ctx.attempt), effect="http_request")
    return {"value": value, "n": len(script)}


@skill("reader", version="1.1.0", tool_class="read", cost_estimate_cents=1)
async def reader_next(ctx: SkillContext, script: list[str], value: Any = None) -> dict[str, Any]:
    act(ctx, word_for(script, ctx.attempt), effect=None)
    return {"value": value, "n": len(script), "next": True}


@skill("writer", version="2.0.0", tool_class="write", side_effects=["webhook_sent"], cost_estimate_cents=3)
async def writer(ctx: SkillContext, script: list[str], value: Any = None) -> dict[str, Any]:
    act(ctx, word_for(script, ctx.attempt), effect="webhook_sent")
    return {"sent": value}


@skill(
    "keyed", version="1.0.0", tool_class="write", honours_key=True, side_effects=["email_queued"],
    cost_estimate_cents=2, retry={"max_retries": 2, "jitter_enabled": True, "jitter_max_ms": 80},
)  # fmt: skip
async def keyed(ctx: SkillContext, script: list[str], value: Any = None) -> str:
    act(ctx, word_for(script, ctx.attempt), effect="email_queued")
    return f"mail {value}"


@skill("plain", version="0.1.0", idempotent=True)
async def plain(ctx: SkillContext, script: list[str], value: Any = None) -> Any:
    act(ctx, word_for(script, ctx.attempt), effect=None)
    return value


@skill("model", version="1.0.0", tool_class="read", cost_model="tokens", side_effects=["llm_request"])
async def model(
    ctx: SkillContext,
    script: list[str],
    prompt: str = "",
    model: str = "claude-sonnet-4-20250514",
    max_tokens: int = 100,
) -> str:
    ctx.side_effect("llm_request", model)
    word = word_for(script, ctx.attempt)
    if word != "silent":
        ctx.usage(len(prompt), 7 + 3 * ctx.attempt)
        act(ctx, word, effect=None)
    return prompt.upper()


SKILLS = (reader, reader_next, writer, keyed, plain, model)


def registry() -> Registry:
    return Registry(SKILLS)


def supervisor(proposal: Proposal) -> bool:
    """Refuses by the last letter of a step id, and fails for another."""
    if proposal.step_id.endswith("9"):
        raise RuntimeError("the supervisor is confused")
    return not proposal.step_id.endswith("8")


SUPERVISOR = f"{__name__}:supervisor"
