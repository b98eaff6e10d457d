"""Redirecting what skills print to stderr, so that `reenact … --json | jq` works whatever their code does."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress


@contextmanager
def skill_output_to_stderr() -> Iterator[None]:
    """While foreign code is loaded or run, everything that it writes to stdout goes to stderr.

    Also what goes past Python: the file descriptor itself is turned, so that child processes inherit it that way.
    """
    own = sys.stdout
    with _turned(_descriptor(own), _descriptor(sys.stderr)), redirect_stdout(sys.stderr):
        yield


@contextmanager
def _turned(descriptor: int | None, towards: int | None) -> Iterator[None]:
    """`descriptor` leads where `towards` does. Streams without a descriptor are none of the system's business."""
    if descriptor is None or towards is None:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(descriptor)
    try:
        os.dup2(towards, descriptor)
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


def _descriptor(stream: object) -> int | None:
    with suppress(AttributeError, OSError, ValueError, io.UnsupportedOperation):
        number: int = stream.fileno()  # type: ignore[attr-defined]  # None where the process was started without one
        return number
    return None
