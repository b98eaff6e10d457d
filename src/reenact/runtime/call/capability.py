"""Capabilities: signed tokens (JWS compact, EdDSA) of the calls that were approved, checked before every dispatch."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from binascii import b2a_base64
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from reenact.errors import NotAuthentic
from reenact.journal.chain import encode
from reenact.journal.fold import TraceFold
from reenact.store.signing import SigningKey, has_signed
from reenact.values.threads import build

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call
    from reenact.runtime.run import Run

LIFETIME_S = 300
NO_DISPATCH = ["reenact:no-dispatch"]
"""The targets of an approval under which nothing may be sent: the call is answered from the record."""


class Constraints(Struct, frozen=True, kw_only=True):
    arg_constraints: dict[str, str]
    read_only: bool
    target_allowlist: list[str]
    tool_name: str
    tool_server: str


class Claims(Struct, frozen=True, kw_only=True):
    aud: Literal["reenact"] = "reenact"
    constraints: Constraints
    exp: int
    iat: int
    iss: str
    nonce: str
    plan_id: str
    trace_id: str


class Bindings(Struct):
    """All that an approval holds for."""

    agent: str
    approver: str
    arguments: object
    definition: object
    mode: str
    plan: str | None
    request: object
    run: str
    vote: object


def bindings(call: Call, approver: str, vote: object) -> Bindings:
    """As they stand now; `approver` and `vote` say who gave the approval."""
    run, request = call.run, call.trace.request
    record = run.journal.fold.record
    assert request is not None
    assert record is not None
    meta = request.meta
    assert isinstance(meta, dict)
    definition = meta.get("definition_digest")
    return Bindings(
        run.plan.agent_id, approver, request.proposal.args["$commit"], definition,
        record.mode, record.plan_hash, request.digest, run.run_id, vote,
    )  # fmt: skip


def bound(bindings: Bindings) -> str:
    """The digest of them, which stands in the capability."""
    return sha256(encode(bindings)).hexdigest()[:32]


def check(call: Call) -> None:
    """Before every dispatch: what is about to be sent is what was approved. NotAuthentic where it is not.

    The signature is verified once for a call, unless this process has minted it since it holds the run.
    """
    approved, trace = call.approved, call.trace
    if approved is None:
        approved = call.approved = read_approval(call.run, trace, call.step.server, call.step.tool)
    decided = trace.decision
    if decided is None or decided.decision != "APPROVE":
        raise refused(call.run.run_id, trace, "nobody has approved it")
    now = bindings(call, approver_of(decided.rationale), vote_in(decided.meta))
    if approved and approved != (now if isinstance(approved, Bindings) else bound(now)):
        what = "run, plan, request, arguments, vote, approver, agent, skill definition or mode"
        raise refused(call.run.run_id, trace, f"its approval is for another {what}")


def read_approval(run: Run, trace: TraceFold, server: str, tool: str) -> str:
    """What a recorded approval is bound to, its signature verified; empty for one of before there were bindings."""
    decided, request = trace.decision, trace.request
    if decided is None or request is None or not isinstance(decided.minted_capability, str):
        raise refused(run.run_id, trace, "nobody has approved it")
    claims = run.mint.read(decided.minted_capability)
    if claims is None:
        raise refused(run.run_id, trace, f"its capability is not signed by the run's key {run.mint.kid}")
    limits, constraints = claims.constraints, claims.constraints.arg_constraints
    targets = [resource.id for resource in request.resources]
    wanted = (trace.trace_id, request.plan_id, server, tool, request.proposal.args["$commit"], targets)
    named = (claims.trace_id, claims.plan_id, limits.tool_server, limits.tool_name, constraints.get("$commit"))
    is_read = request.risk_level == "READ" if trace.call is None else trace.call.tool_class == "read"
    of_class = limits.read_only == is_read or (trace.call is None and request.risk_level == "HIGH_RISK")
    if (*named, limits.target_allowlist) != wanted or targets == NO_DISPATCH or not of_class:
        raise refused(run.run_id, trace, "its capability allows another call, or none")
    return constraints.get("$bounds", "")


def refused(run_id: str, trace: TraceFold, why: str) -> NotAuthentic:
    return NotAuthentic(f"run {run_id}, step {trace.step_id}: nothing is sent: {why}; see `reenact verify {run_id}`")


APPROVED_BY = "Approved by "


def approver_of(rationale: str) -> str:
    return rationale.removeprefix(APPROVED_BY) if rationale.startswith(APPROVED_BY) else "key"


def vote_in(meta: object) -> object:
    return meta.get("vote") if isinstance(meta, dict) else None


def permits_dispatch(capability: str) -> bool:
    """Whether anything may be sent under it; False for what only a key's answer was approved by."""
    claims = claims_in(capability)
    return claims is None or claims.constraints.target_allowlist != NO_DISPATCH


