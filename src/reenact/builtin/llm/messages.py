"""Model requests and replies, in no provider's words, and the interface of an adapter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypedDict

from reenact.skills.context import SkillContext

Role = Literal["system", "user", "assistant"]


class Message(TypedDict):
    role: Role
    content: str


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
    stream: bool = False
    base_url: str | None = field(default=None, compare=False, repr=False)
    api_key: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ModelReply:
    """One answer. `finish_reason` is the provider's word; `raw` is all that came back."""

    text: str
    model: str
    finish_reason: str
    input_tokens: int | None
    output_tokens: int | None
    request_id: str | None
    raw: Any


class Adapter(Protocol):
    """Speaks to one kind of provider. Never retries; raises the provider's own errors, or a `SkillError`."""

    provider: str

    async def complete(self, ctx: SkillContext, request: ModelRequest) -> ModelReply: ...
