"""The stub adapter: a model that needs no network and always says the same to the same question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reenact.builtin.llm.messages import Message, ModelReply, ModelRequest, ToolCall
from reenact.builtin.llm.translation import texts_of
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.estimate import estimate_tokens
from reenact.values.canonical import canonicalize
from reenact.values.digest import digest

STUB_MODEL = "stub"
STUB_SERVICE = "llm_stub"
_ECHO = 200
_WORD = re.compile(r"\S*\s*")


class StubAdapter:
    """Answers with a digest of the question and its last words.

    A test or an example may lend it another voice, `runtime.services["llm_stub"]`: a function from `ModelRequest` to
    an answer, or a list whose first answer is for a request without any, the second for one with one, and so on. An
    answer is a text, or `{"text": …, "tool_calls": [{"name": …, "arguments": {…}}]}` with either of the two.
    """

    provider = "stub"

    async def complete(self, ctx: SkillContext, request: ModelRequest) -> ModelReply:
        name = digest(_question(request))
        said = _said(ctx.services.get(STUB_SERVICE), request, name)
        calls = tuple(
            ToolCall(id=f"call_{name[:16]}_{number}", name=call["name"], arguments=call.get("arguments", {}))
            for number, call in enumerate(said.get("tool_calls", ()), start=1)
        )
        text = str(said.get("text", ""))
        ctx.side_effect("llm_request", f"{self.provider}/{request.model}")
        if request.stream:
            for piece in filter(None, _WORD.findall(text)):
                ctx.progress(piece)
        prompt = estimate_tokens([*request.messages, request.system_prompt, *request.tools])
        answer = min(estimate_tokens([text, *calls]), request.max_tokens)
        return ModelReply(
            text=text,
            message=_message(text, calls),
            model=request.model,
            finish_reason="tool_calls" if calls else "stop",
            input_tokens=prompt,
            output_tokens=answer,
            request_id=f"stub-{name[:16]}",
            raw={"text": text, "tool_calls": list(calls)} if calls else {"text": text},
            tool_calls=calls,
        )


def _question(request: ModelRequest) -> dict[str, Any]:
    """What the answer depends on."""
    question: dict[str, Any] = {
        "model": request.model,
        "messages": list(request.messages),
        "system_prompt": request.system_prompt,
        "temperature": request.temperature,
        "seed": request.seed,
    }
    more = {
        "tools": list(request.tools),
        "tool_choice": request.tool_choice,
        "response_format": request.response_format,
    }
    return question | {key: value for key, value in more.items() if value}


def _said(voice: Any, request: ModelRequest, name: str) -> Mapping[str, Any]:
    if voice is None:
        answer: Any = f"[stub {name[:8]}] {texts_of(request.messages[-1].get('content'))[:_ECHO]}"
    elif callable(voice):
        answer = voice(request)
    else:
        given = sum(message["role"] == "assistant" for message in request.messages)
        if given >= len(voice):
            raise SkillError.of("ERR_LLM_INVALID_RESPONSE", f"the stub has {len(voice)} answers, and gave them all")
        answer = voice[given]
    return {"text": answer} if isinstance(answer, str) else answer


def _message(text: str, calls: tuple[ToolCall, ...]) -> Message:
    """In OpenAI's form."""
    if not calls:
        return {"role": "assistant", "content": text}
    asked = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": _written(call["arguments"])},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": asked}


def _written(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else canonicalize(arguments).decode()
