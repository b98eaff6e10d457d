"""The short form of the campaign: a fixed seed, a part of a second for each target, all in one limited process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.campaign import CPU_S, Counted, run_one
from tests.fuzz.mutating import MOST_BYTES, made
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.timeout(180)
def test_no_target_fails_on_any_of_a_few_hundred_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "tests.fuzz.campaign", "--short", *TARGETS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    with capsys.disabled():
        print(f"\nfuzz: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_what_a_target_does_wrong_is_noticed() -> None:
    """An undeclared exception, an answer that does not hold, and more time than there is."""

    def wrong(data: bytes) -> None:
        if data == b"slow":
            while True:
                pass
        assert data != b"assert"
        raise KeyError(data)

    def problem(data: bytes) -> str | None:
        return run_one(Target(wrong, lambda: (b"a",)), data, Counted())

    assert problem(b"slow") == f"took more than {CPU_S:.0f} s"
    assert str(problem(b"assert")).startswith("AssertionError")
    assert str(problem(b"other")).startswith("KeyError")


def test_inputs_are_bounded_and_depend_on_their_seed_alone() -> None:
    from random import Random

    corpus = (b'{"a": [1, 2]}', b"b" * 1000)
    once, again = ([made(Random(str(seed)), corpus) for seed in range(300)] for _ in range(2))
    assert once == again
    assert max(map(len, once)) <= MOST_BYTES
    assert len(set(once)) > 250
