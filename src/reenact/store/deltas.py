"""Delta compression of envelopes: a conversation that grows by a message does not store its beginning again.

An envelope whose content begins like an earlier one of the same run is stored as what differs: codec 3, the id of the
row it builds on, how many bytes of beginning and end they share, its own salt, and the compressed middle.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from reenact.errors import DamagedRecord
from reenact.store.base import PAYLOAD_BITS
from reenact.store.compression import Codec

DELTA = b"\x03"
SALT = 32
SMALLEST = 2048
"""Shorter contents are compressed on their own."""
DEEPEST = 64
"""So many rows are read at most to put one envelope together."""
STRIDE = 16
"""Each sixteenth builds on the sixteenth before it: a long conversation is put together in few steps, and rarely
stored whole."""
BASES_PER_RUN = 4
LARGEST_BASE = 4 * 1024 * 1024
RUNS = 16
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


class DeltaBases:
    """The last large contents of the runs that are being written; only an optimisation, lost with the process.

    What is remembered need not be in the store: its transaction may have failed, or its value may have been erased.
    So one is built on only where the transaction at hand finds its row.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[int, deque[Base]] = OrderedDict()

    def pack(
        self, kept: Kept, codec: Codec, rows: list[Row], payload_id: int, commitment: bytes, envelope: bytes
    ) -> bytes:
        """The envelope as it is stored. `rows` come before it in the same transaction and are not inserted yet."""
        if not SMALLEST <= len(envelope) - SALT <= LARGEST_BASE:
            return codec.pack_envelope(envelope)
        content, run_no = envelope[SALT:], payload_id >> 24 + PAYLOAD_BITS
        nearest = self._nearest(run_no, content)
        full = nearest is not None and nearest.steps >= STRIDE
        base = nearest.anchor if nearest is not None and full else nearest
        prefix = 0 if base is None else common(content, base.content)
        if base is not None and (prefix * 2 < len(base.content) or base.depth >= DEEPEST):
            base = None
        if base is not None and not is_there(kept, rows, base):
            del self._runs[run_no]
            base = None
        if base is None:
            self._remember(run_no, Base(payload_id, commitment, 0, content))
            return codec.pack_envelope(envelope)
        suffix = common(content[prefix:][::-1], base.content[prefix:][::-1])
        middle = content[prefix : len(content) - suffix]
        steps, anchor = (0, None) if full else (base.steps + 1, base.anchor or base)
        self._remember(run_no, Base(payload_id, commitment, base.depth + 1, content, steps, anchor))
        head = HEAD.pack(base.depth + 1, base.payload_id, prefix, suffix)
        return DELTA + head + envelope[:SALT] + codec.pack_envelope(middle)

    def _nearest(self, run_no: int, content: bytes) -> Base | None:
        """The one that has most of its beginning in common."""
        found, most = None, 0
        for base in self._runs.get(run_no, ()):
            prefix = common(content, base.content)
            if prefix > most:
                found, most = base, prefix
        return found

    def _remember(self, run_no: int, base: Base) -> None:
        self._runs.setdefault(run_no, deque(maxlen=BASES_PER_RUN)).append(base)
        self._runs.move_to_end(run_no)
        if len(self._runs) > RUNS:
            self._runs.popitem(last=False)


def is_there(kept: Kept, rows: list[Row], base: Base) -> bool:
    """Ids are given again after a failure; a commitment stands for one salted content."""
    if any(row[0] == base.payload_id and row[1] == base.commitment for row in rows):
        return True
    return kept(base.payload_id) == base.commitment


def common(left: bytes, right: bytes) -> int:
    """How many bytes two texts have in common at their beginning; halving, each comparison at C speed."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def base_of(stored: bytes) -> int | None:
    """The row that a stored envelope builds on."""
    if stored[:1] != DELTA or len(stored) < 1 + HEAD.size:
        return None
    base = int(HEAD.unpack_from(stored, 1)[1])
    if base >> 63:
        raise DamagedRecord("stored bytes build on a row that cannot be")
    return base


def put_together(codec: Codec, stored: bytes, stored_at: Callable[[int], bytes | None]) -> bytes:
    """The envelope from all the rows that it is built on; DamagedRecord where one of them is not there."""
    chain = [stored]
    while (base := base_of(chain[-1])) is not None:
        under = stored_at(base)
        if under is None or len(chain) > DEEPEST + 1:
            raise DamagedRecord(f"stored bytes build on payload {base}, which is not there")
        chain.append(under)
    envelope = codec.unpack(chain.pop())
    while chain:
        envelope = built_on(codec, chain.pop(), envelope[SALT:])
    return envelope


def built_on(codec: Codec, stored: bytes, base_content: bytes) -> bytes:
    """The envelope, given the content it builds on."""
    _, _, prefix, suffix = HEAD.unpack_from(stored, 1)
    if prefix + suffix > len(base_content):
        raise DamagedRecord("a stored envelope names more of its base than there is")
    start = 1 + HEAD.size
    middle = codec.unpack(stored[start + SALT :])
    end = base_content[len(base_content) - suffix :] if suffix else b""
    return stored[start : start + SALT] + base_content[:prefix] + middle + end


def is_repacked(codec: Codec, stored: bytes, envelope: bytes) -> bool:
    """Whether an envelope is packed in another way than this version packs it."""
    if base_of(stored) is None:
        return codec.pack_envelope(envelope) != stored
    # Which other envelope it builds on was chosen by what was at hand; only what is its own is packed again.
    _, _, prefix, suffix = HEAD.unpack_from(stored, 1)
    own = envelope[SALT + prefix : len(envelope) - suffix]
    return codec.pack_envelope(own) != stored[1 + HEAD.size + SALT :]
