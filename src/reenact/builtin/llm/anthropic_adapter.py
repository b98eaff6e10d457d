"""The Anthropic adapter: Claude, through Anthropic's own SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from reenact.builtin.extras import require
from reenact.builtin.llm.connection import EXTRA, SKILL, provider_client, provider_key
from reenact.builtin.llm.messages import ModelReply, ModelRequest, ToolCall
from reenact.builtin.llm.structured import for_anthropic
from reenact.builtin.llm.translation import SYSTEM, messages_and_tools, texts_of
from reenact.errors import SkillError
from reenact.skills.context import SkillContext

if TYPE_CHECKING:
    import anthropic

HOST = "api.anthropic.com"
KEY_VARIABLE = "ANTHROPIC_API_KEY"


class AnthropicAdapter:
    provider = "anthropic"

    async def complete(self, ctx: SkillContext, request: ModelRequest) -> ModelReply:
        # Importing the SDK takes a second or more, which the loop's other work should not wait for.
        await asyncio.to_thread(require, "anthropic", extra=EXTRA, skill=SKILL)
        import anthropic

        if request.seed is not None:
            raise SkillError.of("ERR_VALIDATION_FAILED", "seed: Anthropic's models have none")
        arguments = _arguments(request)
        async with provider_client(ctx, request, provider=self.provider, default_host=HOST) as http:
            client = anthropic.AsyncAnthropic(
                api_key=provider_key(request, KEY_VARIABLE),
                base_url=request.base_url or f"https://{HOST}",
                max_retries=0,
                http_client=http,
            )
            try:
                message = await (_streamed if request.stream else _whole)(ctx, client, arguments)
            except anthropic.APIStatusError as error:
                ctx.response({"error": error.body})
                known = _understood(error)
                if known is None:
                    raise
                raise known from error
        return _reply(message, ctx.report.request_id)


def _arguments(request: ModelRequest) -> dict[str, Any]:
    messages, tools = messages_and_tools(request, "anthropic")
    system = [request.system_prompt] if request.system_prompt else []
    system += [texts_of(message.get("content")) for message in messages if message["role"] in SYSTEM]
    optional: dict[str, Any] = {
        "system": "\n\n".join(system),
        "stop_sequences": list(request.stop_sequences),
        "tools": tools,
        "tool_choice": _tool_choice(request.tool_choice),
        "extra_body": None if request.temperature is None else {"temperature": request.temperature},
    }
    if request.response_format is not None:
        optional["output_config"] = {"format": for_anthropic(request.response_format)}
    return {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [message for message in messages if message["role"] not in SYSTEM],
        **{name: value for name, value in optional.items() if value},
    }


def _tool_choice(choice: str | None) -> dict[str, str] | None:
    if choice is None:
        return None
    known = {"auto": "auto", "required": "any", "none": "none"}
    return {"type": known[choice]} if choice in known else {"type": "tool", "name": choice}


async def _whole(_ctx: SkillContext, client: anthropic.AsyncAnthropic, arguments: dict[str, Any]) -> Any:
    return await client.messages.create(**arguments)


async def _streamed(ctx: SkillContext, client: anthropic.AsyncAnthropic, arguments: dict[str, Any]) -> Any:
    """The message as it is when the stream has ended: what is recorded does not depend on how it arrived."""
    async with client.messages.stream(**arguments) as stream:
        async for text in stream.text_stream:
            ctx.progress(text)
        return await stream.get_final_message()


def _reply(message: Any, request_id: str | None) -> ModelReply:
    try:
        raw = message.model_dump(mode="json", exclude_unset=True, warnings=False)  # they would quote the answer
        usage = raw["usage"]
        cached = (usage.get("cache_creation_input_tokens") or 0) + (usage.get("cache_read_input_tokens") or 0)
        return ModelReply(
            text="".join(block["text"] for block in raw["content"] if block["type"] == "text"),
            message={"role": "assistant", "content": raw["content"]},
            model=str(raw["model"]),
            finish_reason=str(raw["stop_reason"]),
            input_tokens=int(usage["input_tokens"]) + cached,
            output_tokens=int(usage["output_tokens"]),
            request_id=request_id,
            raw=raw,
            tool_calls=tuple(
                ToolCall(id=block["id"], name=block["name"], arguments=block["input"])
                for block in raw["content"]
                if block["type"] == "tool_use"
            ),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SkillError.of("ERR_LLM_INVALID_RESPONSE", "the answer has not the form of a message") from error


def _understood(error: anthropic.APIStatusError) -> SkillError | None:
    """What the status alone does not tell, by the body's own type. Texts are never read: they may change."""
    if error.status_code == 413:
        return SkillError.of("ERR_LLM_CONTEXT_LENGTH", "the request is larger than the provider takes")
    if error.type == "billing_error":
        return SkillError.of("ERR_QUOTA_EXCEEDED", "the provider's account has no credit left")
    return None
