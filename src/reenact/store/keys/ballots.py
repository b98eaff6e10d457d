"""What people say while somebody holds the run: signed with the store's key, and nothing else is believed."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from reenact.contracts.records import PendingVote
from reenact.errors import ReenactError
from reenact.store.keys.notes import note_text
from reenact.store.signing import KeyOf, SigningKey, has_signed
from reenact.values.canonical import canonicalize, parse_canonical
from reenact.values.digest import digest
from reenact.values.threads import build


class Ballot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vote, a word about a call in doubt or a cancel, as it lies there: what was said of what, and the signature."""

    kid: str
    run_id: str
    said: dict[str, Any]
    schema: Literal["reenact.ballot.v1"] = "reenact.ballot.v1"
    signature: str = ""
    """Over the note of this schema about the digest of all the rest, base64url without padding."""
    trace_id: str
    """Empty for what is said of the whole run."""

    def text(self, store_id: str) -> bytes:
        record = msgspec.to_builtins(self)
        del record["signature"]
        return note_text(self.schema, store_id, digest(record))


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What whoever holds a run is asked for: to end it."""

    reason: str
    ts: str
    who: str


def signed(key: SigningKey, store_id: str, said: object, *, run_id: str, trace_id: str) -> bytes:
    """What a person says of a call, as it is kept until whoever holds the run hears of it."""
    value = msgspec.to_builtins(said)
    ballot = Ballot(kid=key.kid, run_id=run_id, said=value, trace_id=trace_id)
    signature = urlsafe_b64encode(key.sign(ballot.text(store_id))).rstrip(b"=").decode()
    return canonicalize(msgspec.structs.replace(ballot, signature=signature))


class WordsKept(Protocol):
    store_id: str

    @property
    def key_of(self) -> KeyOf: ...
    def key_for(self, run_id: str, kid: str) -> SigningKey: ...
    @property
    def pending_votes(self) -> Callable[[str], dict[str, bytes]]: ...


def sign_for(store: WordsKept, run_id: str, kid: str, trace_id: str, said: object) -> bytes:
    """With the key that a run goes on with that began with `kid`; KeyUnavailable where it is not here."""
    return signed(store.key_for(run_id, kid), store.store_id, said, run_id=run_id, trace_id=trace_id)


def waiting_words(store: WordsKept, run_id: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """By trace: what people said while somebody held the run; and why each of the other rows is ignored."""
    said: dict[str, dict[str, Any]] = {}
    ignored: dict[str, str] = {}
    for trace_id, body in store.pending_votes(run_id).items():
        ballot = read(body)
        problem = ballot if isinstance(ballot, str) else why_not(ballot, store, run_id, trace_id)
        if problem is not None:
            ignored[trace_id] = problem
        elif isinstance(ballot, Ballot):
            said[trace_id] = ballot.said
    return said, ignored


def waiting_votes(store: WordsKept, run_id: str) -> tuple[dict[str, PendingVote], dict[str, str]]:
    """The votes among them, and what is ignored."""
    said, ignored = waiting_words(store, run_id)
    return {trace: msgspec.convert(word, PendingVote) for trace, word in said.items() if "decision" in word}, ignored


def asked_to_cancel(store: WordsKept, run_id: str, note: str) -> CancelRequest | str:
    """What a note that lies there asks for; or why it is ignored."""
    ballot = read(note.encode("utf-8", "surrogatepass"))
    if isinstance(ballot, str):
        return ballot
    problem = why_not(ballot, store, run_id, "")
    try:
        return problem or msgspec.convert(ballot.said, CancelRequest)
    except msgspec.ValidationError:
        return "it does not ask for that"


def read(body: bytes) -> Ballot | str:
    try:
        return msgspec.convert(parse_canonical(body), Ballot)
    except (msgspec.ValidationError, ReenactError, UnicodeDecodeError, RecursionError):
        return "it is no word of this store"


def why_not(ballot: Ballot, store: WordsKept, run_id: str, trace_id: str) -> str | None:
    """Why it is not believed; None for one that whoever has the store's key signed about this call."""
    key = store.key_of(ballot.kid)
    if key is None:
        return f"the key {shown(ballot.kid)} that is to have signed it is not here"
    if (ballot.run_id, ballot.trace_id) != (run_id, trace_id):
        return "it is about another call"
    try:
        signature = urlsafe_b64decode(ballot.signature + "==")
    except ValueError:
        signature = b""
    return None if has_signed(key.public_key, signature, ballot.text(store.store_id)) else "its signature is wrong"


def shown(kid: str) -> str:
    return kid if kid.isalnum() and len(kid) <= 16 else "of no name"


build(Ballot)
