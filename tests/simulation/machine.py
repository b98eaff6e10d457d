"""What all processes of a simulation have of their machine alike, and is not worked out again for each.

Only what always comes out the same: where they are, whether a signature fits, how packers are set up. And the log's
thread, which would write at times that no seed knows, is a timer of the simulated loop.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import cache, lru_cache
from typing import Any
from unittest.mock import patch

from reenact.errors import ReenactError
from reenact.store import owner
from reenact.store.compression import Codec, RecentContents
from reenact.store.keys import history, notes
from reenact.store.log import follower
from reenact.store.sqlite import store
from reenact.store.sqlite.opened import shared
from reenact.store.sqlite.signed import heads

SIGNATURES = 20_000
PLACES = 200


class SimulatedFollower:
    """The log follows the seals as its thread has it do, some time later, unless its process is dead by then."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._timer: asyncio.TimerHandle | None = None
        self.trouble: Exception | None = None

    def tell(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(follower.DELAY_S, self._follow)

    def _follow(self) -> None:
        self._timer = None
        try:
            self._act()
            self.trouble = None
        except (ReenactError, OSError) as error:  # as the thread does
            self.trouble = error

    def close(self) -> None:
        """What was told and not done yet is not done: who closes is dead."""
        if self._timer is not None:
            self._timer.cancel()


@cache
def packers() -> Codec:
    return Codec()


def own_codec() -> Codec:
    """Packers hold nothing of what they packed; what was read last is each one's own."""
    mine = copy(packers())
    mine.recent = RecentContents()
    return mine


def signed_note() -> Callable[[dict[str, str], notes.Note], bool]:
    """Whether a signature fits is a matter of its bytes alone."""
    whole = notes.is_signed_note

    @lru_cache(SIGNATURES)
    def fits(kid: str, public_key: str | None, note: notes.Note) -> bool:
        return whole({} if public_key is None else {kid: public_key}, note)

    return lambda public_keys, note: fits(note.kid, public_keys.get(note.kid), note)


@contextmanager
def one_machine() -> Iterator[None]:
    """For as many schedules as there are."""
    place, started, fits = owner.this_host(), cache(owner.process_started), signed_note()
    real = lru_cache(PLACES)(os.path.realpath)
    replaced: list[tuple[Any, str, Any]] = [
        (owner, "this_host", lambda: place),
        (owner, "process_started", started),
        (os.path, "realpath", real),
        (history, "is_signed_note", fits),
        (heads, "is_signed_note", fits),
        (shared, "Codec", own_codec),
        (store, "Follower", SimulatedFollower),
    ]
    with ExitStack() as stack:
        for where, name, instead in replaced:
            stack.enter_context(patch.object(where, name, instead))
        stack.enter_context(not_swept())
        yield


@contextmanager
def not_swept() -> Iterator[None]:
    """Python's collector does not come between two turns: what is left of the dead would end in somebody else's."""
    gc.collect()
    gc.freeze()  # what is there already is not looked through either, whenever it comes
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
        gc.unfreeze()
