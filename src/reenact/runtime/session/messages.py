"""A session's calls as messages that a model API accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from reenact.contracts.model_mistakes import said_name, without_marks
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.references import unescape
from reenact.contracts.tool_results import IN_DOUBT, ToolResult, check_style, result_messages, result_text
from reenact.record.reader import RecordedStep, RunReader
from reenact.record.told import loss_outcome
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
    return messages(RunReader(store, run_id).steps(), style, opener(redactor))


def opener(redactor: Redactor) -> Callable[[object], object]:
    """Gives a recorded value as its caller saw it."""
    return lambda value: redactor.hide(redactor.decrypt(value))


def messages(steps: Iterable[RecordedStep], style: str, opened: Callable[[object], object]) -> list[Document]:
    """Every call is followed by its result, in request order: what a model API insists on.

    `opened` gives a recorded value as its caller saw it.
    """
    asked = openai_call if check_style(style) == "openai" else anthropic_call
    found: list[Document] = []
    for step in sorted(steps, key=lambda item: item.trace.step_index):
        call = described(step, opened, result_of(step, opened))
        found += [asked(call), *result_messages([call.result], style)]
    return found


Result = tuple[str, bool]
"""(content, whether the call failed)."""


class Described(NamedTuple):
    """One call, as a model is told of it."""

    tool: str
    arguments: Document
    result: ToolResult


def tool_name(name: str) -> str:
    """As model APIs take it, `[a-zA-Z0-9_-]{1,64}`: a dot is written `__`, what else is not among those `_`.

    A longer one is cut to 55, followed by `-` and the first 8 hex digits of the SHA-256 of the whole name.
    """
    found = NOT_IN_A_NAME.sub("_", name.replace(".", "__")) or "_"
    return found if len(found) <= LONGEST_NAME else f"{found[:55]}-{sha256_hex(name.encode())[:8]}"


def described(step: RecordedStep, opened: Callable[[object], object], result: Result) -> Described:
    recorded = opened(step.parameters())
    recorded = recorded if isinstance(recorded, dict) else {}
    tool = tool_name(said_name(recorded) or str(step.trace.meta("skill_id")))
    arguments = unescape(without_marks(recorded), None)
    assert isinstance(arguments, dict)
    return Described(tool, arguments, ToolResult(step.trace.trace_id, *result))


def result_of(step: RecordedStep, opened: Callable[[object], object]) -> Result:
    """What is on record of a call."""
    if not step.finished and step.trace.attempts and step.trace.attempts[-1].kind == "lost":
        return told(loss_outcome(step, step.trace.attempts[-1]))
    if not step.finished:
        return unknown(was_sent=step.trace.state != "PENDING")
    outcome = step.outcome()
    if outcome.details is not None and "output" in outcome.details:
        outcome = replace(outcome, details={**outcome.details, "output": opened(outcome.output)})
    return told(outcome)


def told(outcome: StructuredOutcome) -> Result:
    return result_text(outcome), not outcome.ok


def unknown(*, was_sent: bool) -> Result:
    return (f"{INTERRUPTED} {IN_DOUBT}" if was_sent else WAITING), True


def openai_call(call: Described) -> Document:
    function = {"name": call.tool, "arguments": canonicalize(call.arguments).decode()}
    asked = {"id": call.result.call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [asked]}


def anthropic_call(call: Described) -> Document:
    asked = {"type": "tool_use", "id": call.result.call_id, "name": call.tool, "input": call.arguments}
    return {"role": "assistant", "content": [asked]}
