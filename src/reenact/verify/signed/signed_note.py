"""Signed notes and verifier keys, as C2SP `signed-note` writes them: a text, a blank line, lines of signatures.

Nothing here signs, and nothing here trusts: keys are bytes, and whoever reads a note says which of them he believes.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reenact.errors import DamagedRecord, UsageError

ED25519: Final = 0x01
COSIGNATURE: Final = 0x04
"""Of a witness, with a time (C2SP `tlog-cosignature`)."""
MAX_NOTE_BYTES: Final = 1 << 20
MAX_SIGNATURES: Final = 100
_DASH: Final = "\u2014 "
_KEY_ID: Final = re.compile(r"[0-9a-f]{8}")


class NoteSignature(NamedTuple):
    """One line below a text: which key, by its name and id, and what it said."""

    name: str
    key_id: bytes
    signature: bytes


class SignedNote(NamedTuple):
    text: bytes
    signatures: tuple[NoteSignature, ...]


class VerifierKey(NamedTuple):
    """A public key with the name that it signs under. `kind` is the byte of its algorithm."""

    name: str
    kind: int
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        return key_id(self.name, self.public_key, self.kind)

    def __str__(self) -> str:
        """As others read it: `name+id+base64`."""
        return f"{self.name}+{self.key_id.hex()}+{b64encode(bytes((self.kind,)) + self.public_key).decode()}"


def key_id(name: str, public_key: bytes, kind: int = ED25519) -> bytes:
    """The four bytes that stand before a signature. They find a key; they prove nothing."""
    return sha256(b"%b\n%c%b" % (name.encode(), kind, public_key)).digest()[:4]


def is_key_name(name: str) -> bool:
    return 0 < len(name) <= 256 and name.isprintable() and "+" not in name and not any(map(str.isspace, name))


def read_vkey(text: str) -> VerifierKey:
    """A verifier key; UsageError for any text that is none, or whose id is not that of its key."""
    name, plus, rest = text.partition("+")
    given, second, encoded = rest.partition("+")
    if not (plus and second and is_key_name(name) and _KEY_ID.fullmatch(given)):
        raise UsageError("a verifier key is written NAME+8 HEX DIGITS+BASE64")
    raw = from_base64(encoded)
    if raw is None or len(raw) < 2:
        raise UsageError("the last part of a verifier key is the base64 of its kind and its bytes")
    key = VerifierKey(name, raw[0], raw[1:])
    if key.kind in (ED25519, COSIGNATURE) and len(key.public_key) != 32:
        raise UsageError(f"an Ed25519 key has 32 bytes, not {len(key.public_key)}")
    if key.key_id.hex() != given:
        raise UsageError(f"the id of this verifier key is {key.key_id.hex()}, not {given}: it was changed on its way")
    return key


def signature_line(name: str, key_id: bytes, signature: bytes) -> bytes:
    return f"{_DASH}{name} {b64encode(key_id + signature).decode()}\n".encode()


def write_note(text: bytes, signatures: Iterable[NoteSignature]) -> bytes:
    """The whole note; `text` ends with a newline."""
    return text + b"\n" + b"".join(signature_line(*each) for each in signatures)


def read_note(data: bytes) -> SignedNote:
    """Text and signatures, of which none is checked; DamagedRecord where the bytes are no signed note."""
    if len(data) > MAX_NOTE_BYTES:
        raise DamagedRecord(f"a signed note has at most {MAX_NOTE_BYTES} bytes")
    try:
        whole = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedRecord(f"a signed note is UTF-8; byte {error.start} is not") from None
    control = next((c for c in whole if c < " " and c != "\n"), None)
    if control is not None:
        raise DamagedRecord(f"a signed note has no control character, and this has {control!r}")
    text, blank, below = whole.rpartition("\n\n")
    if not blank or not below.endswith("\n"):
        raise DamagedRecord("a signed note is a text, an empty line, and lines of signatures")
    lines = below[:-1].split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise DamagedRecord(f"a signed note has at most {MAX_SIGNATURES} signatures")
    return SignedNote(f"{text}\n".encode(), tuple(map(_read_signature, lines)))


def _read_signature(line: str) -> NoteSignature:
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    raw = from_base64(encoded)
    if not line.startswith(_DASH) or not space or not is_key_name(name) or raw is None or len(raw) < 5:
        raise DamagedRecord("below the empty line of a signed note each line is a dash, a key's name, and base64")
    return NoteSignature(name, raw[:4], raw[4:])


def signed_by(note: SignedNote, key: VerifierKey) -> bool | None:
    """Whether this Ed25519 key signed the text, in each line that is its; None where none is."""
    lines = [each for each in note.signatures if (each.name, each.key_id) == (key.name, key.key_id)]
    if key.kind != ED25519 or not lines:
        return None
    return all(is_signature(key.public_key, each.signature, note.text) for each in lines)


def is_signature(public_key: bytes, signature: bytes, text: bytes) -> bool:
    """Whether this Ed25519 key, 32 bytes, signed the text."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def from_base64(text: str) -> bytes | None:
    """The bytes that `text` spells, with padding; None for any other spelling of them."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return None
    return data if b64encode(data).decode() == text else None
