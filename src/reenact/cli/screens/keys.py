"""Single keys from a terminal: read as they are pressed, with a time limit, and the terminal left as it was."""

from __future__ import annotations

import os
import select
import sys
import time
from types import TracebackType
from typing import Final, Self

QUIT: Final = "q"
_ARROWS: Final = {b"\x1b[C": "n", b"\x1b[A": "+", b"\x1b[B": "-", b"\x1b": "", b"": QUIT}


class NoKeys:
    """Where stdin is no terminal: time passes, and nobody presses anything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing was changed."""

    def wait(self, seconds: float | None) -> str:
        """The key that was pressed within the time; nothing where none was. Without a limit nobody would come."""
        if seconds is None:
            return QUIT
        time.sleep(seconds)
        return ""


class Keys(NoKeys):
    """Keys of stdin, without Enter and without echo. Ctrl-C stays an interrupt."""

    def __enter__(self) -> Self:
        import termios
        import tty

        self._stdin = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._stdin)
        tty.setcbreak(self._stdin, termios.TCSANOW)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        import termios

        termios.tcsetattr(self._stdin, termios.TCSANOW, self._before)

    def wait(self, seconds: float | None) -> str:
        ready, _, _ = select.select([self._stdin], [], [], seconds)
        if not ready:
            return ""
        pressed = os.read(self._stdin, 1)
        if pressed == b"\x1b" and select.select([self._stdin], [], [], 0.02)[0]:
            pressed += os.read(self._stdin, 2)
        return _ARROWS.get(pressed, pressed.decode("ascii", "ignore"))


def keys_here() -> NoKeys:
    """Those of stdin, where it is a terminal and the system has such."""
    try:
        import termios  # noqa: F401 - not on every system
    except ImportError:
        return NoKeys()
    return Keys() if sys.stdin is not None and sys.stdin.isatty() else NoKeys()
