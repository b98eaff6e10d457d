"""No check is decoration: with each of them taken away, some kind of tampering passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from reenact.verify.report import CODES
from tests.conftest import ROOT
from tests.tampering.campaign import Corpus
from tests.tampering.comparing import differences


def test_without_each_place_that_tells_something_a_kind_of_tampering_passes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a process of its own, whose verifier is compiled with a switch at each place; the kinds are in `passes.json`.

    Where this fails after a change, a kind is missing, or the place can tell nothing and goes: `python -m
    tests.tampering --sites` looks for kinds, `--expect` keeps what it finds.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.tampering", "--kept"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said, never_met = msgspec.json.decode(done.stdout)
    with capsys.disabled():
        print(f"\n{len(said)} places that tell, without each of which a kind passes")
    assert [place for place, kind in said.items() if kind is None] == []
    left_out = {place.split()[0] for place, kind in said.items() if kind == "left out"}  # for the long form
    assert {place.partition(":")[0] for place in never_met} <= left_out == {"files.packed"}
    assert {place.split()[1] for place in said} == CODES.keys()


def test_the_second_verifier_says_the_same_of_every_sixteenth_kind(tmp_path: Path) -> None:
    """`python -m tests.tampering` compares all of them."""
    bundles, parted = differences(Corpus((1, 16), large=False), tmp_path / "kinds")
    assert bundles > 50
    assert parted == {}
