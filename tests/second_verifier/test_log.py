"""The log in the second verifier: proofs, cosignatures, policies and heads that a reader kept, judged as by ours."""

from __future__ import annotations

import shutil
from base64 import b64encode
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reenact.cli.commands.log.believing import believed
from reenact.verify import verify_bundle
from reenact.verify.log.timestamp import write_request
from reenact.verify.signed.signed_note import COSIGNATURE, VerifierKey, signature_line
from tests.second_verifier.both import comparable, second, spoken
from tests.second_verifier.bundles import Files, real
from tests.verify.changing import remade, write_folder
from tests.witness.test_stamping import CURVE, Authority

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


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed: no authority to ask")
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
    for folder, theirs in zip(folders, second(folders), strict=True):
        theirs.pop("exit_code")
        report = verify_bundle(folder)
        assert comparable(msgspec.json.decode(msgspec.json.encode(report))) == comparable(theirs), folder.name
