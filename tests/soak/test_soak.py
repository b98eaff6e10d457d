"""The short form of the soak: random plans, sessions and people under kill -9 and SIGSTOP."""

from __future__ import annotations

import random

import pytest

from tests.soak.campaign import soak
from tests.soak.memory import measure

KILLS = 150


def test_nothing_is_lost_repeated_or_broken_under_random_kills(capsys: pytest.CaptureFixture[str]) -> None:
    seed = random.randrange(2**32)
    with capsys.disabled():
        print(f"\nsoak with seed {seed}")
        tally = soak(seed, kills=KILLS)
        print(tally)
    assert tally.kills == KILLS
    assert tally.seen["records of kind redispatch"] > 0, "no kill left a call in doubt: the soak does not reach it"


def test_a_worker_does_not_grow_with_the_steps_it_has_run() -> None:
    """Less than 5 MB after the first 2,000 of 20,000 steps in the long form; here it has a third of them."""
    assert measure(6_000) < 5_000
