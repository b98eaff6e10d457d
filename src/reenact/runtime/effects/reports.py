"""What an attempt said about itself, as a record may hold it. A skill may say anything; nothing of it stops a run."""

from __future__ import annotations

import dis
import inspect
import traceback
from collections.abc import Callable, Iterable
from types import CodeType, TracebackType
from typing import Final, cast

from msgspec.structs import replace

from reenact.contracts.facts import ExceptionFact, Facts, Usage
from reenact.contracts.records import SideEffect
from reenact.contracts.references import escape_encrypted_marks
from reenact.errors import ReenactError, SkillError
from reenact.policy.classify import cause_chain, facts_of
from reenact.policy.repeat import STILL_RUNNING
from reenact.skills.context import Remarks
from reenact.skills.plain import to_plain
from reenact.values.canonical import canonicalize

RAISE: Final = dis.opmap["RAISE_VARARGS"]
MOST = 2**53 - 1
LONGEST_TEXT = 20_000
"""Of a message, once secrets are taken out of it."""
LONGEST_HEARD = 1 << 20
"""What is longer is not kept at all: a secret that is cut in two can no longer be found."""
# What the records of the chain may hold: docs/spec/attempts.md.
LONGEST_TYPE = 255
LONGEST_FINISH_REASON = 64
LONGEST_REQUEST_ID = 255
LONGEST_SIDE_EFFECT = 64
LONGEST_TARGET = 1024
FEW = 128
"""So many side effects fit into a record, whatever they say."""
MOST_BYTES = 700_000
"""Of all side effects in one record; a line of the journal has at most a mebibyte."""
INVALID_STATUS = 599
"""A status that HTTP does not have is taken for one of the server's errors (RFC 9110, 15)."""


class ChildFailure(Exception):  # carries what happened elsewhere
    """A skill failed in its own process; the facts were taken there."""

    def __init__(self, message: str, facts: Facts, details: dict[str, object] | None, *, unsure: bool) -> None:
        super().__init__(message)
        self.facts = facts
        self.unsure = unsure
        self.details = details or {}


class ChildDied(RuntimeError):
    """A skill's own process ended after it had begun, and before it answered: what it did is not known."""


class Wordless(RuntimeError):
    """Stands for an exception that raises when it is asked what it is; its name is all that is known."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}, which raises when it is asked what it says")


def facts(report: Remarks, error: BaseException | None, *, still_running: bool) -> Facts:
    found = Facts() if error is None else error.facts if isinstance(error, ChildFailure) else facts_of(error)
    exceptions = recordable(found)
    if still_running:
        exceptions = (*exceptions, ExceptionFact(errno=None, type=STILL_RUNNING))
    return replace(
        found,
        exceptions=exceptions,
        http_status=status(found.http_status if found.http_status is not None else report.http_status),
        usage=None if report.usage is None else Usage(
            input_tokens=whole(report.usage["input_tokens"]) or 0,
            output_tokens=whole(report.usage["output_tokens"]) or 0,
        ),
        finish_reason=None if report.finish_reason is None else text(report.finish_reason),
    )  # fmt: skip


def is_unsure(error: BaseException | None, function: Callable[..., object]) -> bool:
    """Whether nobody can tell what a skill had done when it failed.

    Its own code knows: what it says with `raise` is its word, and so is a SkillError. What comes out of a library, or
    of an expression that failed, is nobody's: something may have been sent before.
    """
    if error is None or isinstance(error, SkillError | ReenactError):
        return False
    if isinstance(error, ChildFailure):
        return error.unsure
    if isinstance(error, Wordless):
        return True
    own, links = own_file(function), list(cause_chain(error))
    if own is not None and not any(has_passed(link, own) for link in links):
        return False  # it had not begun
    if any(raised_in(link) not in (own, None) for link in links):
        return True
    last = last_of(error.__traceback__)
    return last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != RAISE


def has_passed(error: BaseException, file: str) -> bool:
    return any(frame.f_code.co_filename == file for frame, _ in traceback.walk_tb(error.__traceback__))


def own_file(function: Callable[..., object]) -> str | None:
    """The file that a skill's code stands in; None where nobody can tell."""
    found = inspect.unwrap(function)
    code = getattr(found, "__code__", None) or getattr(type(found).__call__, "__code__", None)
    return code.co_filename if isinstance(code, CodeType) else None


