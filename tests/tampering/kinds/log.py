"""The run's place in the store's log: the proof, its head, who signed that, and who saw it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tools.vectors.pieces import public_bytes

from reenact.verify.log.proof import write_proof
from reenact.verify.signed.signed_note import key_id, signature_line
from tests.tampering.evidence import (
    ORIGIN,
    PLACE,
    PROOF,
    SEEN_AT,
    STORE,
    STRANGER,
    WITNESS,
    Files,
    cosignature,
    head_text,
    leaves,
    path_of,
    proof_of,
    seal_of,
    signed_head,
    whole,
)
from tests.tampering.forging import remade
from tests.tampering.kinds.kind import Change, Kind, both, drop, edit, put


def proof(make: Callable[[bytes], bytes]) -> Change:
    """Another one, made from the seal."""
    return lambda files: remade({**files, PROOF: make(seal_of(files))})


def text(change: Callable[[bytes], bytes]) -> Change:
    return both(edit(PROOF, change), remade)


def other_tree(leaf: bytes) -> list[bytes]:
    """The same run in a past in which another run before it was another."""
    tree = leaves(leaf)
    return [b"a run that nobody saw", *tree[1:]]


def headed(
    origin: str = ORIGIN, key: Ed25519PrivateKey = STORE, word: Callable[[bytes], bytes] | None = None
) -> Change:
    def make(leaf: bytes) -> bytes:
        tree = leaves(leaf)
        said = head_text(tree, origin)
        seen = b"" if word is None else word(said)
        return write_proof(PLACE, path_of(tree, PLACE), signed_head(said, key, origin) + seen)

    return proof(make)


def misattributed(said: bytes) -> bytes:
    """A stranger's signature under the name and id of the store's key."""
    name = key_id(ORIGIN, public_bytes(STORE))
    return said + b"\n" + signature_line(ORIGIN, name, STRANGER.sign(said))


def moved_path(leaf: bytes) -> bytes:
    tree = leaves(leaf)
    return write_proof(PLACE, path_of(tree, PLACE)[::-1], signed_head(head_text(tree), STORE))


def elsewhere(leaf: bytes) -> bytes:
    tree = leaves(leaf)
    return write_proof(PLACE + 1, path_of(tree, PLACE), signed_head(head_text(tree), STORE))


def cut(files: Files) -> Files:
    """The last seals of the log are gone."""
    return {**files, PROOF: proof_of(leaves(seal_of(files), 3))}


def held_elsewhere(files: Files) -> Files:
    return {**files, "held by a witness": signed_head(head_text([b"x"] * 4), STORE)}


def kinds() -> Iterator[Kind]:
    stamp = Path(__file__).parents[1].joinpath("of_another_head.tsr").read_bytes()
    yield Kind("a time stamp of another head", "plan", both(put("seal.tsr", stamp), remade))
    yield Kind("the log of a store cut: of which somebody kept a head", "plan without views", cut, "store")
    yield Kind("the log of a store, of which a witness saw another", "plan without views", held_elsewhere, "store")
    of = "plan"
    for reader in ("alone", "checkpoint", "witness"):
        told = {"alone": "", "checkpoint": ": who kept a checkpoint", "witness": ": who knows a witness"}[reader]
        yield Kind(
            f"a proof of another run{told}",
            of,
            lambda files: remade({**files, PROOF: whole("refusals")[PROOF]}),
            reader,
        )
        yield Kind(f"a proof with its path in another order{told}", of, proof(moved_path), reader)
        yield Kind(f"a proof with another place{told}", of, proof(elsewhere), reader)
        yield Kind(f"a head of another log{told}", of, headed("reenact/another-store"), reader)
        yield Kind(
            f"a head signed in the log's name by a stranger{told}",
            of,
            proof(
                lambda leaf: write_proof(PLACE, path_of(leaves(leaf), PLACE), misattributed(head_text(leaves(leaf))))
            ),
            reader,
        )
        yield Kind(
            f"a head with another root{told}",
            of,
            proof(
                lambda leaf: write_proof(
                    PLACE, path_of(leaves(leaf), PLACE), signed_head(head_text(other_tree(leaf)), STORE)
                )
            ),
            reader,
        )
    for reader in ("checkpoint", "witness"):
        told = {"checkpoint": ": who kept a checkpoint", "witness": ": who knows a witness"}[reader]
        yield Kind(f"the proof taken away{told}", of, both(drop(PROOF), remade), reader)
        yield Kind(
            f"another past of the log, signed by the owner{told}",
            of,
            proof(lambda leaf: proof_of(other_tree(leaf))),
            reader,
        )
        yield Kind(f"a head signed by a stranger alone{told}", of, headed(key=STRANGER), reader)
    yield Kind(
        "a log that was cut, signed by the owner: who knows a witness",
        of,
        proof(lambda leaf: proof_of(leaves(leaf, 3))),
        "witness",
    )
    yield Kind(
        "a log that was cut, signed by the owner: who kept a checkpoint",
        of,
        proof(lambda leaf: proof_of(leaves(leaf, 3))),
        "checkpoint",
    )
    words: dict[str, Callable[[bytes], bytes]] = {
        "taken away": lambda said: b"",
        "of another time": lambda said: _retimed(cosignature(said, WITNESS)),
        "of another witness": lambda said: cosignature(said, STRANGER, "x.example/1"),
        "of a stranger in his name": lambda said: cosignature(said, STRANGER),
        "of a stranger in his name and with his key's id": _in_his_name,
        "for another head": lambda said: cosignature(head_text([b"x"]), WITNESS),
        "of no time": lambda said: cosignature(said, WITNESS, time=0),
        "cut": lambda said: cosignature(said, WITNESS)[:-9] + b"AAA=\n",
    }
    for how, word in words.items():
        yield Kind(f"the witness's word {how}", of, headed(word=word), "witness")
    texts: dict[str, Callable[[bytes], bytes]] = {
        "without its first line": lambda data: data.partition(b"\n")[2],
        "with another first line": lambda data: data.replace(b"@v1", b"@v9"),
        "without its place": lambda data: data.replace(b"index 2\n", b""),
        "with a place beyond the log": lambda data: data.replace(b"index 2", b"index 7"),
        "with a place that is no number": lambda data: data.replace(b"index 2", b"index 02"),
        "with a hash less": lambda data: b"".join(
            data.splitlines(keepends=True)[:2] + data.splitlines(keepends=True)[3:]
        ),
        "with a hash more": lambda data: data.replace(b"index 2\n", b"index 2\n" + b"A" * 43 + b"=\n"),
        "with a hash that is none": lambda data: data.replace(b"index 2\n", b"index 2\nAAAA\n"),
        "without its checkpoint": lambda data: data.partition(b"\n\n")[0] + b"\n\n",
        "with another size": lambda data: data.replace(b"\n5\n", b"\n6\n"),
        "without signatures": lambda data: data.rpartition(b"\n\n")[0] + b"\n\n",
    }
    for how, change in texts.items():
        yield Kind(f"the proof {how}", of, text(change))
    yield Kind("a checkpoint that was kept of another log", of, lambda files: files, "other log")
    yield Kind("a proof of an unsealed run", of, _unsealed)


def _in_his_name(said: bytes) -> bytes:
    time = SEEN_AT.to_bytes(8, "big")
    return signature_line("w.example/1", key_id("w.example/1", public_bytes(WITNESS), 4), time + STRANGER.sign(said))


def _retimed(line: bytes) -> bytes:
    from base64 import b64decode

    raw = b64decode(line.split(b" ")[2])
    return signature_line("w.example/1", raw[:4], (SEEN_AT - 9).to_bytes(8, "big") + raw[12:])


def _unsealed(files: Files) -> Files:
    from tools.vectors.scenarios import three_steps
    from tools.vectors.writer import bundle_files

    return remade({**bundle_files(three_steps(seal=False)), PROOF: files[PROOF]})
