"""A time stamp for the newest head of a log, from an RFC 3161 responder."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from secrets import randbits

from reenact.errors import DamagedRecord
from reenact.runtime.crash_points import reach
from reenact.store.log.log import Log
from reenact.store.log.rows import SignedHead
from reenact.verify.log.timestamp import read_response, write_request
from reenact.witness.client import Reply
from reenact.witness.contradictions import Failed


def stamp(log: Log, name: str, url: str, newest: SignedHead, ask: Callable[..., Reply]) -> tuple[str, int]:
    """(what came of it, the size that is stamped). Whether the authority is to be believed, whoever verifies says."""
    if any(place == name for place, _ in log.rows.timestamps(newest.size)):
        return "has it", newest.size
    text = log.head(newest).text()
    nonce = randbits(63)  # reenact: ignore[RN202] by which the answer is told from an old one
    reply = ask("POST", url, write_request(text, nonce), kind="application/timestamp-query")
    if reply.status != 200 or reply.kind != "application/timestamp-reply":
        raise Failed(f"no time stamp came (status {reply.status}, {reply.kind or 'no type'})")
    try:
        got = read_response(reply.body)
    except DamagedRecord as damage:
        raise Failed(str(damage)) from None
    if got.imprint != sha256(text).digest() or got.nonce != nonce:
        raise Failed("the time stamp is over something else, or an old one")
    reach("before_stamp")
    log.rows.add_timestamp(newest.size, name, reply.body)
    return "kept", newest.size
