"""Secrets in twenty encodings and more, through every door: nothing that is left holds one. The long form has 200."""

from __future__ import annotations

import pytest

from reenact.builtin.catalogue import MODULES
from reenact.policy.secrets.decoding import Needles
from tests.attacks import planted_secrets
from tests.attacks.planted_secrets import BUILTIN, DOORS, ENCODINGS, campaign

SEED = 20261116


def test_none_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    found, counts = campaign(2 * len(DOORS), SEED, 1)
    with capsys.disabled():
        print(f"\nplanted secrets: {dict(counts)}, seed {SEED}")  # a campaign says what it counted
    assert found == []
    assert counts["planted"] >= 2 * len(DOORS) * 20
    assert len(ENCODINGS) >= 20
    assert all(counts[f"through {door}"] == 2 for door in DOORS)


def test_every_built_in_skill_is_a_door() -> None:
    assert {name.partition("@")[0] for name in MODULES} == set(BUILTIN)


def test_the_campaign_would_find_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the decoding switched off."""
    monkeypatch.setattr(Needles, "spans", lambda *_: [])
    monkeypatch.setattr(planted_secrets, "DOORS", ["output"])
    found, _ = campaign(5, SEED, 1)
    missed = {each.split("(")[1].split(")")[0] for each in found}
    encoded = {"base64, folded", "percent, twice", "HTML, numbers", "octal", "base32", "a list of bytes", "folded"}
    assert missed >= encoded
