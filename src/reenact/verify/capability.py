"""What keys of the store signed: does a capability allow this call and no other, and are it and the notes signed?"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import UNSET, UnsetType

from reenact.errors import ReenactError
from reenact.values.clock import parse_ts
from reenact.values.digest import digest
from reenact.verify.lines import Canonical, fit, read_canonical
from reenact.verify.report import Findings, Problem, Where, first_difference, shown
from reenact.verify.shapes import ActionRequest, Claims, Hex64, JwsHeader, Kid, Run, Shape, SupervisorDecision

LIFETIME_S = 300


def from_base64url(text: str) -> bytes | None:
    """The bytes that `text` spells without padding; None for any other spelling of them."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.urlsafe_b64encode(data).rstrip(b"=").decode() == text else None


def milliseconds(ts: str) -> int | None:
    """Unix milliseconds; None for a text that has the form of a time and is none."""
    try:
        return parse_ts(ts)
    except ReenactError:
        return None


class KeyRing:
    """The public keys that signatures are checked with. `unknown` counts those that no key was there for."""

    def __init__(self, keys: Mapping[str, str] | None, findings: Findings, file: str = "keys.json") -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}
        self.verified = self.unknown = 0
        self.issuers: set[str] = set()
        """What the capabilities name as their issuer."""
        for kid, text in (keys or {}).items():
            raw, where = from_base64url(text), Where(file=file, row=f"kid {shown(kid)}")
            if raw is None or len(raw) != 32:
                findings.add(Problem("KEY_INVALID", f"key {kid} is not 32 bytes in base64url"), where)
            elif sha256(raw).hexdigest()[:16] != kid:
                findings.add(Problem("KEY_INVALID", "the kid of a key", sha256(raw).hexdigest()[:16], kid), where)
            else:
                self._keys[kid] = Ed25519PublicKey.from_public_bytes(raw)

    def check(self, kid: str, signed: bytes, signature: bytes) -> Problem | None:
        fits = self.has_signed(kid, signed, signature)
        if fits is False:
            return Problem("CAPABILITY_SIGNATURE", f"the signature does not fit key {kid}")
        self.verified += fits is True
        self.unknown += fits is None
        return None

    def has_signed(self, kid: str, signed: bytes, signature: bytes) -> bool | None:
        """Whether the key of this kid signed that; None where it is not there."""
        key = self._keys.get(kid)
        if key is None:
            return None
        try:
            key.verify(signature, signed)
        except InvalidSignature:
            return False
        return True


class Token:
    """A capability, read. `problem` is set when it cannot be."""

    def __init__(self, text: str) -> None:
        self.problem: Problem | None = None
        self.header: JwsHeader | None = None
        self.claims: Claims | None = None
        parts = text.split(".")
        decoded = [from_base64url(part) for part in parts]
        if len(parts) != 3 or any(part is None for part in decoded):
            self.problem = Problem("CAPABILITY_MISMATCH", "the capability is not a compact JWS")
            return
        header, payload, self.signature = (part or b"" for part in decoded)
        self.signed = f"{parts[0]}.{parts[1]}".encode()
        for data, kind, attribute in ((header, JwsHeader, "header"), (payload, Claims, "claims")):
            read = read_canonical(data, f"the capability's {attribute}")
            record = fit(read.value, kind, "CAPABILITY_MISMATCH") if isinstance(read, Canonical) else read
            if isinstance(record, Problem):
                self.problem = Problem("CAPABILITY_MISMATCH", f"the capability's {attribute}: {record.what}")
                return
            setattr(self, attribute, record)


def _minted(decided: int | None, iat: int) -> int | None:
    """`iat` where it is the second of the decision or the one before: minting comes just before deciding."""
    second = None if decided is None else decided // 1000
    return iat if second is not None and iat in (second, second - 1) else second


def bound(run: Run, request: ActionRequest, decision: SupervisorDecision) -> str:
    """The digest of all that an approval holds for: docs/spec/entry_and_artifacts.md, "Capability"."""
    prefix = "Approved by "
    said = decision.rationale
    return digest(
        {
            "agent": run.agent_id,
            "approver": said.removeprefix(prefix) if said.startswith(prefix) else "key",
            "arguments": request.proposal.args.get("$commit"),
            "definition": request.meta.definition_digest,
            "mode": run.mode,
            "plan": run.plan_hash,
            "request": request.digest,
            "run": run.run_id,
            "vote": decision.meta.vote,
        }
    )


