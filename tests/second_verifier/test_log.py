"""The log in the second verifier: proofs, cosignatures, policies and heads that a reader kept, judged as by ours."""

from __future__ import annotations

import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256 as SHA256Hash
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from reenact.cli.commands.log.believing import believed
from reenact.errors import UsageError
from reenact.verify import verify_bundle
from reenact.verify.log import der
from reenact.verify.log.timestamp import (
    CONTENT_TYPE,
    MESSAGE_DIGEST,
    SHA256,
    SIGNED_DATA,
    SIGNING_CERTIFICATE_V2,
    TST_INFO,
    read_response,
    write_request,
)
from reenact.verify.signed.signed_note import COSIGNATURE, ED25519, VerifierKey, signature_line
from tests.second_verifier.both import SCRIPT, comparable, node, second, spoken
from tests.second_verifier.bundles import Files, real
from tests.verify.changing import read_folder, remade, write_folder
from tests.witness.test_stamping import CURVE, RSA, Authority

WITNESS = Ed25519PrivateKey.from_private_bytes(b"w" * 32)
VKEY = VerifierKey("w.example/1", COSIGNATURE, WITNESS.public_key().public_bytes_raw())
PROOF, STAMP = "seal.tlog-proof", "seal.tsr"
TIME = 1_767_225_700


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return real(tmp_path_factory.mktemp("real") / "made")["planned"]


def head_of(proof: bytes) -> bytes:
    """The checkpoint in a proof."""
    return proof.partition(b"\n\n")[2]


def cosigned(proof: bytes, *, text: bytes | None = None) -> bytes:
    said = text or head_of(proof).rpartition(b"\n\n")[0] + b"\n"
    signature = WITNESS.sign(b"cosignature/v1\ntime %d\n" % TIME + said)
    return proof + signature_line(VKEY.name, VKEY.key_id, TIME.to_bytes(8, "big") + signature)


def policy(folder: Path, quorum: str = "g") -> Path:
    other = VerifierKey("other.example", COSIGNATURE, bytes(32))
    lines = (f"witness w {VKEY}", f"witness o {other}", "group g any w o", "group h all g", f"quorum {quorum}")
    (folder / "policy").write_text("\n".join(lines) + "\n")
    return folder / "policy"


def judged(
    files: Files, folder: Path, policy: Path | None = None, kept: Path | None = None, *, cover: bool = True
) -> tuple[str, list[str]]:
    """(the verdict, what was found), by both."""
    there = write_folder(folder / "bundle", remade(files) if cover else files)
    report = verify_bundle(there, believed=believed(policy, [] if kept is None else [kept], None))
    words = [*(["--witness-policy", str(policy)] if policy else []), *(["--checkpoint", str(kept)] if kept else [])]
    (theirs,) = second([there], *words)
    theirs.pop("exit_code")
    assert comparable(msgspec.json.decode(msgspec.json.encode(report))) == comparable(theirs)
    return theirs["anchoring"], [finding["code"] for finding in theirs["findings"]]


def test_a_proof_alone_is_nobodys_word(bundle: Files, tmp_path: Path) -> None:
    assert judged(bundle, tmp_path) == ("absent", [])


@pytest.mark.parametrize(
    ("quorum", "verdict"), [("g", "holds"), ("h", "holds"), ("w", "holds"), ("o", "absent"), ("none", "holds")]
)
def test_witnesses_are_counted_as_the_policy_says(bundle: Files, tmp_path: Path, quorum: str, verdict: str) -> None:
    files = {**bundle, PROOF: cosigned(bundle[PROOF])}
    assert judged(files, tmp_path, policy(tmp_path, quorum)) == (verdict, [])


