"""Capabilities: signed tokens that name the call that was approved. JWS compact, EdDSA."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from binascii import b2a_base64
from typing import Literal

import msgspec
from msgspec import Struct

from reenact.journal.chain import encode
from reenact.store.signing import SigningKey

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


def permits_dispatch(capability: str) -> bool:
    """Whether anything may be sent under it; False for what only a key's answer was approved by, or nobody."""
    _, _, rest = capability.partition(".")
    claims = urlsafe_b64decode(rest.partition(".")[0] + "==")
    try:
        return msgspec.json.decode(claims, type=Claims).constraints.target_allowlist != NO_DISPATCH
    except msgspec.DecodeError:
        return False


URL_SAFE = bytes.maketrans(b"+/", b"-_")


def b64(data: bytes) -> bytes:
    """base64url without padding, RFC 7515."""
    return b2a_base64(data, newline=False).translate(URL_SAFE, b"=")


class Mint:
    """Makes capabilities for one store's key."""

    def __init__(self, signer: SigningKey, store_id: str) -> None:
        self._sign = signer.sign
        self.kid = signer.kid
        self._issuer = f"reenact:{store_id}"
        self._header = b64(encode({"alg": "EdDSA", "kid": signer.kid, "typ": "JWT"})) + b"."

    def mint(
        self,
        *,
        trace_id: str,
        plan_id: str,
        server: str,
        tool: str,
        commitment: str,
        targets: list[str],
        read_only: bool,
        now_s: int,
        nonce: str,
    ) -> str:
        claims = Claims(
            constraints=Constraints(
                arg_constraints={"$commit": commitment},
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
