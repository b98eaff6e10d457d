"""`reenact verify REPLAY.jsonl`: against the receipt beside it, and it says what that proves."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.harness import Command, error_line


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