LOG = VerifierKey("reenact/x", ED25519, bytes(31) + b"x")
NO_POLICIES = {
    "a witness under two names": f"witness w {VKEY}\nwitness x {VKEY}\ngroup g 2 w x\nquorum g\n",
    "a member twice": f"witness w {VKEY}\ngroup g 2 w w\nquorum g\n",
    "a member of two groups": f"witness w {VKEY}\ngroup g any w\ngroup h any w\ngroup k 2 g h\nquorum k\n",
    "two quorums": f"witness w {VKEY}\nquorum w\nquorum none\n",
    "a witness named none": f"witness none {VKEY}\nquorum none\n",
    "a log twice": f"log {LOG}\nlog {LOG}\nwitness w {VKEY}\nquorum w\n",
    "a witness as a log": f"log {VKEY}\nwitness w {VKEY}\nquorum w\n",
    "a log as a witness": f"witness w {LOG}\nquorum w\n",
    "a count of another world": f"witness w {VKEY}\ngroup g constructor w\nquorum g\n",
    "a word too many": f"witness w {VKEY} http://w https://w\nquorum w\n",
    "a control character": f"witness w {VKEY}\r\nquorum w\r\n",
    "too many lines": f"witness w {VKEY}\nquorum w\n" + "\n" * 1000,
    "too many bytes": f"witness w {VKEY}\nquorum w\n#" + "x" * (1 << 18),
    "no quorum": f"witness w {VKEY}\n",
}


@pytest.mark.parametrize("name", NO_POLICIES)
def test_nobody_counts_twice_in_a_policy_and_what_is_none_is_refused(name: str, bundle: Files, tmp_path: Path) -> None:
    """By both in the same words: one witness under two names was once said to be two of two by the second."""
    folder = write_folder(tmp_path / "bundle", remade({**bundle, PROOF: cosigned(bundle[PROOF])}))
    file = tmp_path / "policy"
    file.write_text(NO_POLICIES[name], newline="")
    with pytest.raises(UsageError) as refused:
        believed(file, [], None)
    words = [node(), SCRIPT, folder, "--witness-policy", file]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"verify.mjs: {refused.value}")


def test_a_cosignature_for_another_head_is_found(bundle: Files, tmp_path: Path) -> None:
    files = {**bundle, PROOF: cosigned(bundle[PROOF], text=b"another\n")}
    assert judged(files, tmp_path, policy(tmp_path)) == ("contradicted", ["LOG_SIGNATURE"])


