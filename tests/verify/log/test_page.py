"""The bytes on the page about the log are real: each is read, checked, and made again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reenact.errors import DamagedRecord, UsageError
from reenact.values.canonical import canonicalize
from reenact.verify.log.checkpoint import Cosigned, cosigned_by, read_checkpoint, read_checkpoints
from reenact.verify.log.merkle import is_consistent, leaf_hash
from reenact.verify.log.policy import read_policy, write_policy
from reenact.verify.log.proof import read_proof, write_proof
from reenact.verify.signed.signed_note import VerifierKey, read_note, read_vkey, signed_by
from reenact.witness.cosigner import read_request, write_request


@pytest.fixture(scope="module")
def page(root: Path) -> dict[str, bytes]:
    text = (root / "docs" / "spec" / "log.md").read_text(encoding="utf-8")
    return {
        name: body.encode() for name, body in re.findall(r"<!-- log: (\w+) -->\n```text\n(.*?)```", text, re.DOTALL)
    }


@pytest.fixture(scope="module")
def leaf(root: Path) -> bytes:
    text = (root / "docs" / "spec" / "seal.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- bytes: seal -->\n```json\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return canonicalize(json.loads(found[1]))


def keys(page: dict[str, bytes]) -> list[VerifierKey]:
    return [read_vkey(line) for line in page["keys"].decode().splitlines()]


def test_the_seal_leads_to_the_head_that_log_and_witness_signed(page: dict[str, bytes], leaf: bytes) -> None:
    log, witness = keys(page)
    proof = read_proof(page["proof"])
    assert leaf_hash(leaf).hex() == page["leaf_hash"].decode().strip()
    assert proof.root_of(leaf) == proof.checkpoint.head.root
    assert proof.raw == page["checkpoint"]
    assert signed_by(proof.checkpoint.note, log) is True
    assert isinstance(cosigned_by(proof.checkpoint.note, witness), Cosigned)
    assert write_proof(proof.place, proof.path, proof.raw) == page["proof"]
    assert page["checkpoint"].endswith(page["cosignature"])


def test_the_request_shows_that_the_log_goes_on(page: dict[str, bytes], leaf: bytes) -> None:
    request = read_request(page["request"])
    head = request.checkpoint.head
    assert is_consistent((1, leaf_hash(leaf)), (head.size, head.root), request.path)
    assert write_request(request.old, request.path, request.note) == page["request"]


# What C2SP's own pages show.
COSIGNED = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "\u2014 example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "\u2014 witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0"
    "xUe+mbIUBkBIfZ+qnA==\n"
)


def test_the_examples_of_c2sp_are_read() -> None:
    checkpoint = read_checkpoint(COSIGNED.encode())
    assert (checkpoint.head.size, len(checkpoint.note.signatures)) == (20852163, 2)
    assert int.from_bytes(checkpoint.note.signatures[1].signature[:8], "big") == 1679315147, "the time on that page"
    two = read_checkpoints(COSIGNED.encode() * 2 + b"example.com/behind-the-sofa\n2085")
    assert [each.head.size for each in two] == [20852163, 20852163], "and what a crash tore is left out"


@pytest.mark.parametrize(
    "change",
    [
        (b"20852163", b"020852163"),
        (b"20852163", b"-1"),
        (b"20852163", b"9223372036854775808"),
        (b"CsUY", b"CsU"),
        (b"example.com/behind-the-sofa\n2", b"\n2"),
        (b"\n\n", b"\n"),
        (b"q2I=\n", b"q2I=\n\n"),
        (b"\n", b"\r\n"),
    ],
)
def test_what_is_no_checkpoint_is_refused(change: tuple[bytes, bytes]) -> None:
    with pytest.raises(DamagedRecord):
        read_checkpoint(COSIGNED.encode().replace(*change, 1))


def test_a_policy_counts_groups_within_groups(page: dict[str, bytes]) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    def vkey(name: str, number: int, kind: int) -> str:
        raw = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32).public_key().public_bytes_raw()
        return str(VerifierKey(name, kind, raw))

    lines = [f"log {keys(page)[0]}", "# as the page of tlog-policy has it"]
    lines += [f"witness {name}{n} {vkey('w', 3 * k + n, 4)}" for k, name in enumerate("XY") for n in (1, 2, 3)]
    lines += [
        "group X-witnesses 2 X1 X2 X3",
        "\tgroup  Y-witnesses any Y1 Y2 Y3 ",
        "",
        "group X-and-Y all X-witnesses Y-witnesses",
    ]
    policy = read_policy("\n".join([*lines, "quorum X-and-Y\n"]).encode())
    assert policy.is_met({"X1", "X3", "Y2"})
    assert not policy.is_met({"X1", "X2", "X3"})
    assert not policy.is_met({"X1", "Y1", "Y2", "Y3"})
    assert read_policy(write_policy(policy).encode()) == policy
    for wrong, says in [
        ("quorum nobody", "line above"),
        ("group again 1 X1", "in one group"),
        ("group g 4 X-and-Y", "can be needed"),
        ("witness X1 " + vkey("w", 99, 4), "is taken"),
        (f"witness new {vkey('z', 1, 4)}", "twice"),
        ("witness new " + vkey("w", 99, 1), "kind 4"),
        (f"log {keys(page)[0]}", "twice"),
        ("hello", "begins with"),
        ("log x", "verifier key"),
    ]:
        with pytest.raises(UsageError, match=says):
            read_policy("\n".join([*lines, wrong, "quorum X-and-Y"]).encode())
    with pytest.raises(UsageError, match="quorum"):
        read_policy("\n".join(lines).encode())
    with pytest.raises(UsageError, match="control"):
        read_policy(b"quorum none\r\n")


def test_a_note_that_holds_two_words_of_one_witness_counts_only_if_both_are_his(page: dict[str, bytes]) -> None:
    _, witness = keys(page)
    broken = page["cosignature"].replace(b"BpVb", b"BpVc", 1)
    assert broken != page["cosignature"]
    assert cosigned_by(read_note(page["checkpoint"] + broken), witness) is True
