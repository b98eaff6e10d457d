"""Results of tool calls as a model is told of them: the words, and the message in either provider's form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from reenact.errors import UsageError
from reenact.values.canonical import canonicalize

if TYPE_CHECKING:
    from reenact.contracts.outcome import StructuredOutcome

STYLES: Final = ("openai", "anthropic")
IN_DOUBT: Final = "Do not call it again: it may have happened, and a person or a later check settles it."


class ToolResult(NamedTuple):
    """What came of one tool call; `call_id` is the model's own name for it."""

    call_id: str
    text: str
    failed: bool


def check_style(style: str) -> str:
    if style not in STYLES:
        raise UsageError(f"style {style!r} is neither openai nor anthropic")
    return style


def result_text(outcome: StructuredOutcome) -> str:
    """The output as canonical JSON; of a call that failed its code, and the reason that a model can act on."""
    details = outcome.details or {}
    if outcome.ok or "output" in details:
        return canonicalize(outcome.output).decode()
    # A gate's reason, `/count: is required`, is what a model needs to do better; its message only names the gate.
    reason = details.get("reason") if "gate" in details else None
    text = f"{outcome.code}: {reason or outcome.message}"
    if outcome.code != "ERR_IN_DOUBT" or "cause" in details:
        return text  # of a lost answer the message says itself what to do
    return f"{text.rstrip('.')}. {IN_DOUBT}"


def result_messages(results: Iterable[ToolResult], style: str) -> list[dict[str, object]]:
    """The messages that tell a model what came of the calls of one answer.

    OpenAI's form has one for each and no flag for failure; Anthropic's has one for all.
    """
    if check_style(style) == "openai":
        return [{"role": "tool", "tool_call_id": result.call_id, "content": result.text} for result in results]
    blocks = [
        {"type": "tool_result", "tool_use_id": result.call_id, "content": result.text, "is_error": result.failed}
        for result in results
    ]
    return [{"role": "user", "content": blocks}] if blocks else []
