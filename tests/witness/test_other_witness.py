"""Ours beside a witness that others wrote: our log asks theirs, their log asks ours, each reads what the other signed.

`aics-witness` and `aics-tlog` implement C2SP's tlog-witness, tlog-cosignature, tlog-checkpoint and signed-note without
any code of ours. Their metadata ask for Python 3.12; they run with 3.11, and `make setup` puts them there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reenact.store.log.past import compare
from reenact.values.clock import SystemClock
from reenact.verify.log.checkpoint import Cosigned, cosigned_by, read_checkpoint
from reenact.verify.log.merkle import is_consistent, leaf_hash, root_from
from reenact.verify.signed.signed_note import VerifierKey, read_note, read_vkey, signed_by
from reenact.witness.collecting import collect
from tests.store.copies import copy_store
from tests.witness.stores import a_store, a_witness, ask_at, grow, leaves, log_key, running
from tests.witness.test_collecting import verdict

NOT_THERE = "aics-witness is not installed: no witness but ours to be asked"
theirs = pytest.importorskip("aics_witness", reason=NOT_THERE)
tlog = pytest.importorskip("aics_tlog", reason=NOT_THERE)


@contextmanager
def their_witness(folder: Path, *logs: VerifierKey) -> Iterator[tuple[str, VerifierKey]]:
    """(address, key) of one of theirs that listens."""
    known = [theirs.LogConfig(log.name, (tlog.parse_vkey(str(log)),)) for log in logs]
    with closing(theirs.WitnessStore(folder / "their.db", create=True)) as state:
        witness = theirs.Witness("w.other/1", Ed25519PrivateKey.generate(), state, known)
        server = theirs.make_server(witness)
        with running(server):
            yield server.url, read_vkey(witness.vkey_text)


def test_theirs_puts_its_name_to_our_heads_and_ours_believes_it(tmp_path: Path) -> None:
    with a_store(tmp_path) as store, their_witness(tmp_path, log_key(store)) as (url, key):
        ask_at(store, url, key)
        assert [each.state for each in collect(store, SystemClock())] == ["cosigned"]
        assert [each.state for each in collect(store, SystemClock())] == ["has it"]
        said, anchor, findings = verdict(store)
        assert (said, findings.total) == ("holds", 0)
        assert anchor is not None
        assert anchor.witnesses == ("w.other/1",)
        for count in (1, 4, 9):
            grow(store, count)
            assert [each.state for each in collect(store, SystemClock())] == ["cosigned"]
        grow(store)
        ask_at(store, url, key)  # as if nothing were known of it: it answers 409 with the size that it has
        assert [each.state for each in collect(store, SystemClock())] == ["cosigned"]
        assert verdict(store, 18)[0] == "holds"


def test_theirs_refuses_a_store_that_was_put_back_and_one_that_has_another_past(tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    with a_store(tmp_path) as store, their_witness(tmp_path, log_key(store)) as (url, key):
        ask_at(store, url, key)
        collect(store, SystemClock())
        copy_store(tmp_path / "store.db", tmp_path / "back" / "store.db")
        grow(store, 2)
        collect(store, SystemClock())
        with a_store(tmp_path / "back", 0) as back:
            (found,) = collect(back, SystemClock())
            assert found.state == "contradicts"
            assert verdict(back)[0] == "contradicted"
            grow(back, 4, "another")
            (found,) = collect(back, SystemClock())
            assert found.state == "contradicts"
            assert "it holds a head that the log's key signed" in found.says
            said, _, findings = verdict(back)
            assert said == "contradicted"
            assert findings.kept[0].expected != findings.kept[0].got
        assert verdict(store)[0] == "holds"


def test_theirs_does_not_know_the_log_or_another_key_of_it(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with a_store(tmp_path) as store, a_store(tmp_path / "other", clock=SystemClock()) as other:
        with their_witness(tmp_path, log_key(other)) as (url, key):
            ask_at(store, url, key)
            assert "does not know this log" in collect(store, SystemClock())[0].says
        wrong = VerifierKey(store.log.origin, 1, log_key(other).public_key)
        with their_witness(tmp_path / "other", wrong) as (url, key):
            ask_at(other, url, key)
            ask_at(store, url, key)
            told = [each.says for each in collect(store, SystemClock())]
            assert any("does not accept the log's key" in says for says in told)


def test_their_log_asks_ours(tmp_path: Path) -> None:
    """Their client, a tree of theirs, a head that they signed; our witness, over the network."""
    secret, tree = Ed25519PrivateKey.generate(), tlog.MerkleTree([])
    key = tlog.vkey_from_ed25519("log.other/1", secret.public_key())

    def head(size: int) -> bytes:
        checkpoint = tlog.Checkpoint("log.other/1", size, tree.root(size))
        signed: bytes = tlog.sign_checkpoint(checkpoint, secret, "log.other/1").to_bytes()
        return signed

    with a_witness(tmp_path, read_vkey(tlog.format_vkey(key)), clock=SystemClock()) as (url, ours):
        client = theirs.WitnessClient(url, str(ours))
        for size in (1, 2, 3, 7, 8, 21):
            tree.extend(b"%d" % number for number in range(tree.size, size))
            lines = client.submit(head(size), tree.consistency_proof)
            note = tlog.parse_note(theirs.merge_cosignatures(head(size), lines))
            assert tlog.verify_checkpoint(note, key, [tlog.parse_vkey(str(ours))], quorum=1, max_age_seconds=60).ok
        fresh = theirs.WitnessClient(url, str(ours))
        with pytest.raises(theirs.WitnessAhead) as ahead:
            fresh.submit(head(8), tree.consistency_proof)
        assert ahead.value.known_size == 21
        other = tlog.MerkleTree([b"another past %d" % number for number in range(30)])
        fork = tlog.sign_checkpoint(tlog.Checkpoint("log.other/1", 30, other.root()), secret, "log.other/1").to_bytes()
        with pytest.raises(theirs.WitnessRejected) as refused:
            theirs.submit_checkpoint(url, fork, other.consistency_proof, witness_vkey=str(ours))
        assert refused.value.status == 422
        stranger = tlog.sign_checkpoint(
            tlog.Checkpoint("log.other/1", 21, tree.root()), Ed25519PrivateKey.generate(), "log.other/1"
        ).to_bytes()
        with pytest.raises(theirs.WitnessRejected) as refused:
            theirs.submit_checkpoint(url, stranger, tree.consistency_proof, witness_vkey=str(ours))
        assert refused.value.status == 403


def test_they_read_our_checkpoints_cosignatures_and_proofs_and_we_theirs(tmp_path: Path) -> None:
    with a_store(tmp_path, 0) as store:
        for _ in range(12):
            grow(store)
        with a_witness(tmp_path, log_key(store)) as (url, key):
            ask_at(store, url, key)
            collect(store, SystemClock())
        there, vkey = leaves(store), tlog.parse_vkey(str(log_key(store)))
        tree = tlog.MerkleTree(there)
        newest = store.log.rows.newest()
        assert newest is not None
        note = tlog.parse_note(store.log.note(newest))
        assert tlog.verify_checkpoint(note, vkey, [tlog.parse_vkey(str(key))], quorum=1).ok
        for size in range(1, 13):
            head = store.log.rows.checkpoint(size)
            assert head is not None
            assert tree.root(size) == head.root
            assert tlog.verify_note(tlog.parse_note(store.log.note(head)), [vkey])
            for index in range(size):
                path = store.log.path(index, size)
                assert path == tree.inclusion_proof(index, size)
                assert tlog.verify_leaf_inclusion(there[index], index, size, path, head.root)
                assert root_from(leaf_hash(there[index]), index, size, path) == head.root
            for old in range(1, size + 1):
                path = store.log.consistency(old, size)
                assert path == tree.consistency_proof(old, size)
                assert tlog.verify_consistency(old, size, tree.root(old), head.root, path)
                assert is_consistent((old, tree.root(old)), (size, head.root), path)
        assert compare(store.log, (), lambda _: None).problem is None


def test_a_cosignature_of_theirs_is_read_by_ours(tmp_path: Path) -> None:
    secret, witness = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    root = tlog.MerkleTree([b"x"]).root()
    note = tlog.sign_checkpoint(tlog.Checkpoint("log.other/1", 1, root), secret, "log.other/1")
    _, line = tlog.sign_cosignature(witness, "w.other/1", 1_767_000_000, "log.other/1", 1, root)
    signed = tlog.Note(text=note.text, signatures=(*note.signatures, line)).to_bytes()
    key = read_vkey(tlog.format_vkey(tlog.cosignature_vkey("w.other/1", witness.public_key())))
    said = cosigned_by(read_note(signed), key)
    assert isinstance(said, Cosigned)
    assert said.time == 1_767_000_000
    log = read_vkey(tlog.format_vkey(tlog.vkey_from_ed25519("log.other/1", secret.public_key())))
    assert signed_by(read_checkpoint(signed).note, log) is True
    assert cosigned_by(read_note(signed.replace(b"\n1\n", b"\n2\n")), key) is True, "it is his, and does not fit"
