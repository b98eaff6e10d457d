"""Whole evidence that kinds of tampering begin from: bundles as {name: bytes}, with every key in hand."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tools.vectors.bundle_vectors import with_views
from tools.vectors.pieces import (
    STORE_ID,
    Json,
    at,
    b64,
    key_of,
    kid_of,
    public_bytes,
    tree_root,
    uid,
)
from tools.vectors.scenarios import CHANGES, FETCH, SEND, SUM_UP, lost_answer, plan, refusals, session, three_steps
from tools.vectors.writer import Run, bundle_files, erasure, note, removal, with_manifest

from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST
from reenact.verify.log.checkpoint import Checkpoint, cosigned_text, read_checkpoint
from reenact.verify.log.policy import Policy, Witness, all_of
from reenact.verify.log.proof import write_proof
from reenact.verify.signed.signed_note import COSIGNATURE, VerifierKey, key_id, signature_line
from tests.verify.test_contradictions import one_step

Files = dict[str, bytes]
STORE, STRANGER, WITNESS, OTHER_WITNESS = (key_of(name) for name in ("store", "stranger", "witness", "other witness"))
FIRST_KEY, LOST_KEY = key_of("the first"), key_of("the lost one")
ORIGIN = f"reenact/{STORE_ID}"
PROOF = "seal.tlog-proof"
PLACE, SIZE = 2, 5
SEEN_AT = 1_767_230_000


# -- notes -------------------------------------------------------------------------------------------------------------


def about(record: Json, key: Ed25519PrivateKey) -> Json:
    """A note that holds what it signs."""
    return {**note(key, record["schema"], sha256(canonicalize(record)).hexdigest()), "record": record}


def beginning(*keys: Ed25519PrivateKey, signed_by: Ed25519PrivateKey | None = None, erased: int = 0) -> Json:
    """`erased` values were so before it, and nobody signed that."""
    chain = {"count": 0, "head": ZERO_DIGEST}
    gone = {"count": erased, "head": "e" * 64} if erased else chain
    named = {kid_of(key): b64(public_bytes(key)) for key in keys}
    record = {"schema": "reenact.signing.v1", "erasures": gone, "keys": named, "seals": chain, "ts": at(-9000)}
    return about(record, signed_by or keys[0])


def rotation(old: Ed25519PrivateKey, new: Ed25519PrivateKey, signed_by: Ed25519PrivateKey | None = None) -> Json:
    record = {
        "schema": "reenact.key_rotation.v1",
        "new_key": b64(public_bytes(new)),
        "new_kid": kid_of(new),
        "old_kid": kid_of(old),
        "ts": at(-8000),
        "who": "kim",
    }
    return about(record, signed_by or old)


def replacement(
    old: Ed25519PrivateKey, new: Ed25519PrivateKey, *runs: list[object], signed_by: Ed25519PrivateKey | None = None
) -> Json:
    record = {
        "schema": "reenact.key_replacement.v1",
        "new_key": b64(public_bytes(new)),
        "new_kid": kid_of(new),
        "old_kid": kid_of(old),
        "reason": "the disk died",
        "runs": list(runs),
        "ts": at(30_000),
        "who": "kim",
    }
    return about(record, signed_by or new)


def lease_broken(key: Ed25519PrivateKey, run_id: str) -> Json:
    record = {
        "schema": "reenact.lease_broken.v1",
        "expires_ms": 1_767_225_700_000,
        "owner": "somebody",
        "reason": "it hangs",
        "run_id": run_id,
        "token": 3,
        "ts": at(20_000),
        "who": "kim",
    }
    return about(record, key)


def counted(key: Ed25519PrivateKey, seal_digest: str) -> Json:
    """How many erasures there were when the run was sealed."""
    chain = {"count": 0, "head": ZERO_DIGEST}
    return about({"schema": "reenact.erasures.v1", "erasures": chain, "seal_digest": seal_digest}, key)


def note_lines(notes: Iterable[Json]) -> bytes:
    return b"".join(canonicalize(each) + b"\n" for each in notes)


# -- the log -----------------------------------------------------------------------------------------------------------


def leaves(leaf: bytes, size: int = SIZE, place: int = PLACE, before: bytes = b"") -> list[bytes]:
    """Seals of other runs around this one; `before` is that of the one before it."""
    others = {place: leaf, place - 1: before} if before else {place: leaf}
    return [others.get(number, b"the seal of run %d" % number) for number in range(size)]


def path_of(all_leaves: list[bytes], place: int) -> list[bytes]:
    """RFC 6962, section 2.1.1."""
    if len(all_leaves) == 1:
        return []
    split = 1 << (len(all_leaves) - 1).bit_length() - 1
    left, right = all_leaves[:split], all_leaves[split:]
    if place < split:
        return [*path_of(left, place), bytes.fromhex(tree_root(right))]
    return [*path_of(right, place - split), bytes.fromhex(tree_root(left))]


def head_text(tree: list[bytes], origin: str = ORIGIN) -> bytes:
    root = b64encode(bytes.fromhex(tree_root(tree))).decode()
    return f"{origin}\n{len(tree)}\n{root}\n".encode()


def signed_head(text: bytes, key: Ed25519PrivateKey, origin: str = ORIGIN) -> bytes:
    return text + b"\n" + signature_line(origin, key_id(origin, public_bytes(key)), key.sign(text))


def cosignature(text: bytes, witness: Ed25519PrivateKey, name: str = "w.example/1", time: int = SEEN_AT) -> bytes:
    said = time.to_bytes(8, "big") + witness.sign(cosigned_text(time, text))
    return signature_line(name, key_id(name, public_bytes(witness), COSIGNATURE), said)


def proof_of(
    tree: list[bytes], place: int = PLACE, key: Ed25519PrivateKey = STORE, witnesses: Iterable[Ed25519PrivateKey] = ()
) -> bytes:
    text = head_text(tree)
    seen = b"".join(cosignature(text, each) for each in witnesses)
    return write_proof(place, path_of(tree, place), signed_head(text, key) + seen)


def witness_policy() -> Policy:
    """One witness, and the log that he is asked about."""
    key = VerifierKey("w.example/1", COSIGNATURE, public_bytes(WITNESS))
    return all_of([Witness("w", key)], 1, [VerifierKey(ORIGIN, 1, public_bytes(STORE))])


def seal_of(files: Files) -> bytes:
    return files["seal.json"].removesuffix(b"\n")


def kept_of(files: Files) -> tuple[Checkpoint, ...]:
    """What somebody put aside when the run was in the log, and nobody has changed since."""
    return (read_checkpoint(files[PROOF].partition(b"\n\n")[2]),)


def head_elsewhere() -> Checkpoint:
    return read_checkpoint(signed_head(head_text([b"x"], "reenact/another-store"), STORE, "reenact/another-store"))


# -- bundles -----------------------------------------------------------------------------------------------------------


def dressed(
    run: Run,
    *,
    notes: Iterable[Json] = (),
    erased: Iterable[Json] = (),
    packed: bool = False,
    views: bool = True,
    log: bool = True,
    keys: Iterable[Ed25519PrivateKey] = (),
    tree: list[bytes] | None = None,
    place: int = PLACE,
) -> Files:
    """A bundle as an export writes it: with what was signed beside the journal, its place in the log, and its views."""
    files = bundle_files(run, erasures=list(erased), packed=packed)
    seal = run.seal_record
    assert seal is not None
    by_hand = list(notes) or [beginning(run.key)]
    signed = [*by_hand, note(run.key, "reenact.seal.v1", seal["seal_digest"]), counted(run.key, seal["seal_digest"])]
    files["notes.jsonl"] = note_lines(signed)
    public = {kid_of(key): b64(public_bytes(key)) for key in [run.key, *keys]}
    files["keys.json"] = canonicalize(public) + b"\n"
    if log:
        files[PROOF] = proof_of(tree or leaves(canonicalize(seal)), place, run.key, [WITNESS])
    made = with_manifest(files, run.run_id)
    return with_views(made, run.run_id) if views else made


def planned() -> Files:
    return dressed(three_steps())


def talked(*, views: bool = True) -> Files:
    """A session with a vote, of which one answer was erased and another archived."""
    run = session()
    erased, moved = (trace.artifacts["tool_effect"]["document_hashes"][0]["hash"] for trace in run.traces[::2])
    first = erasure(erased, run.run_id, ZERO_DIGEST, who="kim@example.com", reason="asked for", ms=4_000_000)
    second = removal(moved, first, "archived", "ab" * 32)
    vote = next(line for body in run.bodies for line in body.splitlines() if b'"kind":"vote"' in line)
    voted = vote.partition(b'"digest":"')[2][:64].decode()
    notes = [
        beginning(run.key),
        note(run.key, "reenact.vote.v1", voted),
        note(run.key, "reenact.erasure.v1", first["digest"]),
        note(run.key, "reenact.erasure.v2", second["digest"]),
        lease_broken(run.key, run.run_id),
    ]
    return dressed(run, notes=notes, erased=[first, second], views=views)


def rotated() -> Files:
    """The store's first key vouched for the one that signs this run."""
    run = three_steps()
    return dressed(run, notes=[beginning(FIRST_KEY), rotation(FIRST_KEY, run.key)], keys=[FIRST_KEY])


