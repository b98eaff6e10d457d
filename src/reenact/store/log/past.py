"""Heads of the log that somebody kept, and those that were signed, against the seals as they are now."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from reenact.errors import DamagedRecord, NotAuthentic
from reenact.store.log.log import Edge, Log, ReadLog
from reenact.store.log.rows import SignedHead
from reenact.verify.log.checkpoint import Checkpoint, Head, of_log, read_checkpoint
from reenact.verify.log.merkle import complete, joined
from reenact.verify.signed.signed_note import is_signature, signed_by


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


def held_elsewhere(log: ReadLog) -> list[tuple[Head, str]]:
    """Heads that a witness or an anchor showed, that a key of this log signed, and that did not fit it."""
    found = []
    for holder, note in log.rows.contradictions():
        with suppress(DamagedRecord):
            head, signed = read_checkpoint(note)
            if head.origin == log.origin and any(signed_by(signed, key) for key in log.vkeys()):
                found.append((head, f"a head that {holder} holds"))
    return found


def compare(
    log: ReadLog,
    kept: Sequence[Checkpoint],
    told: Callable[[int], object],
    held: Sequence[tuple[Head, str]] = (),
) -> Past:
    """Every head that was signed here, and those that were kept, against the records of the seals, each read once.
    `held` are more of them, each with the words for it."""
    mine, others = of_log(kept, log.origin)
    wanted = [*held, *((each.head, "a head that was kept") for each in mine)]
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
    if others:
        says += f"; {others} of the kept heads are of other logs"
    return Past(log, says if wanted else "no head was signed yet", len(wanted))


def compare_newest(log: ReadLog, most: int) -> Past:
    """The newest seals, up to twice `most` of them, against the leaves, and the heads over them against both.

    What is before them is taken as the nodes of the tree have it: `compare` believes none of those.
    """
    size, seals, newest = log.rows.size(), log.rows.seal_count(), log.rows.newest()
    largest = max(size, 0 if newest is None else newest.size)
    if seals < largest:
        return Past(log, "", 0, "its last seals were taken out", f"{largest} seals", f"{seals}")
    begin = 0 if size <= most else (size - most) // most * most
    known = log.rows.nodes([*complete(0, begin), *((0, number) for number in range(begin, size))])
    edge, leaves = Edge(begin, [known[node] for node in complete(0, begin)]), log.leaves(size, after=begin)
    kept = log.rows.covering(begin + 1)
    try:
        for number, leaf in enumerate(leaves, start=begin):
            if leaf != known[0, number]:
                what = f"seal {number + 1} of the store is not the one that the log has"
                return Past(log, "", number - begin, what, known[0, number].hex(), leaf.hex())
            edge.append(leaf)
            if kept is not None and kept.size == edge.size:
                here = Head(log.origin, edge.size, joined(edge.hashes))
                if here != log.head(kept):
                    what = "the head that was signed is not that of the seals"
                    return Past(log, "", edge.size - begin, what, str(log.head(kept)), str(here))
                kept = log.rows.covering(kept.size + 1)
    except NotAuthentic as error:
        return Past(log, "", edge.size - begin, str(error), f"{size} seals that follow each other", f"{edge.size}")
    if kept is not None:
        return Past(
            log, "", edge.size - begin, "a head was signed for more seals", str(log.head(kept)), f"{size} leaves"
        )
    if newest is not None and not is_signature(
        log.vkey(newest.kid).public_key, newest.signature, log.head(newest).text()
    ):
        what = f"key {newest.kid} has not signed the newest head"
        return Past(log, "", edge.size - begin, what, "its signature", newest.signature.hex())
    says = f"{seals} seals, the newest {edge.size - begin} of {size} in the log and its head agree"
    return Past(log, says if size else f"{seals} seals, none of them in the log yet", edge.size - begin)


def rebuild(log: Log, told: Callable[[int], object]) -> SignedHead | None:
    """The tree anew from the seals; NotAuthentic where a head that was signed is none of it: then it is left."""
    past = compare(log, (), told)
    if past.problem is not None:
        raise NotAuthentic(f"{past.problem}: {past.expected}; here: {past.got}. The tree is left as it is")
    log.rows.forget_nodes()
    return log.advance()
