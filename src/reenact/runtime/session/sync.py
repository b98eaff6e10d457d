"""A session for code that is not async: it waits for a loop in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any

from reenact.contracts.outcome import StructuredOutcome
from reenact.runtime.effects.loop_thread import LoopThread
from reenact.runtime.session.plan import Document
from reenact.runtime.session.session import Session
from reenact.skills.skill import Skill


class SyncSession:
    """The same session for code that is not async. Threads may call it in parallel."""

    def __init__(self, session: Session, thread: LoopThread) -> None:
        self._session = session
        self._thread = thread

    @property
    def run_id(self) -> str:
        return self._session.run_id

    @property
    def spent_exact(self) -> int:
        """Picodollars charged so far."""
        return self._session.spent_exact

    @property
    def waiting(self) -> list[str]:
        """Ids of the calls that wait for a person."""
        return self._session.waiting

    def call(
        self,
        skill_id: str,
        parameters: Mapping[str, object] | None = None,
        *,
        version: str | None = None,
        step_id: str | None = None,
        idempotency_key: str | None = None,
        secrets: Mapping[str, str] | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> StructuredOutcome:
        session, do = self._session, self._thread.do
        if not session.answers:
            return do(
                partial(
                    session.call,
                    skill_id,
                    parameters,
                    version=version,
                    step_id=step_id,
                    idempotency_key=idempotency_key,
                    secrets=secrets,
                    on_progress=on_progress,
                )
            )
        self._thread.refuse_fork()
        asked = session.ask(skill_id, parameters, version, step_id, idempotency_key, dict(secrets or {}))
        found = session.answer_at_once(asked)  # without a hop into the loop
        if isinstance(found, StructuredOutcome):
            return found
        return self._taken(do(partial(session.answer, asked, found, on_progress=on_progress)))

    def _taken(self, outcome: StructuredOutcome) -> StructuredOutcome:
        """The next answer is given once this thread has its own: they come in their order."""
        self._session.taken(outcome.step_id)
        return outcome

    def lane(self, name: str) -> AbstractContextManager[str]:
        """`with session.lane("researcher"):` names the calls inside by a strand of their own.

        A thread that is started inside does not know of it: open the lane in the thread.
        """
        return self._session.lane(name)

    def now(self) -> datetime:
        """The time, in UTC; a program that is started again gets the time that it got here before."""
        return self._thread.do(self._session.told_now)

    def random(self) -> float:
        """In [0, 1); the same draws in the same order for a program that is started again."""
        return self._session.random()

    def uuid(self) -> str:
        """A random UUID (version 4); the same ones in the same order for a program that is started again."""
        return self._session.uuid()

    def account_for(self, names: Iterable[str]) -> None:
        """The host has a history of its own and knows of these calls: they need not be asked for again."""
        self._session.account_for(names)

    def tools(self, skill_ids: Iterable[str] | None = None, *, style: str = "openai") -> list[Document]:
        return self._session.tools(skill_ids, style=style)

    def call_tool(
        self,
        tool_call: object,
        *,
        step_id: str | None = None,
        idempotency_key: str | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> StructuredOutcome:
        call_tool = partial(
            self._session.call_tool,
            tool_call,
            step_id=step_id,
            idempotency_key=idempotency_key,
            secrets=secrets,
        )
        return self._taken(self._thread.do(call_tool))

    def step(
        self,
        function: Callable[..., object],
        *args: object,
        kwargs: Mapping[str, object] | None = None,
        step_id: str | None = None,
        idempotency_key: str | None = None,
        **declared: Any,
    ) -> StructuredOutcome:
        session = self._session
        self._thread.refuse_fork()
        asked = session.ask_step(function, args, kwargs, step_id, idempotency_key, declared)
        found = session.answer_at_once(asked)
        if isinstance(found, StructuredOutcome):
            return found
        return self._taken(self._thread.do(partial(session.answer, asked, found)))

    def add(self, skill: Skill) -> None:
        self._session.add(skill)

    def turn(self) -> int:
        return self._thread.do(self._session.turn)

    def verify(self, commands: Sequence[str], *, timeout_s: float = 600) -> list[int]:
        return self._thread.do(partial(self._session.verify, commands, timeout_s=timeout_s))

    def finish(self, *, confidence: float | None = None) -> None:
        self._session.finish(confidence=confidence)

    def history(self, *, style: str = "openai") -> list[Document]:
        return self._thread.do(partial(self._session.history, style=style))

    def conversation(self, *, style: str | None = None) -> list[Document]:
        return self._thread.do(partial(self._session.conversation, style=style))

    def settle(self) -> list[StructuredOutcome]:
        return self._thread.do(self._session.settle)
