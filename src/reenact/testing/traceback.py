"""Tracebacks of failing tests: what failed in Reenact shows the lines of whoever uses it."""

from __future__ import annotations

import sys
from types import FrameType, TracebackType

from reenact.errors import ReenactError
from reenact.testing.network import NetworkShut

PACKAGE = __name__.partition(".")[0]
HIDDEN = frozenset({PACKAGE, *sys.stdlib_module_names})


def hide_machinery(error: BaseException | None) -> None:
    """Take the frames of Reenact and of the standard library out of its own errors, causes too."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ReenactError | NetworkShut) or type(error).__module__.startswith(f"{PACKAGE}."):
            error.__traceback__ = users_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    frames = []
    while trace is not None:
        if is_users(trace.tb_frame):
            frames.append(trace)
        trace = trace.tb_next
    kept = None
    for each in reversed(frames):
        kept = TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return kept


def is_users(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in HIDDEN
