"""The head of the log, proofs from it, and what they say."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.store.log.log import ReadLog
    from reenact.verify.log.checkpoint import Checkpoint
    from reenact.verify.report import Report

Believing = tuple[Path | None, list[Path] | None, list[Path] | None]
TELL_EVERY = 100_000


def told(count: int) -> None:
    """So that nobody wonders whether a large store is still read."""
    if count and count % TELL_EVERY == 0:
        say(f"{count} seals read", err=True)


def checkpoint(url: str | None, *, rebuild: bool, as_json: bool) -> None:
    from reenact.cli.options import existing_store
    from reenact.cli.screens.printing import print_json
    from reenact.errors import UnsealedRecording
    from reenact.store.log.past import rebuild as anew

    store = existing_store(url, to_write=True)
    head = anew(store.log, told) if rebuild else store.log.advance()
    if head is None:
        raise UnsealedRecording("no run of this store is sealed yet: its log is empty")
    note = store.log.note(head).decode()
    if as_json:
        log = store.log
        key = str(log.vkey(head.kid))
        print_json({"origin": log.origin, "size": head.size, "root": head.root.hex(), "key": key, "note": note})
    else:
        say(note, nl=False)


def prove(url: str | None, run: str, output: Path | None, kept: list[Path] | None, *, as_json: bool) -> None:
    from reenact.cli.commands.log.believing import kept_in
    from reenact.cli.options import existing_store
    from reenact.cli.screens.printing import print_json
    from reenact.store.evidence import find_run
    from reenact.store.log.log import index_of

    store = existing_store(url, to_write=True)
    with store.evidence() as evidence:
        found, run_id = find_run(evidence, run)
        index = index_of(evidence.log_rows(), found.number, run_id)
    store.log.advance()
    store.log.check_leaf(index)
    heads = [each for path in kept or () for each in kept_in(path)]
    proof = proof_to(store.log, index, heads) if heads else store.log.proof(index)
    assert proof is not None
    if output is not None:
        write_new(output, proof)
    if as_json:
        print_json({"run_id": run_id, "index": index, "proof": proof.decode()})
    elif output is None:
        say(proof.decode(), nl=False)
    else:
        say(f"run {run_id} is leaf {index} of {store.log.origin}; the proof is in {output}")


def proof_to(log: ReadLog, index: int, kept: list[Checkpoint]) -> bytes:
    """That a leaf was in the log when somebody kept its head: the first of those that cover it."""
    from reenact.errors import NotAuthentic, UsageError
    from reenact.verify.log.checkpoint import of_log
    from reenact.verify.log.proof import write_proof
    from reenact.verify.signed.signed_note import write_note

    mine = sorted(of_log(kept, log.origin)[0], key=lambda each: each.head.size)
    if mine[0].head.origin != log.origin:
        raise UsageError(f"the checkpoint is of {mine[0].head.origin}, and this is {log.origin}")
    chosen = next((each for each in mine if index < each.head.size), None)
    if chosen is None:
        size = mine[-1].head.size
        raise UsageError(f"the run is leaf {index}, and the checkpoint is older: it has {size} leaves")
    head = chosen.head
    if head.size > log.rows.size() or log.root_at(head.size) != head.root:
        raise NotAuthentic(f"the checkpoint ({head}) is none of this log; see `reenact log consistency`")
    return write_proof(index, log.path(index, head.size), write_note(chosen.note.text, chosen.note.signatures))


def write_new(path: Path, data: bytes) -> None:
    from reenact.errors import StoreUnavailable

    try:
        path.write_bytes(data)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from None


def check(proof: Path, seal: Path | None, bundle: Path | None, keys: Path | None, believing: Believing) -> Report:
    """The verdict on a proof that came alone."""
    from reenact.cli.commands.log.believing import believed, content
    from reenact.errors import UsageError
    from reenact.store.keys.trusted import named_trust
    from reenact.verify.log.alone import verify_proof
    from reenact.verify.signed.trust import Trust

    if (seal is None) == (bundle is None):
        raise UsageError("a proof is about a seal: name its file with --seal, or the run's folder with --bundle")
    leaf = content(bundle / "seal.json" if seal is None and bundle is not None else seal or Path())
    if keys is None and bundle is not None:
        keys = bundle / "keys.json"
    trust = Trust() if keys is None else named_trust(keys)
    data = content(proof)
    known = {key.kid: key.public_key for key in trust.of_store(store_of(data)).values() if "log" in key.purposes}
    return verify_proof(data, leaf, known, believed(*believing), str(proof))


def store_of(proof: bytes) -> str | None:
    """Whose log a proof says that it is of; None where it cannot be read, which its check tells."""
    from reenact.errors import DamagedRecord
    from reenact.verify.log.proof import read_proof
    from reenact.verify.signed.trust import KEY_NAME

    with suppress(DamagedRecord):
        return read_proof(proof).checkpoint.head.origin.removeprefix(KEY_NAME)
    return None


def consistency(url: str | None, kept: list[Path], output: Path | None, *, as_json: bool) -> None:
    from reenact.cli.commands.log.believing import kept_in
    from reenact.cli.exits import FAILED
    from reenact.cli.options import existing_evidence
    from reenact.cli.screens.printing import print_json
    from reenact.errors import UsageError
    from reenact.store.log.log import ReadLog
    from reenact.store.log.past import compare, held_elsewhere
    from reenact.verify.log.checkpoint import of_log

    if output is not None and len(kept) != 1:
        raise UsageError("a proof of consistency is from one checkpoint: name it")
    heads = [each for path in kept for each in kept_in(path)]
    with existing_evidence(url) as evidence:
        log = ReadLog(evidence.log_rows(), evidence.store_id() or "", evidence.keys)
        past = compare(log, heads, told, held_elsewhere(log))
        if output is not None and past.problem is None:
            write_new(output, past.proof_from(of_log(heads, log.origin)[0][-1].head.size))
    if as_json:
        print_json(past.document())
    elif past.problem is None:
        say(f"holds         {past.says}")
    else:
        say(f"contradicted  {past.problem}")
        say(f"              kept     {past.expected}")
        say(f"              here     {past.got}")
    if past.problem is not None:
        raise typer.Exit(FAILED)


def policy(url: str | None) -> None:
    """As a file for whoever verifies: the log's keys, its witnesses, and that all of them are needed."""
    from reenact.cli.options import existing_evidence
    from reenact.store.checks.anchoring import own_policy
    from reenact.store.log.log import ReadLog
    from reenact.verify.log.policy import all_of, write_policy

    with existing_evidence(url) as evidence:
        log = ReadLog(evidence.log_rows(), evidence.store_id() or "", evidence.keys)
        witnesses = own_policy(evidence).witnesses
        say(write_policy(all_of(witnesses, len(witnesses), log.vkeys())), nl=False)
