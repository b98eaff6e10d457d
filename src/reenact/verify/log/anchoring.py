"""The verdict on anchoring: whether somebody outside saw the log with this run's seal in it, and still says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from reenact.errors import DamagedRecord
from reenact.verify.capability import from_base64url
from reenact.verify.log.checkpoint import Checkpoint, Cosigned, Head, cosigned_by, of_log, origin_of, read_checkpoint
from reenact.verify.log.policy import Policy
from reenact.verify.log.proof import Proof, read_proof
from reenact.verify.report import Anchor, Findings, Problem, Verdict, Where
from reenact.verify.signed.signed_note import ED25519, VerifierKey, signed_by

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

FILE, STAMP_FILE = "seal.tlog-proof", "seal.tsr"
LATEST_S = 253402300799  # 9999-12-31T23:59:59Z


class Believed(NamedTuple):
    """What the reader brings: whose word counts, and heads of the log that were kept elsewhere."""

    policy: Policy | None = None
    kept: tuple[Checkpoint, ...] = ()
    roots: tuple[Certificate, ...] = ()
    """Of authorities whose time stamps count."""
    is_own: bool = False
    """The policy is no reader's but the store's own list."""


NOBODY = Believed()


class LogSource(Protocol):
    """Where proofs come from. Nothing that it returns is trusted; DamagedRecord for what cannot be read."""

    def proof(self) -> bytes | None:
        """That the seal is in the log, with the checkpoint that most witnesses saw; None where there is none."""

    def path(self, size: int) -> tuple[int, list[bytes]] | None:
        """(place of the seal, its path to the root of `size` leaves); None where that cannot be had."""

    def root(self, size: int) -> bytes | None:
        """The root over the first `size` leaves; None where that cannot be had."""

    def stamps(self) -> list[bytes]:
        """Answers of time-stamp authorities about the head in the proof."""

    def contradictions(self) -> list[tuple[str, bytes]]:
        """(who holds it, a checkpoint) that were met and did not fit."""


class FileSource:
    """A proof that came alone, or in a bundle."""

    def __init__(self, data: bytes | None, stamp: bytes | None = None) -> None:
        self._data = data
        self._stamp = stamp

    def proof(self) -> bytes | None:
        return self._data

    def path(self, size: int) -> tuple[int, list[bytes]] | None:
        proof = read_proof(self._data) if self._data is not None else None
        return (proof.place, list(proof.path)) if proof is not None and proof.checkpoint.head.size == size else None

    def root(self, size: int) -> bytes | None:
        proof = read_proof(self._data) if self._data is not None else None
        return proof.checkpoint.head.root if proof is not None and proof.checkpoint.head.size == size else None

    def stamps(self) -> list[bytes]:
        return [] if self._stamp is None else [self._stamp]

    def contradictions(self) -> list[tuple[str, bytes]]:
        return []


class Anchoring:
    """Holds the seal of one run against its log. `keys` (kid → public key) are those that may sign for the log."""

    def __init__(self, believed: Believed, keys: Mapping[str, str], store_id: object, findings: Findings) -> None:
        self._believed = believed
        self._findings = findings
        self._origin = None if store_id is None else origin_of(str(store_id))
        raw = (from_base64url(text) for text in keys.values())
        self._keys = [each for each in raw if each is not None and len(each) == 32]

    def judge(self, source: LogSource, leaf: bytes | None, file: str = FILE) -> tuple[Verdict, Anchor | None]:
        """`leaf` is the canonical seal of the run, None where it has none."""
        where, before = Where(file=file), self._findings.total
        try:
            anchor = None if leaf is None else self._judge(source, leaf, where)
        except DamagedRecord as damage:
            self._add("LOG_PROOF", str(damage), where)
            anchor = None
        if self._findings.total > before:
            return "contradicted", anchor
        if anchor is None:
            return "absent", None
        return ("holds" if self._is_enough(anchor) else "absent"), anchor

    def _judge(self, source: LogSource, leaf: bytes, where: Where) -> Anchor | None:
        data = source.proof()
        proof = None if data is None else read_proof(data)
        self._check_others(source, where)
        anchor = None if proof is None else self._check_proof(proof, leaf, where)
        kept = self._check_kept(source, leaf, where, None if proof is None else proof.checkpoint.head.origin)
        if proof is None or anchor is None:
            head = kept[0] if kept else None
            return None if head is None else self._of_kept(head, kept)
        stamped = tuple(sorted(self._stamped(source, proof.checkpoint, where)))
        return replace(anchor, kept=tuple(sorted(each[1].size for each in kept)), stamped=stamped)

    @staticmethod
    def _of_kept(first: tuple[int, Head], kept: list[tuple[int, Head]]) -> Anchor:
        index, head = first
        sizes = tuple(sorted(each.size for _, each in kept))
        return Anchor(origin=head.origin, index=index, size=head.size, root=head.root.hex(), kept=sizes)

    # -- the log's own word ----------------------------------------------------------------------------------------

    def _check_proof(self, proof: Proof, leaf: bytes, where: Where) -> Anchor | None:
        head, root = proof.checkpoint.head, proof.root_of(leaf)
        if self._origin is not None and head.origin != self._origin:
            self._add("LOG_PROOF", "the proof is of another log", where, self._origin, head.origin)
            return None
        if root != head.root:
            got = None if root is None else Head(head.origin, head.size, root)
            self._add("LOG_CONTRADICTED", "the seal does not lead to the head that was signed", where, head, got)
            return None
        if not self._is_of_log(proof.checkpoint, where):
            return None
        witnesses = self._cosigned(proof.checkpoint, where)
        known = () if self._believed.policy is None else self._believed.policy.witnesses
        first = min((each.time for _, each in witnesses), default=None)
        return Anchor(
            origin=head.origin,
            index=proof.place,
            size=head.size,
            root=head.root.hex(),
            witnesses=tuple(name for name, _ in witnesses),
            known=len(known),
            since=None if first is None else said_time(first),
        )

    def _is_of_log(self, checkpoint: Checkpoint, where: Where) -> bool:
        """Whether a key that may sign for the log signed it; a signature that does not fit is told."""
        policy = self._believed.policy
        logs = [] if policy is None else [key for key in policy.logs if key.name == checkpoint.head.origin]
        if policy is not None and policy.logs and not logs:
            self._findings.note(f"the witness policy names other logs than {checkpoint.head.origin}")
            return False
        for key in logs or [VerifierKey(checkpoint.head.origin, ED25519, raw) for raw in self._keys]:
            said = signed_by(checkpoint.note, key)
            if said is False:
                self._add("LOG_SIGNATURE", f"the checkpoint is not signed by key {key.key_id.hex()}", where)
                return False
            if said:
                return True
        self._findings.note("the log's checkpoint is signed by no key that is believed here")
        return False

    def _cosigned(self, checkpoint: Checkpoint, where: Where) -> list[tuple[str, Cosigned]]:
        policy, found = self._believed.policy, []
        for witness in () if policy is None else policy.witnesses:
            said = cosigned_by(checkpoint.note, witness.key)
            if said is True:
                self._add("LOG_SIGNATURE", f"the cosignature of {witness.name} does not fit his key", where)
            elif isinstance(said, Cosigned):
                found.append((witness.name, said))
        others = len({(line.name, line.key_id) for line in checkpoint.note.signatures}) - 1 - len(found)
        if others > 0:
            self._findings.note(
                f"{others} cosignature{'s' if others > 1 else ''} of witnesses that nobody named here, with "
                "--witness-policy: not checked"
            )
        return found

    def _stamped(self, source: LogSource, checkpoint: Checkpoint, where: Where) -> Iterator[str]:
        """The times that authorities whom the reader believes gave for the head."""
        stamps = source.stamps()
        if stamps:
            from reenact.verify.log.timestamp import forged, read_response, untrusted
        for raw in stamps:
            stamp = read_response(raw)
            problem = forged(stamp, checkpoint.note.text)
            time = stamp.time.strftime("%Y-%m-%dT%H:%M:%SZ")
            if problem is not None:
                self._add("LOG_SIGNATURE", problem, where)
            elif not self._believed.roots:
                self._findings.note(f"a time stamp says {time}, of an authority that nobody named here, with --tsa-ca")
            elif (why := untrusted(stamp, self._believed.roots)) is not None:
                self._findings.note(f"a time stamp of {time} does not count: {why}")
            else:
                yield time

    def _is_enough(self, anchor: Anchor) -> bool:
        policy = self._believed.policy
        if anchor.kept or anchor.stamped:
            return True
        if policy is None or not anchor.witnesses:
            return False
        if not policy.is_met(anchor.witnesses):
            self._findings.note(f"{len(anchor.witnesses)} of {anchor.known} witnesses saw it; {policy.needed}")
            return False
        if self._believed.is_own:
            self._findings.note("the witnesses are those that the store itself names; --witness-policy names yours")
        return True

    # -- what others keep ------------------------------------------------------------------------------------------

    def _check_kept(self, source: LogSource, leaf: bytes, where: Where, proven: str | None) -> list[tuple[int, Head]]:
        """(place, head) of those that the seal is in; `proven` is the log that the proof says that it is of."""
        found = []
        origin = proven if self._origin is None else self._origin
        kept, others = of_log(self._believed.kept, origin)
        if others:
            self._findings.note(f"{others} of the kept checkpoints are of other logs, and say nothing of this one")
        for checkpoint in kept:
            head = checkpoint.head
            if origin is not None and head.origin != origin:
                self._add("LOG_CONTRADICTED", "the kept checkpoint is of another log", where, head.origin, origin)
                continue
            place = source.path(head.size)
            if place is not None and place[0] < head.size:
                root = Proof(place[0], tuple(place[1]), checkpoint, b"").root_of(leaf)
            else:
                root = source.root(head.size)
            if root is None:
                self._cannot_tell(source, head, where)
            elif root != head.root:
                got = Head(head.origin, head.size, root)
                self._add("LOG_CONTRADICTED", "this is not the log whose head was kept", where, head, got)
            elif place is None or place[0] >= head.size:
                self._findings.note(f"the kept checkpoint of size {head.size} is older than this run")
            else:
                found.append((place[0], head))
        return found

    def _cannot_tell(self, source: LogSource, head: Head, where: Where) -> None:
        if isinstance(source, FileSource):
            self._findings.note(
                f"the kept checkpoint has size {head.size}, the proof here another: ask for one with "
                f"`reenact log prove RUN --checkpoint FILE`, or for `reenact log consistency FILE`"
            )
        else:
            self._add("LOG_CONTRADICTED", "the log is shorter than the one whose head was kept", where, head)

    def _check_others(self, source: LogSource, where: Where) -> None:
        """Heads that a witness or an anchor showed, and that the log's own key signed."""
        for holder, note in source.contradictions():
            try:
                checkpoint = read_checkpoint(note)
            except DamagedRecord:
                continue
            head = checkpoint.head
            keys = [VerifierKey(head.origin, ED25519, raw) for raw in self._keys]
            if head.origin != self._origin or not any(signed_by(checkpoint.note, key) for key in keys):
                continue
            root = source.root(head.size)
            if root != head.root:
                got = "a shorter log" if root is None else Head(head.origin, head.size, root)
                self._add("LOG_CONTRADICTED", f"{holder} holds another head that its key signed", where, head, got)

    def _add(self, code: str, what: str, where: Where, expected: object = None, got: object = None) -> None:
        self._findings.add(Problem(code, what, expected, got), where)


def said_time(seconds: int) -> str:
    if not 0 <= seconds <= LATEST_S:
        return f"{seconds} s after 1970"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
