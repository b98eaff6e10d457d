"""A capability: does it allow this call and no other, and did a key of the store sign it?"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reenact.errors import ReenactError
from reenact.values.clock import parse_ts
from reenact.values.digest import digest
from reenact.verify.lines import Canonical, fit, read_canonical
from reenact.verify.report import Findings, Problem, Where, first_difference, shown
from reenact.verify.shapes import ActionRequest, Claims, JwsHeader, Run, SupervisorDecision

LIFETIME_S = 300
ISSUER = "reenact:"
"""Before a store's id, in the capabilities that it mints."""
PURPOSES = ("seals", "capabilities", "log")
"""What a key can be trusted for: results (seals, run checkpoints, votes, erasures), approvals, the store's log."""


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


class Hashed(Protocol):
    def hexdigest(self) -> str: ...


class Succession(NamedTuple):
    """After `commits` of a run, the last of which has the digest `head`, `new_kid` signs instead of a lost key."""

    commits: int
    head: str
    old_kid: str
    new_kid: str


class KeyRing:
    """The public keys that signatures are checked with. `unknown` counts those that no key was there for."""

    def __init__(self, keys: Mapping[str, str] | None, findings: Findings, file: str = "keys.json") -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}
        self.verified = self.unknown = self.bound = 0
        """`bound` of those that were verified are of engines that sign seals and erasures too."""
        self.begins_bound: bool | None = None
        """Whether the first of them is."""
        self.unapproved = 0
        """Capabilities whose key is there and not trusted for capabilities; `unknown` counts them too."""
        self.purposes: Callable[[str, object], frozenset[str]] = lambda _kid, _store_id: frozenset(PURPOSES)
        """What a key's word counts for in a store; nothing where it is no key of that store."""
        self.issuers: set[str] = set()
        """What the capabilities name as their issuer."""
        self.successions: Mapping[str, Sequence[Succession]] = {}
        """By run, in order."""
        for kid, text in (keys or {}).items():
            raw, where = from_base64url(text), Where(file=file, row=f"kid {shown(kid)}")
            if raw is None or len(raw) != 32:
                findings.add(Problem("KEY_INVALID", f"key {kid} is not 32 bytes in base64url"), where)
            elif sha256(raw).hexdigest()[:16] != kid:
                findings.add(Problem("KEY_INVALID", "the kid of a key", sha256(raw).hexdigest()[:16], kid), where)
            else:
                self._keys[kid] = Ed25519PublicKey.from_public_bytes(raw)

    def key(self, kid: str, store_id: object) -> Ed25519PublicKey | None:
        """For what is signed beside the journal, in the name of this store."""
        return self._keys.get(kid) if "seals" in self.purposes(kid, store_id) else None

    def kid_at(self, run_id: str | None, kid: str, commit: int | None) -> str:
        """The key that signs in a commit of the run that began with `kid`."""
        for taken in self.successions.get(run_id or "", ()):
            if taken.old_kid == kid and (commit or 0) > taken.commits:
                kid = taken.new_kid
        return kid

    def check_head(self, run_id: str | None, commit: int, body: Hashed) -> Problem | None:
        """A key that was lost is replaced from one head on, and no other."""
        for taken in self.successions.get(run_id or "", ()):
            if taken.commits == commit and taken.head != body.hexdigest():
                what = "the commit at which the run's key was replaced"
                return Problem("KEY_HISTORY", what, taken.head, body.hexdigest())
        return None

    def check(self, kid: str, issuer: str, signed: bytes, signature: bytes, *, is_bound: bool) -> Problem | None:
        """Of a capability; one that `is_bound` says that its engine signs seals."""
        purposes = self.purposes(kid, issuer.removeprefix(ISSUER))
        fits = self.has_signed(kid, signed, signature) if purposes else None
        if fits is False:
            return Problem("CAPABILITY_SIGNATURE", f"the signature does not fit key {kid}")
        if fits:
            self.bound += is_bound
            self.begins_bound = is_bound if self.begins_bound is None else self.begins_bound
        if fits and "capabilities" not in purposes:
            self.unapproved, fits = self.unapproved + 1, None
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
                self.problem = record.of("CAPABILITY_MISMATCH", f"the capability's {attribute}")
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
    )[:32]


def check_capability(
    token: Token,
    run: Run,
    kid: str,
    request: ActionRequest,
    decision: SupervisorDecision,
    ring: KeyRing,
    targets: list[str],
) -> Iterator[Problem]:
    """What is wrong with the capability that a decision minted for `request` and `targets`."""
    if token.header is None or token.claims is None:
        if token.problem is not None:
            yield token.problem
        return
    claims = token.claims
    ring.issuers.add(claims.iss)
    issued, constraints = milliseconds(decision.ts), {"$commit": request.proposal.args.get("$commit")}
    if "$bounds" in claims.constraints.arg_constraints:  # those of before bind the arguments alone
        constraints["$bounds"] = bound(run, request, decision)
    difference = first_difference(
        "CAPABILITY_MISMATCH",
        (
            ("the capability's trace_id", request.trace_id, claims.trace_id),
            ("the capability's plan_id", request.plan_id, claims.plan_id),
            ("the capability's kid", kid, token.header.kid),
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
    is_bound = "$bounds" in claims.constraints.arg_constraints
    unsigned = ring.check(token.header.kid, claims.iss, token.signed, token.signature, is_bound=is_bound)
    if unsigned is not None:
        yield unsigned
