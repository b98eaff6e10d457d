"""The short form of the histories: however a run comes to its end, it verifies and replays."""

from __future__ import annotations

import pytest

from tests.soak.histories import campaign

HISTORIES = 80


def test_every_way_to_end_replays(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        counted = campaign(HISTORIES, 20261116)
        print(f"\n{counted}")
    assert counted.wrong == []
    assert {"cancel", "cancel-request", "crash", "approve", "deny", "resolve", "recover"} <= set(counted.done)


@pytest.mark.parametrize("number", [20266690, 20266766, 20270430])
def test_those_that_once_did_not(number: int) -> None:
    assert campaign(1, number).wrong == []


def test_one_that_did_not_every_other_time() -> None:
    """Two of its calls asked for money in one millisecond."""
    assert [wrong for _ in range(12) for wrong in campaign(1, 20266167).wrong] == []
