"""Exit codes: 0 done, 1 failed, 2 usage, 3 store unusable, 4 not ended. Errors carry their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNUSABLE: Final = 3
OPEN: Final = 4
INTERRUPTED: Final = 130
NOBODY_READS: Final = 141
"""As a shell says it of any command whose reader closed the pipe: 128 + SIGPIPE."""


def exit_code(status: str) -> int:
    """Of a run: completed is done, failed and cancelled are failed, anything else has not ended."""
    return {"completed": DONE, "failed": FAILED, "cancelled": FAILED}.get(status, OPEN)


def worst(codes: Iterable[int]) -> int:
    """Of several runs: one that failed counts more than one that has not ended."""
    found = set(codes)
    return next((code for code in (UNUSABLE, FAILED, OPEN) if code in found), DONE)
