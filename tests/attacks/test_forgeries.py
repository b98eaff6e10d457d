"""The short form of the campaign: `python -m tests.attacks.forgeries` is the long one."""

from __future__ import annotations

import pytest

from tests.attacks.forgeries import campaign


def test_no_consistent_forgery_passes_or_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody without the key changes any field or column, and all that follows from it."""
    counted = campaign(150, seed=1116)
    with capsys.disabled():
        print(f"\n{counted}")
    assert counted.wrong == []
    assert counted.forgeries == 150
