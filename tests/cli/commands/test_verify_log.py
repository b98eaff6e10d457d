"""`reenact verify REPLAY.jsonl`: against the receipt beside it, and it says what that proves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.harness import Command, error_line
from tests.trace.samples import receipt_of, session, text_of


def test_a_log_is_held_against_the_receipt_beside_it(recorded: Command, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    assert recorded("export", "last", "--to", bundle).code == 0
    done = recorded("verify", bundle / "REPLAY.jsonl")
    assert done.code == 0
    assert done.out.startswith("replay log    agree   2 calls")
    assert f"reenact verify {bundle} holds both against the journal" in done.out
    assert recorded("verify", bundle / "REPLAY.jsonl", "--json").json["success"] is True
    alone = tmp_path / "alone"
    alone.mkdir()
    log = shutil.copy(bundle / "REPLAY.jsonl", alone / "REPLAY.jsonl")
    nothing = recorded("verify", log)
    assert nothing.code == 2
    assert "there is no RECEIPT.json beside it" in error_line(nothing)
    text = (bundle / "RECEIPT.json").read_text()
    (alone / "RECEIPT.json").write_text(text.replace('"latency_ms":', '"latency_ms":9', 1))
    other = recorded("verify", log)
    assert other.code == 1
    assert "latency_ms mismatch" in other.out
    assert "ask for the bundle" in other.out
    (alone / "REPLAY.jsonl").write_bytes((alone / "REPLAY.jsonl").read_bytes()[:-9])
    torn = recorded("verify", log)
    assert torn.code == 1
    assert "line" in error_line(torn)


@pytest.mark.parametrize(
    "asked",
    [["--require", "signature"], ["--keys", "nobody.json"], ["--checkpoint", "head"], ["--html", "page.html"]],
)
def test_what_only_evidence_can_answer_is_not_passed_over(recorded: Command, tmp_path: Path, asked: list[str]) -> None:
    bundle = tmp_path / "bundle"
    assert recorded("export", "last", "--to", bundle).code == 0
    done = recorded("verify", bundle / "REPLAY.jsonl", *asked)
    assert done.code == 2
    assert f"{asked[0]}: not of a log, which nobody signed; verify {bundle}" in error_line(done)


def test_a_receipt_that_names_no_log_is_told_to_prove_less(reenact: Command) -> None:
    events = session(2)
    (reenact.folder / "REPLAY.jsonl").write_bytes(text_of(events))
    receipt = json.loads(receipt_of(events).to_canonical_json())
    for replay_hash, says in (
        (receipt["replay_hash"], "the log is the one that the receipt names"),
        (None, "the receipt has no replay_hash"),
    ):
        (reenact.folder / "RECEIPT.json").write_text(json.dumps({**receipt, "replay_hash": replay_hash}))
        done = reenact("verify", "REPLAY.jsonl")
        assert done.code == 0
        assert says in done.out
    folder = reenact("verify", "./")
    assert folder.code == 1, "it is no bundle"
    assert "see  reenact verify ./REPLAY.jsonl: a replay log without its journal" in folder.err
