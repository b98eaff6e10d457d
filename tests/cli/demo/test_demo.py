"""The demo: every claim is checked, nothing is left behind, and it fails when a claim does."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.cli.demo.acts import Story
from reenact.cli.demo.workshop import Ran, Workshop
from tests.cli.harness import Command


def test_every_claim_holds_and_nothing_is_left_behind(reenact: Command) -> None:
    temporary = reenact.folder / "tmp"
    temporary.mkdir()
    done = reenact("demo", TMPDIR=str(temporary))
    assert done.code == 0, done.out
    assert "FAILED" not in done.out
    assert "15 of 15 claims held" in done.out
    assert "(killed by SIGKILL)" in done.out
    assert "\x1b" not in done.out
    assert list(temporary.iterdir()) == []
    assert not reenact.store.exists()


def test_everything_is_kept_on_request_and_can_be_looked_at(reenact: Command) -> None:
    done = reenact("demo", "--keep", "kept", "--json")
    assert done.code == 0
    document = done.json
    assert document["held"] is True
    assert [item["exit_code"] for item in document["commands"]] == [-9, 0, 0, 0, 0, 0, 1]
    kept = reenact.folder / "kept"
    assert {"plan.json", "demo.db", "bundle", "forged"} <= {path.name for path in kept.iterdir()}
    assert reenact("verify", "last", "--store", kept / "demo.db").code == 0
    again = reenact("demo", "--keep", "kept")
    assert again.code == 3
    assert "is not empty" in again.err


class Deaf:
    """A narrator that nobody hears."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def test_a_claim_that_does_not_hold_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Workshop(tmp_path / "demo") as shop:
        story = Story(shop, Deaf())  # type: ignore[arg-type]
        monkeypatch.setattr(shop, "reenact", lambda *arguments, **_: Ran(" ".join(arguments), 0, ""))
        story.run_and_kill()
    assert [claim.held for claim in story.claims] == [False, False]
