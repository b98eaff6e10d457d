"""The context of an attempt: what a skill is given besides its parameters, and what it tells back while it works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from reenact.errors import SkillError, UsageError
from reenact.policy.lists import lists
from reenact.skills.plain import to_plain
from reenact.values.clock import Clock, KeyedRandom, SystemClock, keyed_random
from reenact.values.threads import once

_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Remarks(Struct):
    """What one attempt said about itself. Complete also when the attempt raised."""

    side_effects: list[tuple[str, str]] = []
    request_id: str | None = None
    usage: dict[str, int] | None = None
    model: str | None = None
    finish_reason: str | None = None
    retry_after_ms: int | None = None
    http_status: int | None = None
    raw_response: Any = None
    has_raw_response: bool = False
    utility: str | None = None
    """In decimals, as it is recorded."""
    refused: tuple[str, str] | None = None
    """The side effect for which the attempt was stopped."""


SILENT: Final = Remarks()
"""Nothing was said at all, as most attempts do."""


class SkillContext:
    """One attempt's view of the run. Every method may be called from any thread.

    After `close()` nothing more is recorded: a thread that outlived its time limit can no longer change what
    the journal says about the attempt.
    """

    def __init__(
        self,
        *,
        run_id: str,
        step_id: str,
        trace_id: str,
        idempotency_key: str,
        attempt: int = 0,
        timeout_ms: int = 30_000,
        deadline: float | None = None,
        original_run_id: str | None = None,
        clock: Clock | None = None,
        context: Mapping[str, Any] = _EMPTY,
        services: Mapping[str, Any] = _EMPTY,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self.run_id = run_id
        self.step_id = step_id
        self.trace_id = trace_id
        self.idempotency_key = idempotency_key
        self.attempt = attempt
        self.timeout_ms = timeout_ms
        self.clock: Clock = clock or SystemClock()
        self.deadline = self.clock.monotonic() + timeout_ms / 1000 if deadline is None else deadline
        self.report = Remarks()
        self._original_run_id = original_run_id or run_id
        self._lent = (context, services)
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._closed = False

    # Most skills never look at these three, so they are made for those that do.

    @once
    def random(self) -> KeyedRandom:
        """Draws that come out the same in every replay of this attempt."""
        return keyed_random(self._original_run_id, self.step_id, self.attempt)

    @once
    def context(self) -> Mapping[str, Any]:
        """The plan's context, without its pins."""
        return MappingProxyType(dict(self._lent[0]))

    @once
    def services(self) -> Mapping[str, Any]:
        """What the runtime lends to skills, by name."""
        return MappingProxyType(dict(self._lent[1]))

    @once
    def _forbidden(self) -> tuple[str, ...]:
        profile = self._lent[0].get("profile")
        return tuple(profile.get("disallowed_side_effects", ()) if isinstance(profile, Mapping) else ())

    @property
    def remaining_seconds(self) -> float:
        """How long the attempt may still take, at least 0."""
        return max(0.0, self.deadline - self.clock.monotonic())

    def side_effect(self, type: str, target: str) -> None:  # noqa: A002 - the journal's own word for it
        """Says that the world is about to be touched. Call it before each touch, in their order.

        One that the agent's profile forbids is refused here, whatever the skill declares: it raises, and however the
        skill goes on, its attempt has failed.
        """
        with self._lock:
            if self._closed:
                return
            if not lists(self._forbidden, str(type)):
                self.report.side_effects.append((type, target))
                return
            self.report.refused = self.report.refused or (type, target)
        raise forbidden(type, target)

    def request_id(self, request_id: str) -> None:
        """The provider's own name for the request."""
        self._set(request_id=request_id)

    def usage(self, input_tokens: int, output_tokens: int, model: str | None = None) -> None:
        """What the provider billed, and the model that answered where it is not the one asked."""
        self._set(usage={"input_tokens": input_tokens, "output_tokens": output_tokens})
        if model is not None:
            self._set(model=model.replace("\0", "\ufffd"))  # what it costs is on record under this name

    def finish_reason(self, text: str) -> None:
        """Why a model stopped."""
        self._set(finish_reason=text)

    def retry_after(self, ms: int) -> None:
        """How long the other side asked us to wait."""
        self._set(retry_after_ms=max(0, ms))

    def http_status(self, status: int) -> None:
        """The status of the last response."""
        self._set(http_status=status)

    def utility(self, value: float) -> None:
        """How much the call helped, from -1 to +1: the `step_utility` of the replay log. The last word counts."""
        self._set(utility=utility_text(value))

    def response(self, value: object) -> None:
        """The raw response, where the output is made from it and differs.

        What JSON cannot express is recorded as a word about that: a record must not fail for what a server says.
        """
        try:
            plain = to_plain(value)
        except SkillError as error:
            plain = {"unrecordable": str(error)}
        self._set(raw_response=plain, has_raw_response=True)

    def progress(self, message: str) -> None:
        """A word for whoever watches. It is shown, never recorded, and nothing depends on it."""
        with self._lock:
            listener = None if self._closed else self._on_progress
        if listener is not None:
            listener(message)

    def close(self) -> Remarks:
        """Ends the attempt. The report it returns does not change any more."""
        with self._lock:
            self._closed = True
        return self.report

    def _set(self, **values: object) -> None:
        with self._lock:
            if not self._closed:
                for name, value in values.items():
                    setattr(self.report, name, value)


def utility_text(value: object) -> str:
    """A utility as it is recorded, to six decimals; UsageError for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise UsageError("a utility is a number from -1 to +1")
    text = f"{value:.6f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def forbidden(type: str, target: str) -> SkillError:  # noqa: A002 - as above
    """What a skill is stopped with, and what its attempt comes to."""
    message = f"this agent may not have the side effect {type}"
    return SkillError.of("ERR_PERMISSION_DENIED", message, side_effect=type, target=target)


CURRENT: Final[ContextVar[SkillContext | None]] = ContextVar("reenact_current", default=None)
"""Of the attempt whose skill runs here."""


def current() -> SkillContext:
    """The context of the call whose tool runs here, however deep in its code: in its thread, coroutine or process."""
    ctx = CURRENT.get()
    if ctx is None:
        raise UsageError("reenact.current() is for a tool's body: no call of a skill runs here")
    return ctx


def portable(ctx: SkillContext) -> dict[str, Any]:
    """What a context in another process is made from: all but the services, the listener and the deadline."""
    return {
        "run_id": ctx.run_id,
        "step_id": ctx.step_id,
        "trace_id": ctx.trace_id,
        "idempotency_key": ctx.idempotency_key,
        "attempt": ctx.attempt,
        "timeout_ms": ctx.timeout_ms,
        "original_run_id": ctx._original_run_id,  # noqa: SLF001  # this is its own module
        "context": dict(ctx.context),
    }