def replaced_run() -> tuple[Run, str]:
    """(a run whose key was lost after its first commit, what that commit's digest was)"""
    run = Run(0x9, plan("lost-key", [FETCH, SUM_UP]), change={"capability_key": kid_of(LOST_KEY)})
    run.key = LOST_KEY
    fetch = run.step(0).request(risk="READ", public=["method"]).approve().call()
    head = sha256(run.commit()).hexdigest()
    run.key = STORE
    fetch.attempt("OK_HTTP_CALL", facts={"http_status": 200}, response=CHANGES)
    fetch.effect("OK_HTTP_CALL", output=CHANGES)
    prompt = {"model": "example-model", "prompt": 'Sum up ["1.0.1 is out"]'}
    sum_up = run.step(1).request(args=prompt).approve().call()
    run.commit()
    sum_up.attempt("OK_LLM_INVOKE", facts={"finish_reason": "stop"}, response={"text": "1.0.1 is out"})
    sum_up.effect("OK_LLM_INVOKE", output={"text": "1.0.1 is out"})
    run.run_checkpoint()
    run.seal()
    return run, head


def replaced() -> Files:
    run, head = replaced_run()
    notes = [beginning(LOST_KEY), replacement(LOST_KEY, STORE, [run.run_id, 1, head])]
    return dressed(run, notes=notes, keys=[LOST_KEY])


