"""The stub adapter: a model that needs no network and always says the same to the same question."""

from __future__ import annotations

from typing import Any

from reenact.builtin.llm.messages import ModelReply, ModelRequest
from reenact.skills.context import SkillContext
from reenact.skills.estimate import estimate_tokens
from reenact.values.digest import digest

STUB_MODEL = "stub"
STUB_SERVICE = "llm_stub"
_ECHO = 200


class StubAdapter:
    """Answers with a digest of the question and its last words.

    A test or an example may lend it another voice: `ctx.services["llm_stub"]`, a function from `ModelRequest` to
    the text of the answer.
    """

    provider = "stub"

    async def complete(self, ctx: SkillContext, request: ModelRequest) -> ModelReply:
        question: dict[str, Any] = {
            "model": request.model,
            "messages": list(request.messages),
            "system_prompt": request.system_prompt,
            "temperature": request.temperature,
            "seed": request.seed,
        }
        name = digest(question)
        voice = ctx.services.get(STUB_SERVICE)
        text = voice(request) if voice else f"[stub {name[:8]}] {request.messages[-1]['content'][:_ECHO]}"
        ctx.side_effect("llm_request", f"{self.provider}/{request.model}")
        prompt = estimate_tokens([*request.messages, request.system_prompt])
        answer = min(estimate_tokens(text), request.max_tokens)
        return ModelReply(
            text=text,
            model=request.model,
            finish_reason="stop",
            input_tokens=prompt,
            output_tokens=answer,
            request_id=f"stub-{name[:16]}",
            raw={"text": text},
        )
