"""A session's exchange with a model, rebuilt from the record so that it can be sent on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from reenact.builtin.llm.translation import as_anthropic, as_openai
from reenact.contracts.model_mistakes import without_marks
from reenact.contracts.references import unescape
from reenact.contracts.tool_results import ToolResult, check_style, result_messages
from reenact.errors import UsageError
from reenact.record.reader import RecordedStep, RunReader
from reenact.runtime.session.answering.answers import Answers
from reenact.runtime.session.answering.calls import RecordedCall, recorded_call, recorded_calls
from reenact.runtime.session.answering.lanes import is_under
from reenact.runtime.session.messages import Described, Result, described, opener, told, tool_name, unknown
from reenact.runtime.session.plan import Document
from reenact.runtime.writing.redaction import Redactor
from reenact.store.base import Store

MODEL: Final = "llm_invoke"
NOT_MADE: Final = "This call was not made; nothing was sent."
Opened = Callable[[object], object]


class CallsSoFar:
    """The calls of a session, in their order and as far as its program has come.

    A program that is started again has not made what it has not asked for, whatever the record holds: else it would be
    told something else than the first time. Each lane talks to a model of its own.
    """

    def __init__(self, store: Store, run_id: str, answers: Answers | None, redactor: Redactor) -> None:
        self._here = None if answers is None else answers.lanes.current.path
        self._calls = [] if answers is None else answers.asked()
        made = None if answers is None else {*answers.made}
        if made is None or made or any(call.is_driven_on for call in self._calls):
            found = made_here(RunReader(store, run_id), redactor, as_told=made is not None)
            by_now = {call.name: call for call in found}
            self._calls = [by_now.get(call.name, call) if call.is_driven_on else call for call in self._calls]
            self._calls += [call for call in found if made is None or call.name in made]

    def question(self) -> tuple[RecordedStep | None, list[RecordedCall]]:
        """(the last that this lane asked a model, the calls that it and those under it made since)."""
        for place in reversed(range(len(self._calls))):
            call = self._calls[place]
            if call.skill_id == MODEL and self._here in (None, call.lane):
                since = self._calls[place + 1 :]
                return call.step, [each for each in since if is_under(each.lane, self._here or each.lane)]
        return None, []


def made_here(reader: RunReader, redactor: Redactor, *, as_told: bool) -> list[RecordedCall]:
    """The calls of a run; `as_told` as its program knows them, else with all that is known of them by now."""
    steps = list(reader.steps())
    if as_told:
        return list(recorded_calls(reader.fold, steps, reader.payloads, redactor, 0))
    return [recorded_call(step, redactor, 0, None) for step in sorted(steps, key=lambda step: step.trace.step_index)]


def result_for(call: RecordedCall) -> Result:
    """What a model is told of a call: what its program was told, in the words of `outcome.as_message`.

    What came of a call since the program went on is not in it: the next start is to say the same.
    """
    known = call.known()
    return unknown(was_sent=call.is_known_as_sent) if known is None else told(known)


def conversation_of(record: CallsSoFar, redactor: Redactor, style: str | None) -> list[Document]:
    """The messages of the last request to a model, its answer, and what came of the tool calls that this asked for.

    Without a style everything stays as it was sent and answered, with what only that provider knows.
    """
    if style is not None:
        check_style(style)
    opened = opener(redactor)
    question, since = record.question()
    if question is None:
        return []
    messages = request_of(question, opened)
    answer = answer_of(question, opened)
    if answer is not None:
        said = answer.get("message") or {"role": "assistant", "content": answer["text"]}
        calls = answer.get("tool_calls") or []
        results = results_of(calls, [described(call.step, opened, result_for(call)) for call in since] if calls else [])
        messages = [*messages, said, *result_messages(results, style or style_of(said))]
    return messages if style is None else as_openai(messages) if style == "openai" else as_anthropic(messages)


def request_of(step: RecordedStep, opened: Opened) -> list[dict[str, Any]]:
    recorded = opened(step.parameters())
    if not isinstance(recorded, dict):
        raise UsageError(f"what {step.step_id} asked the model was erased; the conversation cannot be rebuilt")
    parameters = unescape(without_marks(recorded), None)
    assert isinstance(parameters, dict)
    messages = parameters.get("messages")
    return messages if isinstance(messages, list) else [{"role": "user", "content": parameters.get("prompt")}]


def answer_of(step: RecordedStep, opened: Opened) -> dict[str, Any] | None:
    """None where the model has not answered, or the answer was erased."""
    outcome = step.outcome() if step.finished else None
    output = opened(outcome.output) if outcome is not None and outcome.ok else None
    return output if isinstance(output, dict) else None


def style_of(message: Document) -> str:
    return "anthropic" if isinstance(message.get("content"), list) else "openai"


def results_of(calls: list[dict[str, Any]], made: list[Described]) -> list[ToolResult]:
    """What came of each call that a model asked for: each needs a result, or no API takes the messages.

    A call belongs to the first step behind the answer with its tool and arguments, else to the first with its tool: the
    host may have bound a secret, or repaired what the model wrote.
    """
    left = list(made)
    found: dict[int, Described] = {}
    for same_arguments in (True, False):
        for number, call in enumerate(calls):
            fits = (
                item
                for item in left
                if item.tool == tool_name(call["name"]) and (not same_arguments or item.arguments == call["arguments"])
            )
            if number not in found and (step := next(fits, None)) is not None:
                found[number] = step
                left = [item for item in left if item is not step]
    return [
        found[number].result._replace(call_id=call["id"])
        if number in found
        else ToolResult(call["id"], NOT_MADE, failed=True)
        for number, call in enumerate(calls)
    ]
