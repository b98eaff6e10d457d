"""The short form of many sessions and threads, under a real `ulimit -n`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

DESCRIPTORS = 64


def test_sessions_and_threads_leave_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    command = f"ulimit -n {DESCRIPTORS} && exec {sys.executable} -m tests.soak.many_sessions 200 800"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    with capsys.disabled():
        print(f"\n{done.stdout.strip()}")
    assert done.returncode == 0, done.stderr
