"""What was run to see whether the work is good, as a log and as its receipt say it: in the memory of one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reenact.trace.events import Verification
from reenact.trace.receipt import ReceiptVerification

MOST_TOLD: Final = 20


class Verified:
    """The verifications of a log against those of a receipt, which sums all of them up, or has the last one."""

    def __init__(self, said: ReceiptVerification) -> None:
        self._said = said
        self._is_same = True
        self._commands = self._codes = self._delta = 0
        self._first_codes: list[int] = []
        self._last: Verification | None = None

    def take(self, event: Verification) -> None:
        commands, codes = self._commands, self._codes
        self._commands, self._codes = commands + len(event.commands), codes + len(event.exit_codes)
        self._is_same = (
            self._is_same
            and self._said.commands_run[commands : self._commands] == event.commands
            and self._said.exit_codes[codes : self._codes] == event.exit_codes
        )
        self._delta += event.verification_delta
        self._first_codes += event.exit_codes[: MOST_TOLD + 1 - len(self._first_codes)]
        self._last = event

    def mismatch(self) -> str | None:
        """The sentence where they say other things."""
        said, last = self._said, self._last
        if last is None:
            is_there = said.commands_run or said.exit_codes
            return "A verification is in the receipt, but not in the replay log" if is_there else None
        if said == ReceiptVerification() and self._commands:
            return "A verification is in the replay log, but not in the receipt"
        if self._fits_all() or self._fits(last):
            return None
        expected = told(len(said.commands_run), said.exit_codes, said.verification_delta)
        return f"Verification mismatch: expected {expected}; got {told(self._commands, self._first_codes, self._delta)}"

    def _fits_all(self) -> bool:
        said = self._said
        lengths = (len(said.commands_run), len(said.exit_codes))
        is_same = self._is_same and lengths == (self._commands, self._codes)
        return said.verification_delta == self._delta and (is_same or self._is_bare)

    def _fits(self, event: Verification) -> bool:
        said = self._said
        is_same = (said.commands_run, said.exit_codes) == (event.commands, event.exit_codes)
        return said.verification_delta == event.verification_delta and (is_same or self._is_bare)

    @property
    def _is_bare(self) -> bool:
        """One shape of the receipt does not list what was run, and says how CI ended."""
        said = self._said
        return said.ci_status is not None and not (said.commands_run or said.exit_codes)


def told(commands: int, codes: Sequence[int], delta: int) -> str:
    shown = ", ".join(map(str, codes[:MOST_TOLD])) + (", …" if len(codes) > MOST_TOLD else "")
    return f"{commands} commands, exit codes {shown or 'none'}, delta {delta}"