def continued() -> Files:
    """A session that goes on where another was ended, with the bundle of that one in it."""
    parent = three_steps()
    run = Run(
        0x8,
        document := plan("placeholder", [dict(SEND, step_id="c1")]),
        kind="session",
        change={"parent_run": parent.run_id, "key_run": parent.run_id},
    )
    document["plan_id"] = run.run_id
    run.key_run = parent.run_id
    trace = run.step(0).request().approve().call()
    trace.attempt("OK", response={"queued": True}, effects=[("email_queued", "example.com")])
    trace.effect("OK", output={"queued": True})
    run.commit()
    run.finish()
    run.seal()
    tree = leaves(canonicalize(run.seal_record), before=canonicalize(parent.seal_record))
    return with_parent(dressed(run, tree=tree), dressed(parent, tree=tree, place=PLACE - 1), parent.run_id)


def with_parent(files: Files, parent: Files, parent_id: str) -> Files:
    """The manifest names the manifest of the other bundle alone."""
    run_id = uid(0x8)
    named = f"parents/{parent_id}/manifest.json"
    around = {name: data for name, data in files.items() if name != "manifest.json"}
    made = with_manifest({**around, named: parent["manifest.json"]}, run_id)
    return {**made, **{f"parents/{parent_id}/{name}": data for name, data in parent.items()}}


