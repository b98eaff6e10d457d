"""Notices and their listeners: what a run tells metrics, logs and screens, once it is durable."""

from __future__ import annotations

import _thread
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from reenact.contracts.outcome import StructuredOutcome

log = logging.getLogger("reenact.listeners")


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that is durable now. Listeners get it after its commit, never before."""

    kind: str
    """run_started, recovered, unrecorded, step_started, redispatch, attempt, lost, budget_alert, step_ended,
    run_parked, run_ended, replay_compared, progress"""
    run_id: str
    step_id: str | None = None
    step_index: int | None = None
    attempt: int | None = None
    code: str | None = None
    backoff_ms: int | None = None
    status: str | None = None
    outcome: StructuredOutcome | None = None
    message: str | None = None
    skill_id: str | None = None
    tool_call_id: str | None = None
    steps: int | None = None
    """How many a plan has, when its run starts or goes on. Nobody knows that of a session."""
    mode: str = "live"
    """A replay's notices carry its mode: what counts production leaves them out."""
    verdict: str | None = None
    """Of a replay that was compared; `behavior_match` says for each aspect whether it matched."""
    behavior_match: Mapping[str, bool] | None = None


Listener = Callable[[Notice], None]


class LiveShadow(Protocol):
    """A listener that has to know whose runs it hears of."""

    def attach(self, engine: Any, /) -> Listener: ...
    def close(self) -> None: ...


class Listeners:
    """Those of one run."""

    __slots__ = ("_after_commit", "_listeners", "_mode", "any")

    def __init__(
        self, listeners: tuple[Listener, ...], after_commit: Callable[[Callable[[], None]], None], mode: str
    ) -> None:
        self._listeners = listeners
        self._after_commit = after_commit
        self._mode = mode
        self.any = bool(listeners)
        """Where there are none, no notice needs to be made."""

    def tell(self, notice: Notice) -> None:
        """Once everything staged so far is durable."""
        if self._listeners:
            self._after_commit(lambda: self.tell_now(notice))

    def tell_now(self, notice: Notice) -> None:
        tell_all(self._listeners, notice if self._mode == "live" else replace(notice, mode=self._mode))


def tell_all(listeners: tuple[Listener, ...], notice: Notice) -> None:
    """A listener that fails is the host's trouble, never the run's, SystemExit and the like too.

    A closed pipe is the way to stop a command.
    """
    for listener in listeners:
        try:
            listener(notice)
        except BrokenPipeError:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a listener does
            log.warning("a listener failed on %s of run %s: %s", notice.kind, notice.run_id, type(error).__name__)
            hear_later(error)


def hear_later(error: BaseException) -> None:
    """An interrupt of the main thread may be the user's, whoever was at work.

    It is heard as Ctrl-C is heard everywhere else, between two steps.
    """
    of_user = threading.current_thread() is threading.main_thread()
    if of_user and issubclass(type(error), KeyboardInterrupt):  # by its type: what it says of its class may raise
        _thread.interrupt_main()
