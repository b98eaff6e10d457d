"""The short form of the signals: real ones, at random instants, to a program in synchronous sessions."""

from __future__ import annotations

import pytest

from tests.soak.signals import campaign

SIGNALS, LONGEST_S = 250, 15.0


def test_signals_at_any_instant_leave_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        counted = campaign(SIGNALS, 20261116, limit_s=LONGEST_S)
        print(f"\n{counted}")
    assert counted.wrong == []
    assert counted.sent > 50
    assert counted.seen["effects"] > 0
