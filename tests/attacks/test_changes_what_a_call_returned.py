"""He has the folder that was sent, knows the format, and has no key: the answer that is on record becomes another."""

from __future__ import annotations

from pathlib import Path

from tests.attacks.refunds import exported, forged, remake
from tests.cli.harness import Command


def test_another_answer_with_every_digest_made_anew_is_found(tmp_path: Path) -> None:
    files, reenact = exported(tmp_path), Command(tmp_path)
    trusted = tmp_path / "trusted.json"
    trusted.write_bytes(files["keys.json"])
    fake = remake(tmp_path / "fake", forged(files))
    told = reenact("verify", fake, "--keys", trusted, "--json")
    assert told.json["integrity"] == told.json["completeness"] == "holds", told.json["first_break"]
    assert reenact("verify", fake, "--require", "signature").code == 1
    assert (told.code, told.json["authenticity"]) == (1, "broken")
