"""A time stamp of RFC 3161: an authority's signed word that some bytes were there at a time.

Checked: that it is granted, over these bytes (SHA-256), signed as its certificate says (RSA with PKCS #1 v1.5, ECDSA or
Ed25519), that the certificate is one for time stamps and nothing else, and that a chain of certificates leads from it
to one that the reader trusts, each valid at the time of the stamp and each issuer a CA. Not checked: whether one was
revoked, name constraints, and policies.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from reenact.errors import DamagedRecord
from reenact.verify.log import der
from reenact.verify.log.der import Value

MAX_STAMP_BYTES: Final = 1 << 16
LONGEST_CHAIN: Final = 8
SIGNED_DATA: Final = bytes.fromhex("2a864886f70d010702")
TST_INFO: Final = bytes.fromhex("2a864886f70d0109100104")
CONTENT_TYPE: Final = bytes.fromhex("2a864886f70d010903")
MESSAGE_DIGEST: Final = bytes.fromhex("2a864886f70d010904")
SIGNING_CERTIFICATE_V1: Final = bytes.fromhex("2a864886f70d010910020c")
SIGNING_CERTIFICATE_V2: Final = bytes.fromhex("2a864886f70d010910022f")
SHA256: Final = bytes.fromhex("608648016503040201")
DIGESTS: Final[dict[bytes, type[hashes.HashAlgorithm]]] = {
    SHA256: hashes.SHA256,
    bytes.fromhex("608648016503040202"): hashes.SHA384,
    bytes.fromhex("608648016503040203"): hashes.SHA512,
}


UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension)
"""What a certificate raises that is none."""


class Stamp(NamedTuple):
    imprint: bytes
    time: datetime
    nonce: int | None
    info: bytes
    signer: Value
    certificates: tuple[x509.Certificate, ...]


def write_request(data: bytes, nonce: int) -> bytes:
    """TimeStampReq, which asks for the certificate to come along."""
    algorithm = der.write(der.SEQUENCE, der.write(der.OID, SHA256) + der.write(der.NULL, b""))
    imprint = der.write(der.SEQUENCE, algorithm + der.write(der.OCTETS, sha256(data).digest()))
    asks = der.write(der.BOOLEAN, b"\xff")
    return der.write(der.SEQUENCE, der.write_number(1) + imprint + der.write_number(nonce) + asks)


def read_response(data: bytes) -> Stamp:
    """TimeStampResp with a stamp in it; DamagedRecord, which says why, otherwise. Nothing is checked yet."""
    if len(data) > MAX_STAMP_BYTES:
        raise DamagedRecord(f"a time stamp has at most {MAX_STAMP_BYTES} bytes")
    parts = der.whole(data).parts(der.SEQUENCE)
    status = parts[0].parts(der.SEQUENCE) if parts else []
    granted = status[0].number() if status else None
    if granted not in (0, 1) or len(parts) != 2:
        raise DamagedRecord(f"the authority gave no time stamp (status {granted})")
    kind, content = _two(parts[1])
    if kind.content != SIGNED_DATA or content.tag != 0xA0:
        raise DamagedRecord("a time stamp is signed data, and this is something else")
    return _signed(der.whole(content.content))


def _signed(data: Value) -> Stamp:
    parts = data.parts(der.SEQUENCE)
    if len(parts) < 4:
        raise DamagedRecord("a time stamp is not built as RFC 3161 says")
    kind, wrapped = _two(parts[2])
    signers = parts[-1].parts(der.SET)
    if kind.content != TST_INFO or wrapped.tag != 0xA0 or len(signers) != 1:
        raise DamagedRecord("a time stamp has one signature over what RFC 3161 calls TSTInfo")
    info = der.whole(wrapped.content)
    if info.tag != der.OCTETS:
        raise DamagedRecord("a time stamp is not built as RFC 3161 says")
    found = []
    for raw in next((part.parts() for part in parts[3:-1] if part.tag == 0xA0), []):
        with suppress(*UNREADABLE):  # one that nobody can read vouches for nothing
            found.append(x509.load_der_x509_certificate(raw.raw))
    return _info(info.content, signers[0], tuple(found))


def _info(raw: bytes, signer: Value, certificates: tuple[x509.Certificate, ...]) -> Stamp:
    parts = der.whole(raw).parts(der.SEQUENCE)
    if len(parts) < 5 or parts[4].tag != der.TIME:
        raise DamagedRecord("a time stamp is not built as RFC 3161 says")
    algorithm, imprint = _two(parts[2])
    if algorithm.parts(der.SEQUENCE)[:1] and algorithm.parts()[0].content != SHA256:
        raise DamagedRecord("the time stamp is over another digest than SHA-256")
    nonce = next((part.number() for part in parts[5:] if part.tag == der.INTEGER), None)
    return Stamp(imprint.content, _time(parts[4].content), nonce, raw, signer, certificates)


def _two(value: Value) -> tuple[Value, Value]:
    parts = value.parts(der.SEQUENCE)
    if len(parts) != 2:
        raise DamagedRecord("a time stamp is not built as RFC 3161 says")
    return parts[0], parts[1]


def _time(raw: bytes) -> datetime:
    try:
        text = raw.decode("ascii")
        return datetime.strptime(text[:14] + text[-1:], "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise DamagedRecord("the time of the time stamp cannot be read") from None


def forged(stamp: Stamp, data: bytes) -> str | None:
    """Why it is no stamp over `data` by the certificate that it names; None where it is."""
    if stamp.imprint != sha256(data).digest():
        return "the time stamp is over something else"
    try:
        return _signature(stamp, _signer(stamp))
    except DamagedRecord as damage:
        return str(damage)
    except (*UNREADABLE, IndexError):
        return "a certificate of the time stamp cannot be read"


def untrusted(stamp: Stamp, roots: tuple[x509.Certificate, ...]) -> str | None:
    """Why the certificate that it names is none to believe for whoever trusts `roots`; None where it is."""
    try:
        certificate = _signer(stamp)
        return _purpose(certificate) or _chain(certificate, stamp, roots)
    except DamagedRecord as damage:
        return str(damage)
    except UNREADABLE:
        return "a certificate of the time stamp cannot be read"


def _signer(stamp: Stamp) -> x509.Certificate:
    """By issuer and serial number, and no other one: the signed attributes name it too."""
    sid = stamp.signer.parts(der.SEQUENCE)[1]
    if sid.tag != der.SEQUENCE:
        raise DamagedRecord("the time stamp does not name its certificate by issuer and number")
    issuer, serial = _two(sid)
    for certificate in stamp.certificates:
        if certificate.issuer.public_bytes() == issuer.raw and certificate.serial_number == serial.number():
            return certificate
    raise DamagedRecord("the certificate of the authority did not come with the time stamp")


def _signature(stamp: Stamp, certificate: x509.Certificate) -> str | None:
    parts = stamp.signer.parts(der.SEQUENCE)
    if len(parts) < 6 or parts[3].tag != 0xA0:
        return "the time stamp has no signed attributes"
    algorithm = DIGESTS.get(parts[2].parts(der.SEQUENCE)[0].content)
    if algorithm is None:
        return "the time stamp is signed with a digest that is not read here"
    attributes = {kind.content: values.parts(der.SET) for kind, values in map(_two, parts[3].parts())}
    digest = hashes.Hash(algorithm())
    digest.update(stamp.info)
    said = attributes.get(MESSAGE_DIGEST, [])
    if [value.content for value in attributes.get(CONTENT_TYPE, [])] != [TST_INFO]:
        return "the signature is not one of a time stamp"
    if [value.content for value in said] != [digest.finalize()]:
        return "the signature is over another time stamp"
    if not _names(attributes, certificate):
        return "the signature names another certificate"
    text = der.write(der.SET, parts[3].content)
    return None if _is_signed(certificate, parts[5].content, text, algorithm()) else "its signature does not fit"


def _names(attributes: dict[bytes, list[Value]], certificate: x509.Certificate) -> bool:
    """Whether the signed attribute that binds the certificate is there and binds this one (RFC 5035, RFC 5816)."""
    for kind, algorithm in ((SIGNING_CERTIFICATE_V2, hashes.SHA256()), (SIGNING_CERTIFICATE_V1, hashes.SHA1())):  # noqa: S303
        for value in attributes.get(kind, []):
            first = value.parts(der.SEQUENCE)[0].parts(der.SEQUENCE)[0].parts(der.SEQUENCE)
            used: hashes.HashAlgorithm = algorithm
            if first and first[0].tag == der.SEQUENCE:
                named = DIGESTS.get(first[0].parts()[0].content)
                if named is None:
                    return False
                used = named()
                first = first[1:]
            if first and first[0].tag == der.OCTETS and first[0].content == certificate.fingerprint(used):
                return True
    return False


def _is_signed(certificate: x509.Certificate, signature: bytes, text: bytes, algorithm: hashes.HashAlgorithm) -> bool:
    key = certificate.public_key()
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, text, padding.PKCS1v15(), algorithm)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, text, ec.ECDSA(algorithm))
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, text)
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _purpose(certificate: x509.Certificate) -> str | None:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except x509.ExtensionNotFound:
        return "its certificate is none for time stamps"
    is_only = list(usage.value) == [ExtendedKeyUsageOID.TIME_STAMPING]
    return None if is_only and usage.critical else "its certificate is not one for time stamps alone"


def _chain(certificate: x509.Certificate, stamp: Stamp, roots: tuple[x509.Certificate, ...]) -> str | None:
    """From the authority's certificate to one of the roots."""
    current = certificate
    for _ in range(LONGEST_CHAIN):
        if not current.not_valid_before_utc <= stamp.time <= current.not_valid_after_utc:
            return "a certificate of the time stamp was not valid then"
        if current in roots:
            return None
        issuer = next((each for each in (*roots, *stamp.certificates) if _issued(current, each)), None)
        if issuer is None:
            return "no certificate that is trusted vouches for the authority"
        current = issuer
    return "the chain of certificates is too long"


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    if certificate == issuer:
        return False
    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
        certificate.verify_directly_issued_by(issuer)
    except (*UNREADABLE, InvalidSignature, x509.ExtensionNotFound):
        return False
    return bool(constraints.ca)
