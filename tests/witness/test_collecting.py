"""Witnesses that do as they should, and those that are down, slow, lie, know another log, or have seen a longer one."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path

import pytest

from reenact.store.checks.anchoring import RunLog, with_own_witnesses
from reenact.store.log.past import compare, held_elsewhere
from reenact.store.signing import key_in_memory
from reenact.store.sqlite.store import SqliteStore
from reenact.values.canonical import canonicalize
from reenact.values.clock import FixedClock, SystemClock
from reenact.verify.log.anchoring import NOBODY, Anchoring
from reenact.verify.log.checkpoint import cosigned_text
from reenact.verify.report import Anchor, Findings, Verdict
from reenact.verify.signed.signed_note import signature_line
from reenact.witness.client import ask
from reenact.witness.collecting import Collected, collect
from reenact.witness.cosigner import SIZE_TYPE, Answer, read_request
from tests.store.copies import copy_store
from tests.store.units import Run
from tests.witness.stores import a_store, a_witness, answering, ask_at, grow, log_key, witness_key

QUICK = partial(ask, limit_s=0.5)


def one(store: SqliteStore, clock: FixedClock | None = None, *, only_due: bool = False) -> Collected:
    (found,) = collect(store, clock or FixedClock(), ask=QUICK, only_due=only_due)
    return found


def verdict(store: SqliteStore, run: int = 1) -> tuple[Verdict, Anchor | None, Findings]:
    """On the anchoring of a run, from its row in `runs`."""
    findings = Findings()
    with store.evidence() as evidence:
        row = store.log.rows.seals(run - 1, 1)[0]
        seal = next(line["seal"] for line in map(parse, row.body.splitlines()) if line.get("kind") == "seal")
        judge = Anchoring(with_own_witnesses(evidence, NOBODY), evidence.keys(), store.store_id, findings)
        said, anchor = judge.judge(RunLog(evidence, row.run_no), canonicalize(seal))
    return said, anchor, findings


def parse(line: bytes) -> dict[str, object]:
    import json

    found: dict[str, object] = json.loads(line)
    return found


def test_a_head_is_cosigned_and_the_verdict_says_by_whom_and_since_when(tmp_path: Path) -> None:
    with a_store(tmp_path) as store, a_witness(tmp_path, log_key(store)) as (url, key):
        assert verdict(store)[0] == "absent"
        ask_at(store, url, key)
        assert one(store).state == "cosigned"
        assert one(store).state == "has it"
        said, anchor, findings = verdict(store)
        assert (said, findings.total) == ("holds", 0)
        assert anchor is not None
        assert (anchor.witnesses, anchor.known, anchor.size) == (("w.example/1",), 1, 3)
        grow(store)
        assert verdict(store, 4)[0] == "absent", "nobody saw this one yet"
        assert one(store).state == "cosigned"
        assert verdict(store, 4)[0] == "holds"


def test_a_witness_that_has_seen_more_than_we_remember_is_asked_again(tmp_path: Path) -> None:
    with a_store(tmp_path) as store, a_witness(tmp_path, log_key(store)) as (url, key):
        ask_at(store, url, key)
        one(store)
        grow(store, 2)
        ask_at(store, url, key)  # as if nothing had ever come of it: it begins with size 0 again
        assert one(store) == Collected(str(key), "witness", "cosigned", "size 5")


def test_one_that_is_down_is_asked_again_after_longer_and_longer_pauses(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        clock = FixedClock()
        ask_at(store, "http://127.0.0.1:1", witness_key(key_in_memory()))
        pauses = []
        for _ in range(4):
            found = one(store, clock)
            assert found.state == "failed"
            assert "refused" in found.says
            (peer,) = store.log.rows.peers("witness")
            pauses.append(peer.next_ms - clock.now_ms())
        assert [pause // 1000 for pause in pauses] == [5, 10, 20, 40]
        assert one(store, clock, only_due=True).state == "later"
        assert verdict(store)[0] == "absent"


def test_one_that_says_a_byte_now_and_then_is_given_up_and_holds_up_no_run(tmp_path: Path) -> None:
    slow = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000
    with a_store(tmp_path) as store, answering(lambda *_: slow) as url:
        ask_at(store, url, witness_key(key_in_memory()))
        found: list[Collected] = []
        asking = threading.Thread(target=lambda: found.append(one(store)))
        asking.start()
        time.sleep(0.1)
        began = time.perf_counter()
        run = Run("meanwhile")
        unit, took = run.unit(sealed=True)
        took(store.append(unit, None, owner="me"))
        assert time.perf_counter() - began < 0.3
        asking.join(5)
        assert found[0].state == "failed"
        assert "no answer in time" in found[0].says


@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\nX-More: " + b"x" * 500])
def test_what_was_cut_off_for_being_late_is_no_answer(tmp_path: Path, begins: bytes) -> None:
    with a_store(tmp_path) as store, answering(lambda *_: begins or b" " * 500) as url:
        ask_at(store, url, witness_key(key_in_memory()))
        assert one(store).says.endswith("no answer in time")


def test_an_answer_that_ends_before_its_end_is_none(tmp_path: Path) -> None:
    short = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nx"
    with a_store(tmp_path) as store, answering(lambda *_: short) as url:
        ask_at(store, url, witness_key(key_in_memory()))
        (found,) = collect(store, FixedClock())
        assert found.says.endswith("its answer ends before its end")


def test_a_name_that_nobody_resolves_in_time_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def slow(*_: object, **__: object) -> list[object]:
        asked.wait(20)
        return []

    monkeypatch.setattr("socket.getaddrinfo", slow)
    with a_store(tmp_path) as store:
        ask_at(store, "http://slow.example", witness_key(key_in_memory()))
        began = time.perf_counter()
        assert one(store).says.endswith("no answer in time")
        assert time.perf_counter() - began < 10
    asked.set()


@pytest.mark.parametrize("time", [2**63 - 1, 253402300800, FixedClock().now_ms() // 1000 + 3_700])
def test_one_that_signs_a_time_to_come_is_not_believed(tmp_path: Path, time: int) -> None:
    own = key_in_memory()

    def lie(_: str, body: bytes) -> Answer:
        text, vkey = read_request(body).checkpoint.note.text, witness_key(own)
        signature = own.sign(cosigned_text(time, text))
        return Answer(200, signature_line(vkey.name, vkey.key_id, time.to_bytes(8, "big") + signature))

    with a_store(tmp_path) as store, answering(lie) as url:
        ask_at(store, url, witness_key(own))
        found = one(store)
        assert (found.state, "one of the clocks is wrong" in found.says) == ("failed", True)
        assert verdict(store)[0] == "absent"


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        (b"", "without a cosignature"),
        (b"yes\n", "no cosignature"),
        (b"\xff\xfe\n", "no cosignature"),
        (b"\xe2\x80\x94 w.example/1 AAAAAAAAAAA=\n", "without a cosignature"),
        (b"x" * 200_000, "more than"),
    ],
)
def test_one_that_answers_with_something_else_is_not_believed(tmp_path: Path, lie: bytes, says: str) -> None:
    with a_store(tmp_path) as store, answering(lambda *_: Answer(200, lie)) as url:
        ask_at(store, url, witness_key(key_in_memory()))
        found = one(store)
        assert found.state == "failed"
        assert says in found.says
        assert verdict(store)[0] == "absent"


@pytest.mark.parametrize("what", ["another head", "another key", "another time"])
def test_one_that_signs_something_else_is_not_believed(tmp_path: Path, what: str) -> None:
    own, other = key_in_memory(), key_in_memory()

    def lie(_: str, body: bytes) -> Answer:
        text = read_request(body).checkpoint.note.text
        vkey, time = witness_key(own), (1_700_000_000).to_bytes(8, "big")
        signed = cosigned_text(1_700_000_001 if what == "another time" else 1_700_000_000, text)
        if what == "another head":
            signed = signed.replace(b"\n3\n", b"\n2\n")
        signature = (other if what == "another key" else own).sign(signed)
        return Answer(200, signature_line(vkey.name, vkey.key_id, time + signature))

    with a_store(tmp_path) as store, answering(lie) as url:
        ask_at(store, url, witness_key(own))
        assert "without a cosignature" in one(store).says
        assert store.log.rows.cosignatures(3) == []


def test_one_that_knows_another_log_says_so_and_its_word_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with a_store(tmp_path) as store, a_store(tmp_path / "other", clock=SystemClock()) as other:
        with a_witness(tmp_path, log_key(other)) as (url, key):
            ask_at(store, url, key)
            assert "does not know this log" in one(store).says
            ask_at(other, url, key)
            one(other)
            line = other.log.rows.cosignatures(3)[0]
        store.log.rows.add_cosignature(3, str(key), line)  # taken from there, and put here
        said, _, findings = verdict(store)
        assert (said, findings.kept[0].code) == ("contradicted", "LOG_SIGNATURE")


def test_one_that_has_seen_a_longer_log_shows_it_and_the_verdict_has_both_heads(tmp_path: Path) -> None:
    """The store was put back from a backup, and went on: what it says now is not what it said before."""
    (tmp_path / "back").mkdir()
    with a_store(tmp_path) as store, a_witness(tmp_path, log_key(store)) as (url, key):
        ask_at(store, url, key)
        one(store)
        copy_store(tmp_path / "store.db", tmp_path / "back" / "store.db")
        grow(store, 2)
        assert one(store).state == "cosigned"
        with a_store(tmp_path / "back", 0) as back:
            found = one(back)
            assert found.state == "contradicts"
            assert "size 5" in found.says
            said, _, findings = verdict(back)
            assert (said, findings.kept[0].code) == ("contradicted", "LOG_CONTRADICTED")
            past = compare(back.log, (), lambda _: None, held_elsewhere(back.log))
            assert past.problem == f"a head that {url} holds is of a longer log", "`log consistency` says so too"
            grow(back, 4, "another")  # now it is longer, and another one
            found = one(back)
            assert found.state == "contradicts"
            said, _, findings = verdict(back)
            assert said == "contradicted"
            expected, got = findings.kept[0].expected, findings.kept[0].got
            assert expected is not None
            assert got is not None
            assert expected.startswith("size 5, root ")
            assert got.startswith("size 5, root ")
            assert expected != got
            past = compare(back.log, (), lambda _: None, held_elsewhere(back.log))
            assert (past.problem, past.expected, past.got) == (
                f"a head that {url} holds is none of this log",
                expected,
                got,
            )
        assert verdict(store)[0] == "holds"


def test_one_that_only_claims_to_have_seen_a_longer_log_is_not_believed_without_a_signed_head(tmp_path: Path) -> None:
    def claim(path: str, _: bytes) -> Answer:
        return Answer(409, b"1000\n", SIZE_TYPE) if path == "/add-checkpoint" else Answer(404, b"")

    with a_store(tmp_path) as store, answering(claim) as url:
        ask_at(store, url, witness_key(key_in_memory()))
        found = one(store)
        assert found.state == "contradicts"
        assert "or the witness errs" in found.says
        assert verdict(store)[0] == "absent", "nothing that it shows contradicts the log"


@pytest.mark.parametrize("says", [Answer(409, b"4\n", SIZE_TYPE), Answer(409, b"root mismatch\n"), Answer(409, b"")])
def test_one_that_has_seen_another_head_of_this_size_contradicts_in_the_words_of_earlier_versions_too(
    tmp_path: Path, says: Answer
) -> None:
    """The first version of the protocol has one answer for another size, and for another root of the same."""
    (tmp_path / "other").mkdir()
    with a_store(tmp_path) as store:
        copy_store(tmp_path / "store.db", tmp_path / "other" / "store.db")
        with a_store(tmp_path / "other", 0) as other:
            grow(store, 1)
            grow(other, 1, "another")
            newest = other.log.rows.newest()
            assert newest is not None
            theirs = other.log.note(newest)

        def told(path: str, body: bytes) -> Answer:
            if path != "/add-checkpoint":
                return Answer(200, theirs)
            return says if read_request(body).old == 4 else Answer(409, b"4\n", SIZE_TYPE)

        with answering(told) as url:
            ask_at(store, url, witness_key(key_in_memory()))
            assert one(store).state == "contradicts"
        said, _, findings = verdict(store)
        assert (said, findings.kept[0].code) == ("contradicted", "LOG_CONTRADICTED")


def test_two_of_two_witnesses_are_counted(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with a_store(tmp_path) as store:
        first, second = a_witness(tmp_path / "a", log_key(store)), a_witness(tmp_path / "b", log_key(store))
        with first as (url, key), second as (other_url, other_key):
            ask_at(store, url, key)
            ask_at(store, other_url, other_key)
            assert [each.state for each in collect(store, FixedClock())] == ["cosigned", "cosigned"]
        _, anchor, _ = verdict(store)
        assert anchor is not None
        assert (len(anchor.witnesses), anchor.known) == (2, 2)
