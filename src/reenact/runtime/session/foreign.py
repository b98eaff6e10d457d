"""What a session does with tools that were not written for it: any function is journaled, skills are added."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from reenact.contracts.outcome import StructuredOutcome
from reenact.runtime.session.answering.answers import Asked, RecordedCall
from reenact.runtime.session.plan import SessionPlan
from reenact.skills.from_function import function_call
from reenact.skills.skill import Skill


class ForeignTools(ABC):
    """The part of a session that takes tools while it is open."""

    _plan: SessionPlan

    @abstractmethod
    def ask(
        self,
        skill_id: str,
        parameters: object,
        version: str | None,
        step_id: str | None,
        key: str | None,
        secrets: dict[str, str],
    ) -> Asked: ...

    @abstractmethod
    async def answer(self, asked: Asked, found: RecordedCall | None = None) -> StructuredOutcome: ...

    async def step(
        self,
        function: Callable[..., object],
        *args: object,
        kwargs: Mapping[str, object] | None = None,
        step_id: str | None = None,
        idempotency_key: str | None = None,
        **declared: Any,
    ) -> StructuredOutcome:
        """Call any function, journaled: its arguments by the names of its parameters, and what it gives or raises.

        `declared` is what `@skill` takes, and `skill_id` and `version` for other than the function's own; what is not
        declared is assumed for the worse: a write, held when in doubt. Keyword arguments go into `kwargs`.
        """
        return await self.answer(self.ask_step(function, args, kwargs, step_id, idempotency_key, declared))

    def ask_step(
        self,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object] | None,
        step_id: str | None,
        key: str | None,
        declared: dict[str, Any],
    ) -> Asked:
        """What is asked for: the function goes with it, since another one of the same name may come meanwhile."""
        skill, parameters = function_call(function, args, kwargs, declared)
        asked = self.ask(skill.skill_id, parameters, declared.get("version"), step_id, key, {})
        return asked._replace(skill=skill, hints=skill.metadata.redact)

    def add(self, skill: Skill) -> None:
        """A skill more for this session alone. It is pinned when it is first called."""
        self._plan.add(skill)
