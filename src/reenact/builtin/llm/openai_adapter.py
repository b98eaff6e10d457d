"""The OpenAI adapter: its models, and every server that speaks the same way, through OpenAI's own SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from reenact.builtin.extras import require
from reenact.builtin.llm.connection import EXTRA, SKILL, provider_client, provider_key
from reenact.builtin.llm.messages import Message, ModelReply, ModelRequest, ToolCall
from reenact.builtin.llm.openai_stream import StreamedCompletion
from reenact.builtin.llm.structured import for_openai
from reenact.builtin.llm.translation import messages_and_tools, spoken, texts_of
from reenact.errors import SkillError
from reenact.skills.context import SkillContext

if TYPE_CHECKING:
    import openai

HOST = "api.openai.com"
KEY_VARIABLE = "OPENAI_API_KEY"

# The `code` of an error, which OpenAI documents as stable, where it says more than the status.
_CODES = {
    "context_length_exceeded": ("ERR_LLM_CONTEXT_LENGTH", "the request is longer than the model's context"),
    "content_filter": ("ERR_LLM_CONTENT_FILTER", "the provider's filter refused the request"),
    "content_policy_violation": ("ERR_LLM_CONTENT_FILTER", "the provider's filter refused the request"),
    "insufficient_quota": ("ERR_QUOTA_EXCEEDED", "the provider's account has no credit left"),
    "model_not_found": ("ERR_LLM_INVALID_MODEL", "the provider knows no such model"),
}


class OpenAIAdapter:
    provider = "openai"

    async def complete(self, ctx: SkillContext, request: ModelRequest) -> ModelReply:
        # Importing the SDK takes a second or more, which the loop's other work should not wait for.
        await asyncio.to_thread(require, "openai", extra=EXTRA, skill=SKILL)
        import openai

        arguments = _arguments(request)
        async with provider_client(ctx, request, provider=self.provider, default_host=HOST) as http:
            client = openai.AsyncOpenAI(
                api_key=provider_key(request, KEY_VARIABLE),
                base_url=request.base_url or f"https://{HOST}/v1",
                max_retries=0,
                http_client=http,
            )
            try:
                raw = await (_streamed if request.stream else _whole)(ctx, client, arguments)
            except openai.APIStatusError as error:
                ctx.response({"error": error.body})
                known = _understood(error)
                if known is None:
                    raise
                raise known from error
        return _reply(raw, ctx.report.request_id)


def _arguments(request: ModelRequest) -> dict[str, Any]:
    messages, tools = messages_and_tools(request, "openai")
    system = [{"role": "system", "content": request.system_prompt}] if request.system_prompt else []
    # OpenAI renamed the field; servers that only speak its language know the old name.
    limit = "max_completion_tokens" if request.base_url is None else "max_tokens"
    wanted = request.response_format
    optional = {
        "temperature": request.temperature,
        "seed": request.seed,
        "stop": list(request.stop_sequences) or None,
        "tools": tools or None,
        "tool_choice": _tool_choice(request.tool_choice),
        "response_format": None if wanted is None else for_openai(wanted),
    }
    return {
        "model": request.model,
        "messages": [*system, *messages],
        limit: request.max_tokens,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _tool_choice(choice: str | None) -> object:
    named = choice not in (None, "auto", "required", "none")
    return {"type": "function", "function": {"name": choice}} if named else choice


async def _whole(_ctx: SkillContext, client: openai.AsyncOpenAI, arguments: dict[str, Any]) -> Any:
    completion = await client.chat.completions.create(**arguments)
    return _dumped(completion)


async def _streamed(ctx: SkillContext, client: openai.AsyncOpenAI, arguments: dict[str, Any]) -> Any:
    """The pieces put together into the completion that they are pieces of: what is recorded is whole."""
    whole = StreamedCompletion()
    stream = await client.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True})
    async for chunk in stream:
        if text := whole.add(_dumped(chunk)):
            ctx.progress(text)
    if whole.finish_reason is None:
        ctx.response({"partial": whole.text})
        raise SkillError.of("ERR_LLM_API_ERROR", "the stream ended before the answer did")
    return whole.completion()


def _dumped(answer: Any) -> dict[str, Any]:
    try:
        dumped = answer.model_dump(mode="json", exclude_unset=True, warnings=False)  # they would quote the answer
    except AttributeError as error:
        raise SkillError.of("ERR_LLM_INVALID_RESPONSE", "the answer is no JSON object") from error
    return dict(dumped)


def _reply(raw: dict[str, Any], request_id: str | None) -> ModelReply:
    usage = raw.get("usage") or {}
    try:
        choice = raw["choices"][0]
        said = choice["message"]
        asked = [_with_id(call, f"{raw.get('id')}-{n}") for n, call in enumerate(said.get("tool_calls") or ())]
        return ModelReply(
            text=texts_of(said.get("content")),
            message=_message(said, asked),
            model=str(raw["model"]),
            finish_reason="refusal" if said.get("refusal") else str(choice["finish_reason"]),
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
            request_id=request_id or raw.get("id"),
            raw=raw,
            tool_calls=tuple(_tool_call(call) for call in asked),
        )
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise SkillError.of("ERR_LLM_INVALID_RESPONSE", "the answer has not the form of a completion") from error


def _with_id(call: dict[str, Any], name: str) -> dict[str, Any]:
    """Some servers leave the id out, without which no result can be given."""
    return call if call.get("id") else {**call, "id": name}


def _tool_call(call: dict[str, Any]) -> ToolCall:
    name, arguments = spoken(call)
    return ToolCall(id=str(call["id"]), name=name, arguments=arguments)


def _message(said: dict[str, Any], calls: list[dict[str, Any]]) -> Message:
    """The answer as it is sent back: without the fields that are empty."""
    kept = {name: value for name, value in said.items() if value not in (None, []) and name != "tool_calls"}
    return {"role": "assistant", "content": None, **kept, **({"tool_calls": calls} if calls else {})}


def _understood(error: openai.APIStatusError) -> SkillError | None:
    return SkillError.of(*_CODES[error.code]) if error.code in _CODES else None