def one_checkpoint() -> Files:
    """Whose run checkpoints are signed too."""
    run = three_steps()
    line = next(line for body in run.bodies for line in body.splitlines() if b'"kind":"run_checkpoint"' in line)
    of_run = line.partition(b'"digest":"')[2][:64].decode()
    return dressed(run, notes=[beginning(run.key), note(run.key, "reenact.run_checkpoint.v1", of_run)])


def foreign() -> Files:
    """A trace that another runtime wrote: it has no payloads, and its capability is a word that nobody checks."""
    run = Run(0xA, plan("placeholder", [FETCH]), kind="trace", change={"plan_id": uid(0xA), "agent_id": uid(0xA)})
    trace = run.step(0)
    fields: list[tuple[str, str, Json]] = [
        (
            "action_request",
            "PENDING",
            {
                "agent_id": uid(0xA),
                "risk_level": "WRITE",
                "intent": "pay what is owed",
                "resources": [{"kind": "service", "id": "bank"}],
                "proposal": {"tool_server": "bank", "tool_name": "pay", "args": {"cents": 5}},
            },
        ),
        (
            "supervisor_decision",
            "AUTHORIZED",
            {
                "action_request_id": uid(0x1001),
                "decision": "APPROVE",
                "rationale": "it is fine so",
                "minted_capability": "a.b.c",
            },
        ),
        (
            "tool_call",
            "EXECUTING",
            {
                "supervisor_decision_id": uid(0x1002),
                "capability_digest": "a" * 64,
                "idempotency_key": "k",
                "call": {"tool_server": "bank", "tool_name": "pay", "args": {"cents": 5}},
            },
        ),
        ("tool_effect", "COMPLETED", {"tool_call_id": uid(0x1003), "outcome": {"status": "SUCCESS"}}),
    ]
    answers = {
        "supervisor_decision": ("action_request_digest", "action_request"),
        "tool_call": ("supervisor_decision_digest", "supervisor_decision"),
        "tool_effect": ("tool_call_digest", "tool_call"),
    }
    for number, (kind, state, given) in enumerate(fields, start=1):
        linked = {}
        if kind in answers:
            name, before = answers[kind]
            linked = {name: trace.artifacts[before]["_digest"]}
        artifact = trace._artifact(kind, number, {**given, **linked})
        trace._append(kind, artifact, state, {"idempotency_key": "k"} if number > 2 else None)
    trace.checkpoint()
    run.seal(change={"plan_hash": None, "steps_planned": 1})
    return dressed(run, views=False)


SCENARIOS: dict[str, Callable[[], Files]] = {
    "plan": planned,
    "packed": lambda: dressed(three_steps(), packed=True, views=False),
    "refusals": lambda: dressed(refusals()),
    "refusals without views": lambda: dressed(refusals(), views=False),
    "session": talked,
    "older": lambda: bundle_files(session(named=False)),
    "lost answer": lambda: dressed(lost_answer()),
    "rotated": rotated,
    "replaced": replaced,
    "continued": continued,
    "checkpointed": one_checkpoint,
    "rotated first": rotated,
    "session without views": lambda: talked(views=False),
    "plan without views": lambda: dressed(three_steps(), views=False),
    "open": lambda: bundle_files(three_steps(seal=False)),
    "foreign": foreign,
    "one step": lambda: bundle_files(one_step()),
    "withheld": lambda: bundle_files(three_steps(), payloads="none"),
}


@cache
def whole(name: str) -> Files:
    return SCENARIOS[name]()


def public_keys(*keys: Ed25519PrivateKey) -> dict[str, str]:
    return {kid_of(key): b64(public_bytes(key)) for key in keys}
