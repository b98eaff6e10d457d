"""Heads of the log that somebody kept, and those that were signed, against the seals as they are now."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reenact.errors import NotAuthentic
from reenact.store.log.log import Edge, Log, ReadLog
from reenact.store.log.rows import SignedHead
from reenact.verify.log.checkpoint import Checkpoint, Head
from reenact.verify.log.merkle import joined


class Past(NamedTuple):
    """What came of it; `problem` is the first head that is none of this log."""

    log: ReadLog
    says: str
    checked: int
    problem: str | None = None
    expected: str | None = None
    got: str | None = None

    def document(self) -> dict[str, object]:
        verdict = "holds" if self.problem is None else "contradicted"
        return {
            "verdict": verdict,
            "origin": self.log.origin,
            "checked": self.checked,
            "problem": self.problem,
            "kept": self.expected,
            "here": self.got,
        }

    def proof_from(self, old: int) -> bytes:
        """That the newest head goes on from one of size `old`: as a witness is asked (C2SP `tlog-witness`)."""
        newest = self.log.rows.newest()
        if newest is None or newest.size < old:
            raise NotAuthentic("the log has no newer head yet; `reenact log checkpoint` makes one")
        hashes = self.log.consistency(old, newest.size)
        lines = b"".join(b64encode(each) + b"\n" for each in hashes)
        return b"old %d\n" % old + lines + b"\n" + self.log.note(newest)


def compare(log: ReadLog, kept: Sequence[Checkpoint], told: Callable[[int], object]) -> Past:
    """Every head that was signed here, and those that were kept, against the records of the seals, each read once."""
    wanted = [(each.head, "a head that was kept") for each in kept]
    wanted += [(log.head(each), "a head that was signed here") for each in log.rows.checkpoints()]
    edge, leaves = Edge(), log.leaves()
    for head, what in sorted(wanted, key=lambda each: each[0].size):
        if head.origin != log.origin:
            return Past(log, "", 0, f"{what} is of another log", f"{head.origin}, {head}", log.origin)
        try:
            while edge.size < head.size:
                leaf = next(leaves, None)
                if leaf is None:
                    break
                edge.append(leaf)
                edge.added.clear()
                told(edge.size)
        except NotAuthentic as error:
            return Past(log, "", edge.size, str(error), str(head), f"{edge.size} seals that follow each other")
        if edge.size < head.size:
            return Past(log, "", edge.size, f"{what} is of a longer log", str(head), f"a log of size {edge.size}")
        here = Head(log.origin, edge.size, joined(edge.hashes))
        if here != head:
            return Past(log, "", edge.size, f"{what} is none of this log", str(head), str(here))
    largest = max((head.size for head, _ in wanted), default=0)
    says = f"nothing that a head of size {largest} covers was changed or removed: {len(wanted)} heads, {largest} seals"
    return Past(log, says if wanted else "no head was signed yet", len(wanted))


def rebuild(log: Log, told: Callable[[int], object]) -> SignedHead | None:
    """The tree anew from the seals; NotAuthentic where a head that was signed is none of it: then it is left."""
    past = compare(log, (), told)
    if past.problem is not None:
        raise NotAuthentic(f"{past.problem}: {past.expected}; here: {past.got}. The tree is left as it is")
    log.rows.forget_nodes()
    return log.advance()
