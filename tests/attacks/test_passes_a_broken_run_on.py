"""A store that `verify` calls broken, exported: nobody is told that it holds."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.attacks.bank import Bank
from tests.attacks.forger import Forger, forge
from tests.cli.harness import Command


def forged_result(bank: Bank) -> None:
    def change(forger: Forger) -> None:
        for line in forger.lines():
            if line["kind"] == "entry" and line["entry"]["artifact_type"] == "tool_effect":
                forger.change_payload(str(line["artifact"]["document_hashes"][0]["hash"]), {"paid": "Eve"})
                return

    forge(bank.path, change)


def other_table(bank: Bank) -> None:
    with closing(sqlite3.connect(bank.path, isolation_level=None)) as db:
        db.execute("UPDATE traces SET step_id = 'another' WHERE id & 1 = 1")


@pytest.mark.parametrize("attack", [forged_result, other_table])
def test_export_says_what_is_broken(tmp_path: Path, attack: object) -> None:
    """The evidence is written, and the command says that it is not sound."""
    bank = Bank(tmp_path)
    run_id = bank.paid()
    reenact = Command(tmp_path)
    whole = reenact("export", run_id, "--to", str(tmp_path / "whole"), "--json")
    assert (whole.code, json.loads(whole.out)["broken"]) == (0, None)
    attack(bank)  # type: ignore[operator]
    assert reenact("verify", run_id).code == 1
    told = reenact("export", run_id, "--to", str(tmp_path / "bundle"))
    assert told.code == 1
    assert told.err.startswith("error: what was written is not sound")
    assert told.err.endswith("[EVIDENCE_DAMAGED]\n")
    assert (tmp_path / "bundle" / "manifest.json").exists()
    assert json.loads(reenact("export", run_id, "--to", str(tmp_path / "again"), "--json").out)["broken"]
