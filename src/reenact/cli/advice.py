"""Next-step hints: the commands to type next, with the store and skills that this command was given."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
        """A person's word, which needs a reason."""
        return f"{self.read(command, run_id)} --reason …"

    def go_on(self, run_id: str) -> str:
        """A command that goes on with a run, and so needs its skills."""
        named = [word for spec in self.skills for word in ("--skills", spec)]
        policy = [] if self.host_policy is None else ["--host-policy", str(self.host_policy)]
        trust = ["--trust-plan"] if self.trust_plan else []
        return shlex.join(["reenact", "resume", run_id, *self._store(), *named, *policy, *trust])

    def after_a_word(self, row: RunRow) -> str:
        """Who goes on with a run once a person has spoken: a session's own program, where there is one."""
        if row.session is not None:
            return row.how_to_go_on
        host = f"{row.how_to_go_on}, or " if row.kind == "session" else ""
        return f"{host}go on with: {self.go_on(row.run_id)}"

    def _store(self) -> list[str]:
        return [] if self.store is None else ["--store", self.store]
