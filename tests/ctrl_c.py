"""Processes that Ctrl-C (SIGINT) can interrupt, wherever the tests run.

A shell that starts the tests in the background (`nohup make test &`) lets them ignore it, and a process inherits that
from the one that starts it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard() -> Iterator[None]:
    """What is started within this block hears Ctrl-C, as what is started in a terminal does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
