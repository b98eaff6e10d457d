"""A witness (C2SP `tlog-witness`): puts its name to a log's head where that goes on from the last one it saw.

Steps of `add_checkpoint`, in the order that the protocol gives them: the form, the log, its signature, the sizes, what
was seen last, the proof. Only then the head is remembered, and only what is durable is signed.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple

from reenact.errors import DamagedRecord, ReenactError
from reenact.runtime.crash_points import reach
from reenact.store.log.witnessed import Seen, Witnessed
from reenact.store.signing import SigningKey
from reenact.values.clock import Clock
from reenact.verify.capability import from_base64url
from reenact.verify.log.checkpoint import Checkpoint, cosigned_text, read_checkpoint, read_number
from reenact.verify.log.merkle import EMPTY, is_consistent
from reenact.verify.log.proof import read_hashes
from reenact.verify.signed.signed_note import COSIGNATURE, VerifierKey, signature_line, signed_by

MAX_REQUEST_BYTES: Final = 1 << 16
SIZE_TYPE: Final = "text/x.tlog.size"
PLAIN: Final = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    status: int
    body: bytes
    kind: str = PLAIN


class Request(NamedTuple):
    old: int
    path: tuple[bytes, ...]
    checkpoint: Checkpoint
    note: bytes


class Refused(Exception):
    """Ends a request with this answer, before anything is written."""

    def __init__(self, status: int, says: str, kind: str = PLAIN) -> None:
        super().__init__(says)
        self.answer = Answer(status, f"{says}\n".encode(), kind)


class Cosigner:
    """`logs` are the keys of those that it knows, by whose names they are known."""

    def __init__(self, state: Witnessed, key: SigningKey, logs: Iterable[VerifierKey], clock: Clock) -> None:
        self._state = state
        self._sign = key.sign
        raw = from_base64url(key.public_key)
        assert raw is not None
        self.vkey = VerifierKey(state.name, COSIGNATURE, raw)
        self._logs: dict[str, list[VerifierKey]] = {}
        for log in logs:
            self._logs.setdefault(log.name, []).append(log)
        self._clock = clock
        self._lock = threading.Lock()

    def add_checkpoint(self, body: bytes) -> Answer:
        try:
            request = read_request(body)
            self._check_log(request)
            with self._lock:  # what is signed is the largest that was seen
                return Answer(200, self._cosign(request))
        except Refused as refused:
            return refused.answer
        except DamagedRecord as damage:
            return Answer(400, f"{damage}\n".encode())

    def checkpoint(self, origin_hash: str) -> Answer:
        """The last head of a log, as it was signed, with this witness's word."""
        for origin in self._logs:
            if sha256(origin.encode()).hexdigest() == origin_hash:
                seen = self._state.latest(origin)
                if seen is not None:
                    return Answer(200, seen.note + self._line(seen.time, read_checkpoint(seen.note)))
        return Answer(404, b"no log of this name was ever seen here\n")

    def _check_log(self, request: Request) -> None:
        checkpoint = request.checkpoint
        keys = self._logs.get(checkpoint.head.origin)
        if keys is None:
            raise Refused(404, "this witness does not know the log; its operator has to name the log's key")
        said = [signed_by(checkpoint.note, key) for key in keys]
        if False in said or True not in said:
            raise Refused(403, "the checkpoint is not signed by the log's key")
        if request.old > checkpoint.head.size:
            raise Refused(400, "the old size is larger than that of the checkpoint")

    def _cosign(self, request: Request) -> bytes:
        head, time = request.checkpoint.head, self._clock.now_ms() // 1000

        def judge(latest: Seen | None) -> Seen | None:
            size, root = (0, EMPTY) if latest is None else (latest.size, latest.root)
            if request.old != size:
                raise Refused(409, str(size), SIZE_TYPE)
            if not is_consistent((size, root), (head.size, head.root), request.path):
                raise Refused(422, "the proof does not show that the log goes on from what was seen last")
            is_new = latest is None or head.size > latest.size
            return Seen(head.size, head.root, time, own_part(request)) if is_new else None

        self._state.advance(head.origin, judge)
        reach("after_witnessed")
        return self._line(time, request.checkpoint)

    def _line(self, time: int, checkpoint: Checkpoint) -> bytes:
        signature = self._sign(cosigned_text(time, checkpoint.note.text))
        return signature_line(self.vkey.name, self.vkey.key_id, time.to_bytes(8, "big") + signature)


def own_part(request: Request) -> bytes:
    """The checkpoint with the signatures of its log alone."""
    head, note = request.checkpoint.head, request.checkpoint.note
    lines = [signature_line(*each) for each in note.signatures if each.name == head.origin]
    return note.text + b"\n" + b"".join(lines)


def read_request(body: bytes) -> Request:
    """DamagedRecord where the body is no request."""
    if len(body) > MAX_REQUEST_BYTES:
        raise DamagedRecord(f"a request has at most {MAX_REQUEST_BYTES} bytes")
    above, blank, note = body.partition(b"\n\n")
    try:
        first, *lines = above.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise DamagedRecord("what stands above the checkpoint is ASCII") from None
    old = read_number(first.removeprefix("old ")) if first.startswith("old ") else None
    if old is None or not blank:
        raise DamagedRecord("a request is `old N`, a proof, an empty line and a checkpoint")
    return Request(old, read_hashes(lines), read_checkpoint(note), note)


def write_request(old: int, path: Iterable[bytes], note: bytes) -> bytes:
    return b"old %d\n" % old + b"".join(b64encode(each) + b"\n" for each in path) + b"\n" + note


def refusal_of(error: ReenactError) -> Answer:
    """What went wrong on the witness's side."""
    return Answer(500, f"{error.code}\n".encode())
