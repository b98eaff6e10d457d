"""No check is decoration: with each of them taken away, some kind of tampering passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from reenact.verify.report import CODES
from tests.conftest import ROOT
from tests.tampering.campaign import ALWAYS, Corpus
from tests.tampering.comparing import differences


def test_without_each_code_a_kind_of_tampering_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """In a process of its own, whose verifier is compiled with a switch at each check."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.tampering", "--codes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = msgspec.json.decode(done.stdout)
    with capsys.disabled():
        print(f"\n{len(said)} codes of {len(CODES)} without each of which a kind passes")
    assert [code for code, name in said.items() if name is None] == []
    assert CODES.keys() - said.keys() == ALWAYS.keys()


def test_the_second_verifier_says_the_same_of_every_sixteenth_kind(tmp_path: Path) -> None:
    """`python -m tests.tampering` compares all of them."""
    assert differences(Corpus((1, 16)), tmp_path / "kinds") == {}
