"""The demo's own skill: it writes a receipt as a model would, and reports tokens as a model would."""

from __future__ import annotations

from reenact.skills.context import SkillContext
from reenact.skills.declare import skill


@skill("demo.write_receipt", version="1.0.0", tool_class="read", idempotent=True, cost_model="tokens")
def write_receipt(ctx: SkillContext, model: str, prompt: str, max_tokens: int = 64) -> dict[str, str]:
    """Writes a receipt for an order."""
    text = f"Receipt for {prompt}."[: max_tokens * 4]
    ctx.usage(input_tokens=len(prompt.split()), output_tokens=len(text.split()), model=model)
    return {"text": text}
