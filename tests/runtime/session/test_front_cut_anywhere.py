"""A synchronous session that is cut at every place where a signal can cut it: entering, a call, leaving.

CPython hears signals when a function begins, after a call, and when a loop goes round; at each of them, in every frame
of the main thread between the block and the wait, what a handler would raise is raised once.
"""

from __future__ import annotations

import dis
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import ReenactError
from reenact.runtime.effects import loop_thread
from reenact.runtime.session import opening, sync
from tests.engines.places import ask, store_at

FILES = {loop_thread.__file__, opening.__file__, sync.__file__, threading.__file__}
HEARS = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME"}


@skill("t.add", version="1.0.0")
def add(a: int, b: int) -> int:
    return a + b


PLACES: list[str] = []


class Cut(BaseException):
    """What a handler raises."""


class Cutter:
    """Raises Cut at the place of a number, counted from 1 in the order in which places are come to."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.before: dict[int, str] = {}  # and not by frame, which would hold what it holds
        self.names: dict[Any, dict[int, str]] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self.before.pop(id(frame), None)
            self.come_to(frame)
        elif event == "opcode":
            code = frame.f_code
            names = self.names.get(code) or self.names.setdefault(
                code, {each.offset: each.opname for each in dis.get_instructions(code)}
            )
            if self.before.get(id(frame)) in HEARS:
                self.come_to(frame)
            self.before[id(frame)] = names[frame.f_lasti]
        return self

    def come_to(self, frame: FrameType) -> None:
        self.left -= 1
        if self.left == 0:
            raise Cut(f"{frame.f_code.co_qualname}, line {frame.f_lineno}")


def block(runtime: Runtime, name: str, at: int) -> bool:
    """Whether it was cut."""
    cutter = Cutter(at)
    try:
        sys.settrace(cutter)
        with runtime.session(id=name) as s:
            s.call("t.add", {"a": 1, "b": 2})
        sys.settrace(None)
    except Cut as cut:
        PLACES.append(str(cut))
        return True
    finally:
        sys.settrace(None)
    assert cutter.left > 0, "what was raised was swallowed"
    return False


def test_wherever_a_session_is_cut_nothing_of_it_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[add])
    store: Any = runtime.store
    at, longest = 0, 0.0
    while block(runtime, f"s{at}", at + 1):
        at += 1
        began = time.monotonic()
        try:
            with runtime.session(id=f"s{at - 1}") as again:  # at once, whatever became of the other
                assert again.call("t.add", {"a": 1, "b": 2}).output == 3
        except ReenactError as error:
            pytest.fail(f"cut in {PLACES[-1]}: {error}")
        longest = max(longest, time.monotonic() - began)
        assert longest < 2, f"place {at}: {longest:.1f} s until it could be opened again"
    assert at > 50
    until = time.monotonic() + 2
    while left(store) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left(store)
    with capsys.disabled():
        print(f"\ncut at {at} places; opened again within {longest * 1000:.0f} ms")


def left(store: Any) -> list[object]:
    threads = [thread for thread in threading.enumerate() if thread.name == "reenact-session"]
    return [*threads, *ask(store.url, "SELECT run_id FROM runs WHERE owner IS NOT NULL")]
