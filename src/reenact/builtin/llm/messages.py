"""Model requests and replies, whoever answers, and the interface of an adapter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

from reenact.skills.context import SkillContext

Message = dict[str, Any]
"""One message, as OpenAI's or Anthropic's API takes it; an adapter translates the other's (`translation`)."""


class ToolCall(TypedDict):
    """A tool call that a model asks for. `arguments` is a text where the model wrote no JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] | str


@dataclass(frozen=True)
class ModelRequest:
    """One question. `base_url` and `api_key` are left out of comparisons and logs: they are not part of it."""

    model: str
    messages: tuple[Message, ...]
    system_prompt: str | None = None
    max_tokens: int = 1024
    temperature: float | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | None = None
    response_format: dict[str, Any] | None = None
    stream: bool = False
    base_url: str | None = field(default=None, compare=False, repr=False)
    api_key: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ModelReply:
    """One answer. `finish_reason` is the provider's word; `raw` is all that came back.

    `message` is the answer in the provider's form, to be sent back with the next question.
    """

    text: str
    message: Message
    model: str
    finish_reason: str
    input_tokens: int | None
    output_tokens: int | None
    request_id: str | None
    raw: Any
    tool_calls: tuple[ToolCall, ...] = ()


class Adapter(Protocol):
    """Speaks to one kind of provider. Never retries; raises the provider's own errors, or a `SkillError`."""

    provider: str

    async def complete(self, ctx: SkillContext, request: ModelRequest) -> ModelReply: ...
