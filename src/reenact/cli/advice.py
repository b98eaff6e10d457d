"""Next-step hints: the commands to type next, with the store and skills that this command was given."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reenact.replay.runtime import Runtime
    from reenact.store.base import RunRow


@dataclass(frozen=True)
class Advice:
    """Commands that can be copied as they stand."""

    store: str | None = None
    skills: Sequence[str] = ()
    host_policy: Path | None = None
    trust_plan: bool = False

    def read(self, command: str, run_id: str) -> str:
        """A command that needs the store alone."""
        return shlex.join(["reenact", command, run_id, *self._store()])

    def say(self, command: str, run_id: str) -> str:
        """A person's word, which needs a reason; what it is given of skills stands in the advice that it gives."""
        return f"{self.read(command, run_id)}{self._around()} --reason '…'"

    def go_on(self, run_id: str) -> str:
        """A command that goes on with a run, and so needs its skills."""
        return f"{self.read('resume', run_id)}{self._around()}"

    def after_a_word(self, runtime: Runtime, row: RunRow) -> str:
        """Who goes on with a run once a person has spoken: a session's own program, where there is one."""
        if row.session is not None:
            return row.how_to_go_on
        host = f"{row.how_to_go_on}, or " if row.kind == "session" else ""
        return f"{host}go on with: {self.go_on(row.run_id)}{self._lacks(runtime, row)}"

    def _lacks(self, runtime: Runtime, row: RunRow) -> str:
        """What a plan was begun with, and that nobody has named here."""
        from reenact.errors import ReenactError
        from reenact.record.reader import RunReader

        try:
            plan = RunReader(runtime.store, row.run_id).plan()[0] if row.kind == "plan" else None
        except ReenactError:  # it was erased, or is damaged: `resume` says so
            plan = None
        if plan is None:
            return ""
        unknown = (
            [] if self.skills else sorted({step.skill_id for step in plan.steps}.difference(runtime.registry.ids()))
        )
        parts = [f"the --skills that have {', '.join(unknown)}"] if unknown else []
        pins = plan.context.pins
        if self.host_policy is None and pins is not None and pins.policy not in (None, runtime.policy.digest):
            parts.append("the --host-policy that it was begun under")
        return f" with {' and '.join(parts)}" if parts else ""

    def _around(self) -> str:
        """The options that say what a run is gone on with."""
        named = [word for spec in self.skills for word in ("--skills", spec)]
        policy = [] if self.host_policy is None else ["--host-policy", str(self.host_policy)]
        words = [*named, *policy, *(["--trust-plan"] if self.trust_plan else [])]
        return f" {shlex.join(words)}" if words else ""

    def _store(self) -> list[str]:
        return [] if self.store is None else ["--store", self.store]
