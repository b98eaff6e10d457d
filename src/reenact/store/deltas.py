"""Delta compression of envelopes: a conversation that grows by a message does not store its beginning again.

An envelope whose content is like an earlier one of the same run is stored as what differs: codec 3, the id of the row
it builds on, how many bytes of beginning and end they share, its own salt, and the middle. Where the middle is long,
because something near the beginning changed, it is packed with the other content as its dictionary.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from reenact.errors import DamagedRecord
from reenact.store.base import PAYLOAD_BITS
from reenact.store.compression import ZSTD_CONTENT, Codec
from reenact.values.canonical import same_until
from reenact.values.envelope import LARGEST_ENVELOPE

DELTA = b"\x03"
SALT = 32
SMALLEST = 2048
"""Shorter contents are compressed on their own."""
DEEPEST = 64
"""So many rows are read at most to put one envelope together."""
STRIDE = 16
"""Each sixteenth builds on the sixteenth before it: a long conversation is put together in few steps, and rarely
stored whole."""
LARGEST_BASE = 4 * 1024 * 1024
BASES_PER_RUN = 32
"""Of several conversations, and of what their tools returned meanwhile. One that is built on gives way to what builds
on it, so that other values do not crowd a conversation out."""
BYTES_PER_RUN = 4 * LARGEST_BASE
RUNS = 16
PROBE = 48
LONG_MIDDLE = 8
"""A middle of more than an eighth is looked for in the other content."""
HEAD = struct.Struct(">BQII")
Row = tuple[int, bytes, bytes]
"""A payload as it is stored: id, commitment, body."""
Kept = Callable[[int], bytes | None]
"""The commitment under which the transaction at hand finds a payload; None where there is none."""


@dataclass(frozen=True, slots=True)
class Base:
    payload_id: int
    commitment: bytes
    depth: int
    content: bytes
    steps: int = 0
    """How many stand between this one and the one that its stride began with."""
    anchor: Base | None = None
    """The one that its stride began with; None where that is this one."""


class RunBases:
    """The last large contents of one run, by payload id, in the order of their last use."""

    def __init__(self) -> None:
        self._bases: OrderedDict[int, Base] = OrderedDict()
        self._bytes = 0

    def nearest(self, content: bytes) -> Base | None:
        """The one that has most of its beginning in common; else the last one whose parts stand anywhere in it."""
        found, most, start = None, 0, content[:PROBE]
        for base in self._bases.values():
            prefix = same_until(content, base.content) if base.content.startswith(start) else 0
            if prefix > most:
                found, most = base, prefix
        if found is not None and most * 2 >= len(found.content):
            return found
        return next((base for base in reversed(self._bases.values()) if is_alike(content, base.content)), None)

    def remember(self, base: Base, instead_of: Base | None) -> None:
        if instead_of is not None:
            self._forget(instead_of.payload_id)
        self._forget(base.payload_id)
        self._bases[base.payload_id] = base
        self._bytes += len(base.content)
        while len(self._bases) > BASES_PER_RUN or self._bytes > BYTES_PER_RUN:
            self._forget(next(iter(self._bases)))

    def _forget(self, payload_id: int) -> None:
        base = self._bases.pop(payload_id, None)
        self._bytes -= 0 if base is None else len(base.content)


class DeltaBases:
    """The last large contents of the runs that are being written; only an optimisation, lost with the process.

    What is remembered need not be in the store: its transaction may have failed, or its value may have been erased.
    So one is built on only where the transaction at hand finds its row.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[Hashable, RunBases] = OrderedDict()

    def pack(
        self,
        kept: Kept,
        codec: Codec,
        rows: list[Row],
        payload_id: int,
        commitment: bytes,
        envelope: bytes,
        *,
        run: Hashable = None,
    ) -> bytes:
        """The envelope as it is stored. `rows` come before it in the same transaction and are not inserted yet.

        `run` tells whose it is, where ids are those within a run.
        """
        if not SMALLEST <= len(envelope) - SALT <= LARGEST_BASE:
            return codec.pack_envelope(envelope)
        content, whose = envelope[SALT:], payload_id >> 24 + PAYLOAD_BITS if run is None else run
        bases = self._bases(whose)
        nearest = bases.nearest(content)
        full = nearest is not None and nearest.steps >= STRIDE
        base = nearest.anchor if nearest is not None and full else nearest
        if base is not None and not is_there(kept, rows, base):
            bases = self._runs[whose] = RunBases()
            base = nearest = None
        packed = None if base is None or base.depth >= DEEPEST else difference(codec, base.content, content)
        if base is None or packed is None:
            bases.remember(Base(payload_id, commitment, 0, content), None)
            return codec.pack_envelope(envelope)
        prefix, suffix, middle = packed
        steps, anchor = (0, None) if full else (base.steps + 1, base.anchor or base)
        bases.remember(Base(payload_id, commitment, base.depth + 1, content, steps, anchor), nearest)
        head = HEAD.pack(base.depth + 1, base.payload_id, prefix, suffix)
        return DELTA + head + envelope[:SALT] + middle

    def forget(self, run: Hashable) -> None:
        """Something of the run that could have been built on is not there."""
        self._runs.pop(run, None)

    def _bases(self, run: Hashable) -> RunBases:
        bases = self._runs.setdefault(run, RunBases())
        self._runs.move_to_end(run)
        if len(self._runs) > RUNS:
            self._runs.popitem(last=False)
        return bases


