"""The short forms of the sweeps: `python -m tests.torture` is the long one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.torture import shim
from tests.torture.__main__ import SWEEPS

pytestmark = pytest.mark.skipif(not shim.is_possible(), reason="the shim needs Linux and a compiler of C (cc)")


@pytest.mark.parametrize("sweep", SWEEPS)
def test_nothing_recorded_is_lost_or_repeated(sweep: str, capsys: pytest.CaptureFixture[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("SHARE", "TORTURE_SEED")}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.torture", sweep, "--short"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    with capsys.disabled():
        print(f"\n{ended.stdout.strip()}")
    assert ended.returncode == 0, ended.stderr
    assert "0 wrong" in ended.stdout
