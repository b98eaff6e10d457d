"""The short form of the loops: killed, started again, and held against an oracle."""

from __future__ import annotations

import pytest

from tests.soak.loop_campaign import campaign

KILLS = 12


def test_a_loop_that_is_killed_comes_to_what_one_does_that_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        counted = campaign(KILLS, 20261115)
        print(f"\n{counted}")
    assert counted.wrong == []
    assert counted.between_send_and_record > 0, "no kill fell between send and record"
