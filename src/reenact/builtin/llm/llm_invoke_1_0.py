"""`llm_invoke@1.0.0`: text in, text out. Kept for plans that pin it and runs that are open; newer ones have more."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from reenact.builtin.llm.adapters import complete
from reenact.builtin.llm.messages import ModelRequest
from reenact.builtin.llm.stub import STUB_MODEL
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill

Role = Literal["system", "user", "assistant"]
AdapterName = Literal["anthropic", "openai", "openai-compatible", "stub"]


class Message(TypedDict):
    role: Role
    content: str


class TokenUsage(TypedDict):
    input_tokens: int | None
    output_tokens: int | None


class LlmResult(TypedDict):
    """`model` is the one that answered; `usage` is null where the provider told none."""

    text: str
    model: str
    finish_reason: str
    usage: TokenUsage
    request_id: str | None


@skill(
    "llm_invoke",
    version="1.0.0",
    tool_class="read",
    side_effects=["llm_request"],
    cost_model="tokens",
    timeout_ms=120_000,
    redact=["api_key"],
    permissions=["network"],
    failure_modes=[
        "ERR_LLM_RATE_LIMIT", "ERR_LLM_API_ERROR", "ERR_LLM_INVALID_RESPONSE", "ERR_LLM_CONTEXT_LENGTH",
        "ERR_LLM_CONTENT_FILTER", "ERR_LLM_INVALID_MODEL", "ERR_LLM_AUTH_FAILURE", "ERR_QUOTA_EXCEEDED",
        "ERR_HTTP_400", "ERR_HTTP_4XX", "ERR_HTTP_TIMEOUT", "ERR_CONNECTION_REFUSED", "ERR_DNS_FAILURE",
        "ERR_SSL_ERROR", "ERR_BLOCKED_HOST", "ERR_VALIDATION_FAILED", "ERR_SKILL_DISABLED",
        "ERR_RATE_LIMIT_INTERNAL", "ERR_RATE_LIMIT_CONCURRENT",
    ],
    tags=["model", "network"],
)  # fmt: skip
async def llm_invoke(
    ctx: SkillContext,
    *,
    prompt: str | None = None,
    messages: list[Message] | None = None,
    model: Annotated[str, Meta(min_length=1, max_length=200)] = STUB_MODEL,
    adapter: AdapterName | None = None,
    system_prompt: str | None = None,
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None,
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 1024,
    seed: int | None = None,
    stop_sequences: Annotated[list[str], Meta(max_length=16)] = [],  # noqa: B006 - never changed, shown in the schema
    stream: bool = False,
    base_url: str | None = None,
    api_key: str | None = None,
) -> LlmResult:
    """Asks a model once, with a prompt or with messages, and returns its text.

    The adapter follows from the model's name unless given; any server that speaks OpenAI's language is reached with
    `base_url`. A streamed answer is returned and recorded whole.
    """
    request = ModelRequest(
        model=model,
        messages=tuple(dict(message) for message in _messages(prompt, messages)),
        system_prompt=system_prompt,
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        stop_sequences=tuple(stop_sequences),
        stream=stream,
        base_url=base_url,
        api_key=api_key,
    )
    reply = await complete(ctx, request, adapter)
    return LlmResult(
        text=reply.text,
        model=reply.model,
        finish_reason=reply.finish_reason,
        usage=TokenUsage(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens),
        request_id=reply.request_id,
    )


def _messages(prompt: str | None, messages: list[Message] | None) -> tuple[Message, ...]:
    if (prompt is None) == (messages is None):
        raise SkillError.of("ERR_VALIDATION_FAILED", "give either prompt or messages")
    if prompt is not None:
        return (Message(role="user", content=prompt),)
    if not messages or messages[-1]["role"] == "system":
        raise SkillError.of("ERR_VALIDATION_FAILED", "messages: the last one is a user's or an assistant's")
    return tuple(messages)