def difference(codec: Codec, base: bytes, content: bytes) -> tuple[int, int, bytes] | None:
    """(length of the common beginning, of the common end, the middle packed); None where little is in common."""
    prefix = same_until(content, base)
    suffix = same_until(content[prefix:][::-1], base[prefix:][::-1])
    middle = content[prefix : len(content) - suffix]
    packed = middle_packed(codec, base, middle, len(content))
    return None if len(packed) * 2 > len(content) else (prefix, suffix, packed)


def middle_packed(codec: Codec, base: bytes, middle: bytes, whole: int) -> bytes:
    return codec.pack_like(base, middle) if len(middle) * LONG_MIDDLE > whole else codec.pack_middle(middle)


def is_alike(content: bytes, other: bytes) -> bool:
    """Whether two of three places of the other content stand somewhere in this one."""
    quarter = len(other) // 4
    return sum(other[at : at + PROBE] in content for at in (quarter, 2 * quarter, 3 * quarter)) > 1


def is_there(kept: Kept, rows: list[Row], base: Base) -> bool:
    """Ids are given again after a failure; a commitment stands for one salted content."""
    if any(row[0] == base.payload_id and row[1] == base.commitment for row in rows):
        return True
    return kept(base.payload_id) == base.commitment


def base_of(stored: bytes) -> int | None:
    """The row that a stored envelope builds on."""
    if stored[:1] != DELTA or len(stored) < 1 + HEAD.size:
        return None
    base = int(HEAD.unpack_from(stored, 1)[1])
    if base >> 63:
        raise DamagedRecord("stored bytes build on a row that cannot be")
    return base


def moved_base(stored: bytes, by: int) -> bytes:
    """The same envelope as it is stored where what it builds on has another number."""
    base = base_of(stored)
    if base is None:
        return stored
    depth, _, prefix, suffix = HEAD.unpack_from(stored, 1)
    return DELTA + HEAD.pack(depth, base + by, prefix, suffix) + stored[1 + HEAD.size :]


def put_together(codec: Codec, stored: bytes, stored_at: Callable[[int], bytes | None]) -> bytes:
    """The envelope from all the rows that it is built on; DamagedRecord where one of them is not there."""
    return with_base(codec, stored, stored_at)[0]


def with_base(codec: Codec, stored: bytes, stored_at: Callable[[int], bytes | None]) -> tuple[bytes, bytes]:
    """(the envelope, the content that it is built on)."""
    chain, content, envelope = [stored], b"", b""
    while (base := base_of(chain[-1])) is not None:
        under = stored_at(base)
        if under is None or len(chain) > DEEPEST + 1:
            raise DamagedRecord(f"stored bytes build on payload {base}, which is not there")
        known = codec.recent.get(under)
        if known is not None:
            content = known
            break
        chain.append(under)
    for packed in reversed(chain):
        content = envelope[SALT:] if envelope else content
        envelope = codec.unpack(packed) if base_of(packed) is None else built_on(codec, packed, content)
        if len(envelope) >= SALT + SMALLEST:
            codec.recent.put(packed, envelope[SALT:])
    return envelope, content


def built_on(codec: Codec, stored: bytes, base_content: bytes) -> bytes:
    """The envelope, given the content it builds on."""
    _, _, prefix, suffix = HEAD.unpack_from(stored, 1)
    if prefix + suffix > len(base_content):
        raise DamagedRecord("a stored envelope names more of its base than there is")
    start, room = 1 + HEAD.size, LARGEST_ENVELOPE - SALT - prefix - suffix
    middle = codec.unpack_like(base_content, stored[start + SALT :], room)
    end = base_content[len(base_content) - suffix :] if suffix else b""
    return stored[start : start + SALT] + base_content[:prefix] + middle + end


def is_repacked(codec: Codec, stored: bytes, envelope: bytes, base_content: bytes) -> bool:
    """Whether an envelope is packed in another way than this version packs it."""
    if base_of(stored) is None:
        return codec.pack_envelope(envelope) != stored
    # Which other envelope it builds on was chosen by what was at hand; only what is its own is packed again.
    _, _, prefix, suffix = HEAD.unpack_from(stored, 1)
    own, packed = envelope[SALT + prefix : len(envelope) - suffix], stored[1 + HEAD.size + SALT :]
    if packed[:1] == ZSTD_CONTENT:
        return codec.pack_like(base_content, own) != packed
    return packed not in (codec.pack_middle(own), codec.pack_envelope(own))  # the latter in earlier releases