def raised_in(error: BaseException) -> str | None:
    last = last_of(error.__traceback__)
    return None if last is None else last.tb_frame.f_code.co_filename


def last_of(found: TracebackType | None) -> TracebackType | None:
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    return found


def recordable(found: Facts) -> tuple[ExceptionFact, ...]:
    return tuple(ExceptionFact(errno=number_of(link), type=text(link.type)) for link in found.exceptions)


def number_of(link: ExceptionFact) -> int | None:
    return link.errno if link.errno is not None and abs(link.errno) <= MOST else None


def side_effects(report: Remarks) -> list[tuple[str, str]]:
    return [(text(kind), text(target)) for kind, target in report.side_effects]


def status(value: object) -> int | None:
    number = whole(value)
    return number if number is None or 100 <= number <= 599 else INVALID_STATUS


def fitting(value: str, longest: int, *, empty: str = "") -> str:
    """A text of another that a record can hold. Secrets are taken out before: what is cut can no longer be found."""
    return (value if len(value) <= longest else f"{value[: longest - 1]}…") or empty


# -- what stands in the chain of it: the words are another's, and `mark` takes secrets out of them ---------------------


def shown_facts(facts: Facts, mark: Callable[[str], str]) -> Facts:
    if not facts.exceptions and facts.finish_reason is None:
        return facts
    links = tuple(
        replace(link, type=fitting(mark(link.type), LONGEST_TYPE, empty="unknown")) for link in facts.exceptions
    )
    reason = facts.finish_reason
    reason = None if reason is None else fitting(mark(reason), LONGEST_FINISH_REASON)
    return replace(facts, exceptions=links, finish_reason=reason) if links or reason is not None else facts


def shown_request_id(request_id: str, mark: Callable[[str], str]) -> str:
    return fitting(mark(request_id), LONGEST_REQUEST_ID)


def shown_side_effects(touched: Iterable[tuple[str, str]], number: int, mark: Callable[[str], str]) -> list[SideEffect]:
    """Of attempt `number`."""
    return bounded(
        [
            SideEffect(
                attempt=number,
                target=fitting(mark(target), LONGEST_TARGET),
                type=fitting(mark(kind), LONGEST_SIDE_EFFECT, empty="unknown"),
            )
            for kind, target in touched
        ]
    )


def bounded(touched: list[SideEffect]) -> list[SideEffect]:
    """As many as a line of the journal holds; the last one then counts the others."""
    if len(touched) <= FEW:
        return touched
    size = 0
    for number, each in enumerate(touched):
        size += len(canonicalize([each.type, each.target])) + 40
        if size > MOST_BYTES:
            rest = SideEffect(attempt=each.attempt, target=f"{len(touched) - number} more", type="more")
            return [*touched[:number], rest]
    return touched


def whole(value: object) -> int | None:
    """A number from outside, within what a record may hold; None for what is no number."""
    if not isinstance(value, int | float) or value != value:  # noqa: PLR0124  # NaN is the one that differs from itself
        return None
    return int(max(0, min(value, MOST)))


def text(value: object) -> str:
    """A text from outside: Unicode, and not endless."""
    try:
        found = value if isinstance(value, str) else str(value)
    except BaseException:  # noqa: BLE001  # a foreign object that cannot even be printed
        found = type(value).__name__
    clean = found.encode("utf-8", "replace").decode()
    return clean if len(clean) <= LONGEST_HEARD else f"{len(clean)} characters, which are too many to be kept"


def describe(error: BaseException, timeout_ms: int, latency_ms: int) -> str:
    """What an error says; its type where it says nothing, and the step's limit where that is what passed."""
    said = text(error)
    if issubclass(type(error), TimeoutError) and not said and latency_ms + 1 >= timeout_ms:
        return f"no answer within {timeout_ms} ms"
    return said or type(error).__name__


def details_of(error: BaseException | None) -> dict[str, object] | None:
    if isinstance(error, SkillError | ChildFailure) and error.details:
        found = {text(name): plain(value) for name, value in error.details.items()}
        return cast("dict[str, object]", escape_encrypted_marks(found))
    return None


def plain(value: object) -> object:
    """As JSON values where it can be said in them, else as a text."""
    try:
        found: object = to_plain(value)
    except SkillError:
        return text(value)
    return found
