"""Which adapter speaks to which model."""

from __future__ import annotations

from collections.abc import Callable

from reenact.builtin.llm.anthropic_adapter import AnthropicAdapter
from reenact.builtin.llm.messages import Adapter, ModelReply, ModelRequest
from reenact.builtin.llm.openai_adapter import OpenAIAdapter
from reenact.builtin.llm.stub import STUB_MODEL, StubAdapter
from reenact.errors import SkillError
from reenact.policy.exception_rules import FINISH_REASON
from reenact.skills.context import SkillContext

ADAPTERS: dict[str, Callable[[], Adapter]] = {
    "anthropic": AnthropicAdapter,
    "openai": OpenAIAdapter,
    "openai-compatible": OpenAIAdapter,
    "stub": StubAdapter,
}


def adapter_for(name: str | None, model: str) -> Adapter:
    """The named adapter; without a name, the one that the model's name belongs to."""
    if name is None:
        name = "stub" if model == STUB_MODEL else "anthropic" if model.startswith("claude-") else "openai"
    if name != "stub" and model == STUB_MODEL:
        raise SkillError.of("ERR_LLM_INVALID_MODEL", f"model: name the model that {name} is to ask")
    return ADAPTERS[name]()


async def complete(ctx: SkillContext, request: ModelRequest, adapter: str | None = None) -> ModelReply:
    """Asks once and reports usage, request id, finish reason and the whole response.

    An answer that a filter cut off, or that did not fit, is an error: it was billed, and it is no answer.
    """
    reply = await adapter_for(adapter, request.model).complete(ctx, request)
    if reply.input_tokens is not None and reply.output_tokens is not None:
        # Priced as the model that was asked for: that is the one whose price the plan pinned.
        ctx.usage(reply.input_tokens, reply.output_tokens, request.model)
    if reply.request_id:
        ctx.request_id(reply.request_id)
    ctx.finish_reason(reply.finish_reason)
    ctx.response(reply.raw)
    if reply.finish_reason in FINISH_REASON:
        raise SkillError.of(FINISH_REASON[reply.finish_reason], f"the model stopped: {reply.finish_reason}")
    return reply
