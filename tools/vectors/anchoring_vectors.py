"""A bundle that witnesses saw, and what readers say of it: heads, proofs and cosignatures put together here by hand."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reenact.values.canonical import canonicalize
from tools.vectors.pieces import START_MS, STORE_ID, Json, key_of, leaf_hash, public_bytes, tree_root
from tools.vectors.scenarios import three_steps
from tools.vectors.writer import bundle_files, with_manifest

NAME = "witnessed"
ORIGIN = f"reenact/{STORE_ID}"
PLACE, SIZE = 2, 5
SEEN_AT = START_MS // 1000 + 90
COSIGNATURE, ED25519 = 4, 1
WITNESSES = {name: key_of(f"witness {name}") for name in ("north", "south", "east")}
SAW_IT = ("north", "south")


def leaves() -> list[bytes]:
    """The seal of the run, between those of others."""
    seal = three_steps().seal_record
    assert seal is not None
    return [canonicalize(seal) if number == PLACE else b"the seal of run %d" % number for number in range(SIZE)]


def path(of: list[bytes], place: int) -> list[bytes]:
    """RFC 6962, section 2.1.1, as its recursive definition says it."""
    if len(of) == 1:
        return []
    split = 1
    while split * 2 < len(of):
        split *= 2
    if place < split:
        return [*path(of[:split], place), bytes.fromhex(tree_root(of[split:]))]
    return [*path(of[split:], place - split), bytes.fromhex(tree_root(of[:split]))]


def head(of: list[bytes], origin: str = ORIGIN) -> bytes:
    return f"{origin}\n{len(of)}\n{b64encode(bytes.fromhex(tree_root(of))).decode()}\n".encode()


def key_id(name: str, kind: int, key: Ed25519PrivateKey) -> bytes:
    return sha256(name.encode() + b"\n" + bytes([kind]) + public_bytes(key)).digest()[:4]


def line(name: str, kind: int, key: Ed25519PrivateKey, signature: bytes) -> bytes:
    return f"\u2014 {name} {b64encode(key_id(name, kind, key) + signature).decode()}\n".encode()


def checkpoint(text: bytes, key: Ed25519PrivateKey | None = None, origin: str = ORIGIN) -> bytes:
    signer = key or key_of("store")
    return text + b"\n" + line(origin, ED25519, signer, signer.sign(text))


def cosignature(witness: str, text: bytes) -> bytes:
    key = WITNESSES[witness]
    signature = key.sign(b"cosignature/v1\ntime %d\n" % SEEN_AT + text)
    return line(f"{witness}.example/w", COSIGNATURE, key, SEEN_AT.to_bytes(8, "big") + signature)


def vkey(name: str, kind: int, key: Ed25519PrivateKey) -> str:
    return f"{name}+{key_id(name, kind, key).hex()}+{b64encode(bytes([kind]) + public_bytes(key)).decode()}"


def witnessed() -> dict[str, bytes]:
    """The bundle: its proof leads to a head that two witnesses cosigned."""
    run, tree = three_steps(), leaves()
    text = head(tree)
    hashes = b"".join(b64encode(each) + b"\n" for each in path(tree, PLACE))
    above = b"c2sp.org/tlog-proof@v1\nindex %d\n" % PLACE + hashes + b"\n"
    proof = above + checkpoint(text) + b"".join(cosignature(name, text) for name in SAW_IT)
    return with_manifest({**bundle_files(run), "seal.tlog-proof": proof}, run.run_id)


# -- what readers bring, and say then ----------------------------------------------------------------------------------


def policy(quorum: str, swapped: Iterable[str] = (), log: str = ORIGIN) -> str:
    """`tlog-policy`: the log, three witnesses, how many of them or whose word is wanted; `swapped` have another key."""
    keys = {name: key_of("stranger") if name in swapped else key for name, key in WITNESSES.items()}
    named = [f"witness {name} {vkey(f'{name}.example/w', COSIGNATURE, key)}" for name, key in keys.items()]
    group = [] if quorum in WITNESSES else [f"group known {quorum} {' '.join(WITNESSES)}"]
    wanted = f"quorum {quorum if quorum in WITNESSES else 'known'}"
    lines = [f"log {vkey(log, ED25519, key_of('store'))}", *named, *group, wanted]
    return "".join(f"{each}\n" for each in lines)


def anchoring_vectors() -> Json:
    tree = leaves()

    def case(
        name: str, anchoring: str, *, policy: str | None = None, kept: bytes | None = None, code: str | None = None,
        change: Callable[[bytes], bytes] | None = None,
    ) -> Json:  # fmt: skip
        proof = None if change is None else change(witnessed()["seal.tlog-proof"]).decode()
        said = {"anchoring": anchoring, "code": code, "name": name, "policy": policy, "proof": proof}
        return {**said, "checkpoint": None if kept is None else kept.decode()}

    one_other = [*tree[:-1], b"another seal"]
    longer = [*tree, b"one more"]
    found = [
        case("nobody is named", "absent"),
        case("one of three witnesses is enough", "holds", policy=policy("any")),
        case("two of three are wanted, and two saw it", "holds", policy=policy("2")),
        case("all three are wanted", "absent", policy=policy("all")),
        case("one who saw it is wanted by name", "holds", policy=policy("north")),
        case("one who did not see it is wanted", "absent", policy=policy("east")),
        case("a witness under whose name and id another key signed", "contradicted", policy=policy("2"),
             code="LOG_SIGNATURE", change=lambda proof: signed_by_another(proof, tree)),
        case("a witness who saw another head", "contradicted", policy=policy("any"), code="LOG_SIGNATURE",
             change=lambda proof: proof + cosignature("east", head(one_other))),
        case("a witness whose key the reader has otherwise", "holds", policy=policy("any", ["north"])),
        case("the head that the reader kept", "holds", kept=checkpoint(head(tree))),
        case("the reader kept another head of this size", "contradicted", kept=checkpoint(head(one_other)),
             code="LOG_CONTRADICTED"),
        case("the reader kept a longer head, which says nothing of this one", "absent", kept=checkpoint(head(longer))),
        case("the path leads elsewhere", "contradicted", policy=policy("any"), code="LOG_CONTRADICTED",
             change=lambda proof: proof.replace(b"index 2", b"index 3")),
        case("the store's signature of the head is not its own", "contradicted", policy=policy("any"),
             code="LOG_SIGNATURE", change=lambda proof: resigned(proof, tree)),
        case("the proof is none", "contradicted", policy=policy("any"), code="LOG_PROOF",
             change=lambda proof: proof.replace(b"tlog-proof@v1", b"tlog-proof@v0")),
    ]  # fmt: skip
    return {"bundle": f"bundles/{NAME}", "cases": found, "leaf_hash": leaf_hash(tree[PLACE]).hex(), "origin": ORIGIN}


def signed_by_another(proof: bytes, tree: list[bytes]) -> bytes:
    name, text = "north.example/w", head(tree)
    wrong = key_of("stranger").sign(b"cosignature/v1\ntime %d\n" % SEEN_AT + text)
    forged = line(name, COSIGNATURE, WITNESSES["north"], SEEN_AT.to_bytes(8, "big") + wrong)
    return proof.replace(cosignature("north", text), forged)


def resigned(proof: bytes, tree: list[bytes]) -> bytes:
    """Under the name and id of the store's key."""
    text = head(tree)
    own = key_of("store")
    forged = line(ORIGIN, ED25519, own, key_of("stranger").sign(text))
    return proof.replace(line(ORIGIN, ED25519, own, own.sign(text)), forged)