def test_a_kept_head_is_enough_and_another_one_contradicts(bundle: Files, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(head_of(bundle[PROOF]) * 2)
    assert judged(bundle, tmp_path / "same", kept=kept) == ("holds", [])
    lines = head_of(bundle[PROOF]).split(b"\n")
    lines[2] = b64encode(bytes(32))
    kept.write_bytes(b"\n".join(lines))
    assert judged(bundle, tmp_path / "other", kept=kept) == ("contradicted", ["LOG_CONTRADICTED"])
    lines[1] = b"77"
    kept.write_bytes(b"\n".join(lines))
    assert judged(bundle, tmp_path / "longer", kept=kept) == ("absent", [])
    lines[0] = b"reenact/another"
    kept.write_bytes(b"\n".join(lines))
    assert judged(bundle, tmp_path / "foreign", kept=kept) == ("contradicted", ["LOG_CONTRADICTED"])


CHANGES = {
    "no proof": b"",
    "another name": (b"c2sp.org/tlog-proof@v1", b"c2sp.org/tlog-proof@v2"),
    "another place": (b"index 0", b"index 1"),
    "a place beyond": (b"index 0", b"index 400"),
    "a long place": (b"index 0", b"index 00"),
    "extra data": (b"index 0", b"extra AAAA\nindex 0"),
    "extra data that is none": (b"index 0", b"extra A\nindex 0"),
    "another size": (b"\n", b"\n1"),
    "another log": (b"\nreenact/", b"\nreenact/x"),
    "another dash": ("—".encode(), b"--"),
    "a control character": (b"index 0", b"index 0\r"),
    "no signature": ("\n— reenact".encode(), "\n\n— reenact".encode()),
}


def changed_proof(proof: bytes, name: str) -> bytes:
    change = CHANGES[name]
    if name == "another size":
        origin, size, rest = head_of(proof).split(b"\n", 2)
        return proof.replace(head_of(proof), b"\n".join((origin, size + b"1", rest)))
    return change if isinstance(change, bytes) else proof.replace(change[0], change[1], 1)


def test_changed_proofs_are_judged_alike(bundle: Files, tmp_path: Path) -> None:
    file, folders = policy(tmp_path), []
    for name in CHANGES:
        proof = changed_proof(bundle[PROOF], name)
        assert proof != bundle[PROOF], name
        folders.append(write_folder(tmp_path / name, remade({**bundle, PROOF: proof})))
    for name, folder, theirs in zip(CHANGES, folders, second(folders, "--witness-policy", str(file)), strict=True):
        theirs.pop("exit_code")
        report = verify_bundle(folder, believed=believed(file, [], None))
        assert comparable(msgspec.json.decode(msgspec.json.encode(report))) == comparable(theirs), name
        assert theirs["anchoring"] == ("absent" if name == "extra data" else "contradicted"), name


def test_both_say_who_saw_it_and_when(bundle: Files, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "bundle", remade({**bundle, PROOF: cosigned(bundle[PROOF])}))
    ours, theirs = spoken(folder, policy=policy(tmp_path))
    assert ours == theirs
    assert ours[-1] == "anchoring     holds   (1 of 2 witnesses, 2026-01-01T00:01:40Z)"


# -- time stamps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stamp", [b"", b"garbage", b"\x30\x00", bytes.fromhex("30053003020102"), bytes(1 << 17)])
def test_what_is_no_time_stamp_is_found(stamp: bytes, bundle: Files, tmp_path: Path) -> None:
    assert judged({**bundle, STAMP: stamp}, tmp_path) == ("contradicted", ["LOG_PROOF"])


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed: no authority")


def stamped(bundle: Files, authority: Authority, folder: Path) -> Path:
    text = head_of(bundle[PROOF]).rpartition(b"\n\n")[0] + b"\n"
    return write_folder(folder, remade({**bundle, STAMP: authority.reply(write_request(text, 7))}))


def said_with(roots: list[Path], *folders: Path) -> list[tuple[str, list[str], list[str]]]:
    """(the verdict, the times that count, notes about stamps) of each, by both."""
    words = [word for path in roots for word in ("--tsa-ca", str(path))]
    found = []
    for folder, theirs in zip(folders, second(folders, *words), strict=True):
        theirs.pop("exit_code")
        report = verify_bundle(folder, believed=believed(None, [], roots))
        assert comparable(msgspec.json.decode(msgspec.json.encode(report))) == comparable(theirs), folder.name
        notes = [note for note in theirs["notes"] if "time stamp" in note]
        assert notes == [note for note in report.notes if "time stamp" in note]
        found.append((theirs["anchoring"], (theirs["anchor"] or {"stamped": []})["stamped"], notes))
    return found


@needs_openssl
@pytest.mark.parametrize("kind", [RSA, CURVE], ids=["rsa", "curve"])
def test_an_authority_that_the_reader_names_is_enough(bundle: Files, tmp_path: Path, kind: tuple[str, ...]) -> None:
    authority, other = Authority(tmp_path / "tsa", kind=kind), Authority(tmp_path / "other", kind=CURVE)
    folder = stamped(bundle, authority, tmp_path / "bundle")
    ((verdict, times, notes),) = said_with([authority.folder / "ca.pem"], folder)
    assert (verdict, len(times), notes) == ("holds", 1, [])
    ours, theirs = spoken(folder, roots=[authority.folder / "ca.pem"])
    assert ours == theirs
    assert ours[-1] == f"anchoring     holds   (time stamp of {times[0]})"
    both = [other.folder / "ca.pem", authority.folder / "ca.pem"]
    assert said_with(both, folder)[0][0] == "holds"
    ((verdict, times, notes),) = said_with([other.folder / "ca.pem"], folder)
    assert (verdict, times) == ("absent", [])
    assert notes[0].endswith("no certificate that is trusted vouches for the authority")
    ((verdict, times, notes),) = said_with([authority.folder / "tsa.pem"], folder)
    assert (verdict, len(times)) == ("holds", 1), "the certificate itself may be named"


@needs_openssl
@pytest.mark.parametrize("usage", ["timeStamping", "critical,timeStamping,clientAuth", "critical,clientAuth"])
def test_a_certificate_for_something_else_vouches_for_no_time(bundle: Files, tmp_path: Path, usage: str) -> None:
    """OpenSSL signs with none but the right kind, so the stamp is signed here."""
    authority = Authority(tmp_path / "tsa", kind=CURVE)
    folder = authority.folder
    (folder / "ext").write_text(f"extendedKeyUsage={usage}\n")
    signs = ("-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", "77", "-days", "2", "-extfile", "ext")
    authority.openssl("x509", "-req", "-in", "tsa.csr", "-out", "weak.pem", *signs)
    good = read_folder(stamped(bundle, authority, tmp_path / "good"))
    files = {**good, STAMP: signed_again(good[STAMP], folder / "weak.pem", folder / "tsa.key")}
    ((verdict, times, notes),) = said_with([folder / "ca.pem"], write_folder(tmp_path / "weak", remade(files)))
    assert (verdict, times, len(notes)) == ("absent", [], 1)
    assert "is not one for time stamps alone" in notes[0]


def signed_again(answer: bytes, certificate: Path, key: Path) -> bytes:
    """The same stamp, by another certificate."""
    stamp, write = read_response(answer), der.write
    made_by = load_pem_x509_certificate(certificate.read_bytes())
    raw = made_by.public_bytes(Encoding.DER)

    def sequence(*parts: bytes) -> bytes:
        return write(der.SEQUENCE, b"".join(parts))

    def attribute(oid: bytes, value: bytes) -> bytes:
        return sequence(write(der.OID, oid), write(der.SET, value))

    attributes = b"".join((
        attribute(CONTENT_TYPE, write(der.OID, TST_INFO)),
        attribute(MESSAGE_DIGEST, write(der.OCTETS, sha256(stamp.info).digest())),
        attribute(SIGNING_CERTIFICATE_V2, sequence(sequence(sequence(write(der.OCTETS, sha256(raw).digest()))))),
    ))  # fmt: skip
    private = load_pem_private_key(key.read_bytes(), None)
    assert isinstance(private, EllipticCurvePrivateKey)
    algorithm = sequence(write(der.OID, SHA256))
    named = sequence(made_by.issuer.public_bytes(), der.write_number(made_by.serial_number))
    signer = sequence(
        der.write_number(1), named, algorithm,
        write(0xA0, attributes), sequence(write(der.OID, bytes.fromhex("2a8648ce3d040302"))),
        write(der.OCTETS, private.sign(write(der.SET, attributes), ECDSA(SHA256Hash()))),
    )  # fmt: skip
    content = sequence(write(der.OID, TST_INFO), write(0xA0, write(der.OCTETS, stamp.info)))
    signed = sequence(der.write_number(3), write(der.SET, algorithm), content, write(0xA0, raw), write(der.SET, signer))
    granted = sequence(der.write_number(0))
    return sequence(granted, sequence(write(der.OID, SIGNED_DATA), write(0xA0, signed)))


@needs_openssl
def test_a_chain_through_another_authority_is_followed_and_one_that_is_no_ca_is_not(
    bundle: Files, tmp_path: Path
) -> None:
    folders = []
    for name, is_ca in (("ca", "TRUE"), ("none", "FALSE")):
        authority = Authority(tmp_path / name, kind=CURVE)
        authority.put_between(is_ca)
        folders.append(stamped(bundle, authority, tmp_path / f"{name}-bundle"))
        (verdict, times, _) = said_with([authority.folder / "ca.pem"], folders[-1])[0]
        assert (verdict, len(times)) == (("holds", 1) if is_ca == "TRUE" else ("absent", 0))


@needs_openssl
def test_changed_time_stamps_are_judged_alike(bundle: Files, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tsa", kind=CURVE)
    text = head_of(bundle[PROOF]).rpartition(b"\n\n")[0] + b"\n"
    good = authority.reply(write_request(text, 7))
    assert judged({**bundle, STAMP: good}, tmp_path / "good") == ("absent", [])
    other = authority.reply(write_request(b"something else", 7))
    assert judged({**bundle, STAMP: other}, tmp_path / "other") == ("contradicted", ["LOG_SIGNATURE"])
    folders = []
    for place in range(0, len(good), 7):
        changed = bytearray(good)
        changed[place] ^= 1 << place % 8
        folders.append(write_folder(tmp_path / str(place), remade({**bundle, STAMP: bytes(changed)})))
    said_with([], *folders[::3])
    found = said_with([authority.folder / "ca.pem"], *folders)
    assert {verdict for verdict, _, _ in found} >= {"holds", "contradicted"}
