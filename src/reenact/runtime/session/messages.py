"""A session's calls as messages that a model API accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from reenact.contracts.model_mistakes import said_name, without_marks
from reenact.contracts.references import unescape
from reenact.errors import UsageError
from reenact.record.reader import RecordedStep, RunReader
from reenact.runtime.session.plan import Document
from reenact.runtime.writing.redaction import Redactor
from reenact.store.base import Store
from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex

INTERRUPTED = "This call was interrupted; whether it took effect is not known."
WAITING = "This call waits for a person to approve it; nothing was sent."
NOT_IN_A_NAME = re.compile("[^a-zA-Z0-9_-]")
LONGEST_NAME = 64


def messages_of(store: Store, run_id: str, redactor: Redactor, style: str) -> list[Document]:
    """The calls of a session so far, with their values as its host saw them."""
    steps = RunReader(store, run_id).steps()
    return messages(steps, style, lambda value: redactor.hide(redactor.decrypt(value)))


def messages(steps: Iterable[RecordedStep], style: str, opened: Callable[[object], object]) -> list[Document]:
    """Every call is followed by its result, in request order: what a model API insists on.

    `opened` gives a recorded value as its caller saw it.
    """
    if style not in ("openai", "anthropic"):
        raise UsageError(f"style {style!r} is neither openai nor anthropic")
    pair = openai_pair if style == "openai" else anthropic_pair
    found: list[Document] = []
    for step in sorted(steps, key=lambda item: item.trace.step_index):
        found += pair(described(step, opened))
    return found


class Described(NamedTuple):
    """One call, as a model is told of it."""

    call_id: str
    tool: str
    arguments: Document
    content: str
    failed: bool


def tool_name(name: str) -> str:
    """As model APIs take it, `[a-zA-Z0-9_-]{1,64}`: a dot is written `__`, what else is not among those `_`.

    A longer one is cut to 55, followed by `-` and the first 8 hex digits of the SHA-256 of the whole name.
    """
    found = NOT_IN_A_NAME.sub("_", name.replace(".", "__")) or "_"
    return found if len(found) <= LONGEST_NAME else f"{found[:55]}-{sha256_hex(name.encode())[:8]}"


def described(step: RecordedStep, opened: Callable[[object], object]) -> Described:
    recorded = opened(step.parameters())
    recorded = recorded if isinstance(recorded, dict) else {}
    tool = tool_name(said_name(recorded) or str(step.trace.meta("skill_id")))
    arguments = unescape(without_marks(recorded), None)
    assert isinstance(arguments, dict)
    content, failed = result_of(step, opened)
    return Described(step.trace.trace_id, tool, arguments, content, failed)


def result_of(step: RecordedStep, opened: Callable[[object], object]) -> tuple[str, bool]:
    """(content, whether it failed)."""
    if not step.finished:
        return WAITING if step.trace.state == "PENDING" else INTERRUPTED, True
    outcome = step.outcome()
    if outcome.ok or (outcome.details is not None and "output" in outcome.details):
        return canonicalize(opened(outcome.output)).decode(), not outcome.ok
    # A gate's reason, `/count: is required`, is what a model needs to do better the next time.
    reason = (outcome.details or {}).get("reason") if step.trace.state == "DENIED" else None
    return f"{outcome.code}: {reason or outcome.message}", not outcome.ok


def openai_pair(call: Described) -> list[Document]:
    """This API has no flag for failure."""
    function = {"name": call.tool, "arguments": canonicalize(call.arguments).decode()}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call.call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call.call_id, "content": call.content},
    ]


def anthropic_pair(call: Described) -> list[Document]:
    use = {"type": "tool_use", "id": call.call_id, "name": call.tool, "input": call.arguments}
    result = {
        "type": "tool_result",
        "tool_use_id": call.call_id,
        "content": call.content,
        "is_error": call.failed,
    }
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