def claims_in(capability: str) -> Claims | None:
    """What it says, whoever signed it; None where it cannot be read."""
    _, _, rest = capability.partition(".")
    try:
        return msgspec.json.decode(urlsafe_b64decode(rest.partition(".")[0] + "=="), type=Claims)
    except (msgspec.DecodeError, ValueError):
        return None


URL_SAFE = bytes.maketrans(b"+/", b"-_")


def b64(data: bytes) -> bytes:
    """base64url without padding, RFC 7515."""
    return b2a_base64(data, newline=False).translate(URL_SAFE, b"=")


def header(kid: str) -> bytes:
    return b64(encode({"alg": "EdDSA", "kid": kid, "typ": "JWT"})) + b"."


class Mint:
    """Makes capabilities for one store's key."""

    def __init__(self, signer: SigningKey, store_id: str) -> None:
        self._sign = signer.sign
        self.kid = signer.kid
        self._issuer = f"reenact:{store_id}"
        self._header = header(signer.kid)
        self._keys = {self._header.decode(): signer.public_key}

    def mint(
        self,
        *,
        trace_id: str,
        plan_id: str,
        server: str,
        tool: str,
        commitment: str,
        binds: str,
        targets: list[str],
        read_only: bool,
        now_s: int,
        nonce: str,
    ) -> str:
        claims = Claims(
            constraints=Constraints(
                arg_constraints={"$bounds": binds, "$commit": commitment},
                read_only=read_only,
                target_allowlist=targets,
                tool_name=tool,
                tool_server=server,
            ),
            exp=now_s + LIFETIME_S,
            iat=now_s,
            iss=self._issuer,
            nonce=nonce,
            plan_id=plan_id,
            trace_id=trace_id,
        )
        signed = self._header + b64(encode(claims))
        return (signed + b"." + b64(self._sign(signed))).decode()

    def follow(self, kid: str, public_key: str) -> None:
        """This key took over from one that was lost: what that one had signed goes on."""
        self._keys[header(kid).decode()] = public_key

    def read(self, capability: str) -> Claims | None:
        """What a capability of this store and key says, or of one that it took over from; None for any other."""
        signed, _, signature = capability.rpartition(".")
        public_key = self._keys.get(f"{signed.partition('.')[0]}.")
        if public_key is None:
            return None
        try:
            is_ours = has_signed(public_key, urlsafe_b64decode(signature + "=="), signed.encode())
        except ValueError:
            return None
        claims = claims_in(capability) if is_ours else None
        return claims if claims is not None and claims.iss == self._issuer else None


class Mints:
    """One for each key of a store, made when it is needed."""

    def __init__(self, store_id: str) -> None:
        self._store_id = store_id
        self._made: dict[str, Mint] = {}

    def __getitem__(self, kid: str) -> Mint:
        """Of a key that was used before."""
        return self._made[kid]

    def of(self, key: SigningKey) -> Mint:
        if key.kid not in self._made:
            self._made[key.kid] = Mint(key, self._store_id)
        return self._made[key.kid]


build(Claims)