def check_capability(
    token: Token, run: Run, request: ActionRequest, decision: SupervisorDecision, ring: KeyRing, targets: list[str]
) -> Iterator[Problem]:
    """What is wrong with the capability that a decision minted for `request` and `targets`."""
    if token.header is None or token.claims is None:
        yield token.problem or Problem("CAPABILITY_MISMATCH", "the capability cannot be read")
        return
    claims = token.claims
    ring.issuers.add(claims.iss)
    issued, constraints = milliseconds(decision.ts), {"$commit": request.proposal.args.get("$commit")}
    if "$bound" in claims.constraints.arg_constraints:  # those of before bind the arguments alone
        constraints["$bound"] = bound(run, request, decision)
    difference = first_difference(
        "CAPABILITY_MISMATCH",
        (
            ("the capability's trace_id", request.trace_id, claims.trace_id),
            ("the capability's plan_id", request.plan_id, claims.plan_id),
            ("the capability's kid", run.capability_key, token.header.kid),
            ("the capability's iat", _minted(issued, claims.iat), claims.iat),
            ("the capability's exp", claims.iat + LIFETIME_S, claims.exp),
            ("the capability's tool_server", request.proposal.tool_server, claims.constraints.tool_server),
            ("the capability's tool_name", request.proposal.tool_name, claims.constraints.tool_name),
            ("the capability's target_allowlist", targets, claims.constraints.target_allowlist),
            ("the capability's arg_constraints", constraints, claims.constraints.arg_constraints),
        ),
    )
    if difference is not None:
        yield difference
    unsigned = ring.check(token.header.kid, token.signed, token.signature)
    if unsigned is not None:
        yield unsigned


# -- notes: what a key of the store signed about records of a run, docs/spec/bundle.md -------------------------------

SEAL: Final = "reenact.seal.v1"
VOTE: Final = "reenact.vote.v1"


class Note(Shape):
    """One line of `notes.jsonl`."""

    digest: Hex64
    kid: Kid
    schema: str
    signature: str
    store_id: str
    record: Any | UnsetType = UNSET

    def text(self) -> bytes:
        return f"{self.schema}\n{self.store_id}\n{self.digest}\n".encode()


NotesOf = Callable[[str], Iterable[Note]]
"""What was signed about the record of a digest. Nothing of it is trusted."""


def read_notes(data: bytes, findings: Findings, file: str = "notes.jsonl") -> dict[str, list[Note]]:
    """By the digest that they are about."""
    found: dict[str, list[Note]] = {}
    for number, raw in enumerate(data.removesuffix(b"\n").split(b"\n") if data else [], start=1):
        read = read_canonical(raw, "the note")
        note = read if isinstance(read, Problem) else fit(read.value, Note, "FILE_MALFORMED")
        if isinstance(note, Note):
            found.setdefault(note.digest, []).append(note)
        else:
            findings.add(Problem("FILE_MALFORMED", note.what), Where(file=file, line=number))
    return found


def check_notes(
    notes_of: NotesOf, wanted: Iterable[tuple[str, str]], ring: KeyRing, findings: Findings, file: str
) -> set[str]:
    """The digests, of (schema, digest) wanted, that a key which is there has signed; a wrong signature is told."""
    signed: set[str] = set()
    for schema, about in wanted:
        for note in notes_of(about):
            if note.schema != schema:
                continue
            is_signed = ring.has_signed(note.kid, note.text(), from_base64url(note.signature) or b"")
            other = {f"reenact:{note.store_id}"} != ring.issuers and bool(ring.issuers)
            if is_signed is False or (is_signed and other):
                what = f"the note about {schema} {about} is not signed by the key {note.kid} for this store"
                findings.add(Problem("NOTE_SIGNATURE", what), Where(file=file))
            elif is_signed:
                signed.add(about)
    return signed
