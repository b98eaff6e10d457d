"""The shim between a process and the system: built, loaded, armed; and what it has recorded."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
HEAD = struct.Struct("@BBHHHQqQQ")
ACTIONS = {"go": 0, "kill": 1, "after": 2, "torn": 3, "fail": 4, "stay": 5, "vanish": 6, "send": 7}
SEALED = 16 + 128 * 8
SHARED = SEALED + 8
CHANGES = "WSTOUNLM"
"""Calls that change something, or make it durable; R reads and K locks."""


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def is_possible() -> bool:
    """On Linux, where there is a compiler of C."""
    return os.uname().sysname == "Linux" and compiler() is not None


def build(folder: Path) -> Path:
    library = folder / "shim.so"
    found = compiler()
    assert found is not None
    subprocess.run([found, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-lpthread"], check=True)
    return library


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th call; `which` are the kinds that count, "" for all."""

    action: str = "go"
    n: int = 0
    which: str = ""
    argument: int = 0
    victim: str = ""

    def __str__(self) -> str:
        return f"{self.action} {self.argument or self.victim.rpartition('/')[2]} at call {self.n} {self.which}"


class Told:
    """What the shim says from whatever process it is in, dead or alive."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Apart from whoever this process was forked by."""
        self._memory = mmap(-1, SHARED)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def clear(self) -> None:
        self._memory[:] = bytes(SHARED)

    @property
    def calls(self) -> int:
        return int(struct.unpack_from("Q", self._memory)[0])

    @property
    def fired(self) -> bool:
        return bool(struct.unpack_from("Q", self._memory, 8)[0])

    def note_seal(self) -> None:
        """From the process itself: the seal of its run is durable."""
        struct.pack_into("Q", self._memory, SEALED, self.calls)

    @property
    def fired_before_seal(self) -> bool:
        (fired,), (sealed,) = (struct.unpack_from("Q", self._memory, at) for at in (8, SEALED))
        return bool(fired <= sealed)

    def of_kinds(self, kinds: str) -> int:
        """Calls of these kinds, or of all."""
        counts = struct.unpack_from("128Q", self._memory, 16)
        return sum(counts[ord(kind)] for kind in kinds) if kinds else self.calls


TOLD = Told()


def arm(watched: Path, witness: Path, fault: Fault, record: Path | None = None) -> None:
    """From here on, in this process and for good."""
    ctypes.CDLL(None).torture_arm(
        *(str(path).encode() for path in (watched, witness)),
        ctypes.c_uint64(fault.n),
        fault.which.encode(),
        ACTIONS[fault.action],
        fault.argument,
        fault.victim.encode(),
        str(record or "").encode(),
        ctypes.c_void_p(TOLD.address),
    )


def saved() -> int:
    """The file that vanished, still open; -1 where none did."""
    ctypes.CDLL(None).torture_disarm()
    return int(ctypes.CDLL(None).torture_saved())


@dataclass(frozen=True)
class Op:
    """One call that changed something."""

    kind: str
    is_witness: bool
    path: str
    other: str
    inode: int
    offset: int
    size: int
    data: bytes


def ops(record: Path) -> Iterator[Op]:
    raw, at = record.read_bytes(), 0
    while at < len(raw):
        kind, seen, path, other, _, inode, offset, size, data = HEAD.unpack_from(raw, at)
        at += HEAD.size
        texts = []
        for length in (path, other, data):
            texts.append(raw[at : at + length])
            at += length
        yield Op(chr(kind), seen == 2, texts[0].decode(), texts[1].decode(), inode, offset, size, texts[2])
