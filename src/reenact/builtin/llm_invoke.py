"""`llm_invoke`: one question to a model, with tools, tool results, images and structured output."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from reenact.builtin.llm.adapters import complete
from reenact.builtin.llm.messages import Message, ModelRequest, ToolCall
from reenact.builtin.llm.structured import StructuredOutput
from reenact.builtin.llm.stub import STUB_MODEL
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill

AdapterName = Literal["anthropic", "openai", "openai-compatible", "stub"]
# A message is handed on as it is, with what only its provider knows in it: a typed one would lose that.
ROLES = {"role": {"enum": ["system", "developer", "user", "assistant", "tool"]}}
GivenMessage = Annotated[dict[str, Any], Meta(extra_json_schema={"properties": ROLES, "required": ["role"]})]


class TokenUsage(TypedDict):
    input_tokens: int | None
    output_tokens: int | None


class LlmResult(TypedDict):
    """`model` is the one that answered; `usage` is null where the provider told none.

    `message` is the answer in the provider's form, for the next request; `parsed` is the value that
    `response_format` asked for.
    """

    text: str
    tool_calls: list[ToolCall]
    parsed: Any
    message: dict[str, Any]
    model: str
    finish_reason: str
    usage: TokenUsage
    request_id: str | None


@skill(
    "llm_invoke",
    version="1.1.0",
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
    messages: list[GivenMessage] = [],  # noqa: B006 - never changed, shown in the schema
    model: Annotated[str, Meta(min_length=1, max_length=200)] = STUB_MODEL,
    adapter: AdapterName | None = None,
    system_prompt: str | None = None,
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None,
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 1024,
    seed: int | None = None,
    stop_sequences: Annotated[list[str], Meta(max_length=16)] = [],  # noqa: B006 - likewise
    tools: list[dict[str, Any]] = [],  # noqa: B006 - likewise
    tool_choice: str | None = None,
    response_format: dict[str, Any] | None = None,
    stream: bool = False,
    base_url: str | None = None,
    api_key: str | None = None,
) -> LlmResult:
    """Asks a model once, with a prompt or with messages, and returns its text and the tool calls that it asks for.

    Messages and tools are in OpenAI's or in Anthropic's form, whichever model is asked. The adapter follows from the
    model's name unless given; any server that speaks OpenAI's language is reached with `base_url`. A streamed answer
    is returned and recorded whole.
    """
    structured = None if response_format is None else StructuredOutput(response_format)
    request = ModelRequest(
        model=model,
        messages=_messages(prompt, messages),
        system_prompt=system_prompt,
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        stop_sequences=tuple(stop_sequences),
        tools=tuple(tools),
        tool_choice=tool_choice,
        response_format=response_format,
        stream=stream,
        base_url=base_url,
        api_key=api_key,
    )
    reply = await complete(ctx, request, adapter)
    return LlmResult(
        text=reply.text,
        tool_calls=list(reply.tool_calls),
        parsed=None if structured is None else structured.parsed(reply),
        message=reply.message,
        model=reply.model,
        finish_reason=reply.finish_reason,
        usage=TokenUsage(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens),
        request_id=reply.request_id,
    )


def _messages(prompt: str | None, messages: list[Message]) -> tuple[Message, ...]:
    if (prompt is None) == (not messages):
        raise SkillError.of("ERR_VALIDATION_FAILED", "give either prompt or messages")
    if prompt is not None:
        return ({"role": "user", "content": prompt},)
    if messages[-1]["role"] in ("system", "developer"):
        raise SkillError.of("ERR_VALIDATION_FAILED", "messages: the last one is a user's, an assistant's or a tool's")
    return tuple(messages)
