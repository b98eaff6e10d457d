"""A key that somebody else keeps: a command that signs. docs/howto/look_after_the_keys.md.

`COMMAND public` writes the 32 bytes of the Ed25519 public key to stdout; `COMMAND sign` reads a text from stdin and
writes the 64 bytes of its signature. What else it has to say goes to stderr; an exit code other than 0 is a refusal.
"""

from __future__ import annotations

import subprocess
from base64 import urlsafe_b64encode
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reenact.errors import KeyUnavailable, StoreUnavailable
from reenact.store.private_file import make_private_file, read_private_file
from reenact.store.signing import MAC_INFO, BegunMac, SignFirst, SigningKey, derived
from reenact.values.threads import once

LONGEST_S = 30
MOST_TRIES, MOST_INSIDE, MOST_KEPT = 20, 20, 100
MAC_WHAT = "the key for message authentication"


class CommandKey(SigningKey):
    """What it signs is checked at once: a wrong signature on record would be found too late."""

    def __init__(self, command: Path, mac_file: Path) -> None:
        self.command = command
        self.mac_file = mac_file
        raw = self._ask("public", b"", 32)
        self._public = Ed25519PublicKey.from_public_bytes(raw)
        self.kid = sha256(raw).hexdigest()[:16]
        self.kid_bytes = bytes.fromhex(self.kid)
        self.public_key = urlsafe_b64encode(raw).rstrip(b"=").decode()
        self.sign = self._sign
        self.sign_at_once = self._sign_at_once
        self._signed: dict[bytes, bytes] = {}
        """What was signed for a transaction that is begun again."""
        self._inside = 0
        """How many texts may be signed inside a transaction now."""

    def _sign_at_once(self, data: bytes) -> bytes:
        """What was signed before the transaction was begun again.

        Inside it only where others were faster each time: a seal names the one before it, so that what was signed for
        one place is worth nothing at the next.
        """
        signature = self._signed.get(data)
        if signature is not None:
            return signature
        if not self._inside:
            raise SignFirst(partial(self._sign_first, data))
        self._inside -= 1
        return self._sign(data)

    def _sign_first(self, data: bytes, tries: int) -> None:
        self._inside = MOST_INSIDE if tries >= MOST_TRIES else 0
        while len(self._signed) >= MOST_KEPT:
            del self._signed[next(iter(self._signed))]
        self._signed[data] = self._sign(data)

    def _sign(self, data: bytes) -> bytes:
        signature = self._ask("sign", data, 64)
        try:
            self._public.verify(signature, data)
        except InvalidSignature:
            raise StoreUnavailable(f"{self.command} sign: this is no signature of its key {self.kid}") from None
        return signature

    def _ask(self, verb: str, said: bytes, size: int) -> bytes:
        try:
            done = subprocess.run(  # noqa: S603 - the host names the command
                [self.command, verb], input=said, stdout=subprocess.PIPE, timeout=LONGEST_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise StoreUnavailable(f"{self.command} {verb}: no answer within {LONGEST_S} s") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise StoreUnavailable(f"{self.command} cannot be started: {reason}") from None
        if done.returncode != 0:
            raise StoreUnavailable(f"{self.command} {verb}: it refused, with exit code {done.returncode}")
        if len(done.stdout) != size:
            raise StoreUnavailable(f"{self.command} {verb}: {size} bytes were expected, not {len(done.stdout)}")
        return done.stdout

    @once
    def mac(self) -> BegunMac:
        """Of a file of its own, since the command gives nothing of its key away."""
        try:
            seed = read_private_file(self.mac_file, MAC_WHAT).strip()
        except FileNotFoundError:
            raise KeyUnavailable(
                f"{self.mac_file}, which goes with key {self.kid}, is not here; put it back from a backup", kid=self.kid
            ) from None
        return BegunMac(derived(seed, MAC_INFO))

    def make_mac_key(self) -> None:
        """One for all commands that sign for the store; one that is there is kept."""
        seed = token_hex(32)  # reenact: ignore[RN202] a key is nobody's to repeat
        make_private_file(self.mac_file, f"{seed}\n".encode(), MAC_WHAT)
