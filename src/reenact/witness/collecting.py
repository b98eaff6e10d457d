"""Takes the newest head of a store's log to its witnesses and anchors, and keeps what they say.

No run waits for it: it is a command of its own, or a process that follows. Who is down is asked again later, each time
after a longer pause.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple

from reenact.errors import DamagedRecord, ReenactError
from reenact.runtime.crash_points import reach
from reenact.store.base import Store
from reenact.store.log.log import Log
from reenact.store.log.rows import Peer, SignedHead
from reenact.values.clock import Clock
from reenact.verify.log.anchoring import said_time
from reenact.verify.log.checkpoint import MAX_CHECKPOINT_BYTES, Cosigned, cosigned_by, read_number
from reenact.verify.signed.signed_note import VerifierKey, read_note, read_vkey, signature_line
from reenact.witness.anchors import write_anchor
from reenact.witness.client import Reply, ask
from reenact.witness.contradictions import Contradicts, Failed, refuse_other_head
from reenact.witness.cosigner import write_request

SHORTEST_MS: Final = 5_000
LONGEST_MS: Final = 3_600_000
AHEAD_S: Final = 3_600
"""So much the clock of a witness may be before ours."""
TRIES: Final = 3
"""A witness that has seen another size meanwhile is asked again, this often."""


class Collected(NamedTuple):
    """How it went with one of them."""

    name: str
    kind: str
    state: str
    """`has it`, `cosigned`, `kept`, `later` (not asked yet again), `failed` or `contradicts`"""
    says: str = ""

    @property
    def is_well(self) -> bool:
        return self.state not in ("failed", "contradicts")


def collect(store: Store, clock: Clock, *, only_due: bool = False, ask: Callable[..., Reply] = ask) -> list[Collected]:
    """The newest head, taken to everybody; with `only_due` not to those whose pause is not over yet."""
    head = store.log.advance()
    peers = [*store.log.rows.peers("witness"), *store.log.rows.peers("anchor")]
    if head is None:
        return []
    return [_Round(store.log, clock, ask).with_one(peer, only_due=only_due) for peer in peers]


class _Round:
    def __init__(self, log: Log, clock: Clock, ask: Callable[..., Reply]) -> None:
        self._log = log
        self._rows = log.rows
        self._clock = clock
        self._ask = ask

    def with_one(self, peer: Peer, *, only_due: bool) -> Collected:
        if only_due and self._clock.now_ms() < peer.next_ms:
            return Collected(peer.name, peer.kind, "later", peer.trouble or "")
        newest = self._rows.newest()
        assert newest is not None
        if only_due and peer.kind == "anchor" and peer.seen == newest.size and not peer.failures:
            return Collected(peer.name, peer.kind, "has it", f"size {newest.size}")
        reach("before_asking")
        try:
            self._log.refuse_unnamed(peer)
            if peer.kind == "witness":
                done, size = self._witness(peer, read_vkey(peer.name), newest, only_due=only_due)
            else:
                done, size = write_anchor(self._log, peer, newest, self._ask)
        except ReenactError as error:
            return self._went_wrong(peer, error)
        self._rows.put_peer(peer._replace(seen=size, failures=0, next_ms=0, trouble=None))
        reach("after_asking")
        return Collected(peer.name, peer.kind, done, f"size {size}")

    def _went_wrong(self, peer: Peer, error: ReenactError) -> Collected:
        failures = min(peer.failures + 1, 30)
        pause = min(LONGEST_MS, SHORTEST_MS << failures - 1)
        trouble = str(error)[:500]
        later = self._clock.now_ms() + pause
        now = self._rows.peer(peer.name) or peer
        self._rows.put_peer(now._replace(failures=failures, next_ms=later, trouble=trouble))
        reach("after_asking")
        state = "contradicts" if isinstance(error, Contradicts) else "failed"
        return Collected(peer.name, peer.kind, state, trouble)

    # -- one witness -----------------------------------------------------------------------------------------------

    def _witness(self, peer: Peer, key: VerifierKey, newest: SignedHead, *, only_due: bool) -> tuple[str, int]:
        """(what came of it, the size that it has now). A person who asks hears also whether it has seen more since."""
        has_it = isinstance(cosigned_by(read_note(self._log.note(newest)), key), Cosigned)
        if has_it and only_due:
            return "has it", newest.size
        old = min(peer.seen, newest.size)
        for _ in range(TRIES):
            path = self._log.consistency(old, newest.size)
            body = write_request(old, path, self._log.note(newest, cosigned=False))
            reply = self._ask("POST", f"{peer.url}/add-checkpoint", body)
            if reply.status == 200:
                self._keep(key, newest, reply.body)
                return "has it" if has_it else "cosigned", newest.size
            if reply.status != 409:
                break
            seen = self._size_of(reply)
            if old == newest.size and seen in (None, old):
                raise self._other_past(peer)  # of this very size: what version 1.1 of the protocol says with 422
            if seen is None:
                raise Failed("it says that it has seen another size, and not which")
            old = seen
            if old > newest.size:
                self._find_contradiction(peer)
                latest = self._rows.newest()
                if latest is None or latest.size < old:
                    raise Contradicts(
                        f"it has seen a log of size {old}, and this one has {newest.size}: the store is an older copy, "
                        "or the witness errs; it shows no head that the log's key signed"
                    )
                newest = latest  # another process was faster
        raise self._refusal(peer, reply)

    def _keep(self, key: VerifierKey, newest: SignedHead, lines: bytes) -> None:
        """The cosignature, provided that it is his."""
        own = self._log.note(newest, cosigned=False)
        try:
            note = read_note(own + lines)
        except DamagedRecord as damage:
            raise Failed(f"its answer is no cosignature: {damage}") from None
        said = cosigned_by(note, key)
        if not isinstance(said, Cosigned):
            raise Failed("it answers without a cosignature of its key over this head")
        if said.time > self._clock.now_ms() // 1000 + AHEAD_S:
            raise Failed(f"its cosignature says {said_time(said.time)}, which is to come: one of the clocks is wrong")
        reach("before_cosignature")
        for line in note.signatures:
            if (line.name, line.key_id) == (key.name, key.key_id):
                self._rows.add_cosignature(newest.size, str(key), signature_line(*line))
        reach("after_cosignature")

    @staticmethod
    def _size_of(reply: Reply) -> int | None:
        return read_number(reply.body.decode("ascii", "replace").removesuffix("\n"))

    def _other_past(self, peer: Peer) -> Contradicts:
        self._find_contradiction(peer)
        return Contradicts("it says that this log does not go on from what it saw, and shows no signed head of it")

    def _refusal(self, peer: Peer, reply: Reply) -> Failed:
        if reply.status == 422:
            return self._other_past(peer)
        why = {
            403: "it does not accept the log's key: name this one to its operator",
            404: "it does not know this log: name its key to its operator (`reenact log policy` prints it)",
            409: "it has seen another size each time that it was asked",
        }
        return Failed(f"{why.get(reply.status, 'it refuses')} (status {reply.status})")

    def _find_contradiction(self, peer: Peer) -> None:
        """Contradicts, where the witness shows a head that the log's own key signed and that is none of this log."""
        place = sha256(self._log.origin.encode()).hexdigest()
        reply = self._ask("GET", f"{peer.url}/{place}/checkpoint")
        if reply.status != 200 or len(reply.body) > MAX_CHECKPOINT_BYTES:
            return
        refuse_other_head(self._log, peer.url, reply.body)
