"""docs/howto/verify_without_reenact.md: what it shows is what happens, with one file and the Node of the wheel."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from reenact.values.keyed import keyed_random
from reenact.verify import CODES
from tests.conftest import ROOT
from tests.docs.running import run_page
from tests.second_verifier.both import SCRIPT, node

PAGE = ROOT / "docs" / "howto" / "verify_without_reenact.md"


def test_what_the_page_shows_is_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(node()).parent}{os.pathsep}{os.environ['PATH']}")
    shutil.copy(SCRIPT, tmp_path)
    run_page(PAGE, tmp_path, PAGE.name)


def test_the_draws_on_the_page_of_checks_recompute() -> None:
    text = (ROOT / "docs" / "spec" / "verification.md").read_text(encoding="utf-8")
    parts = ("reenact.backoff", "019b76da-a800-7000-8000-000000000001", "fetch", 0)
    key = sha256(b"".join(f"{'si'[type(p) is int]}{len(str(p))}:{p}".encode() for p in parts))
    assert f"key     {key.hexdigest()}\n" in text
    draws = [f"below {n}: {keyed_random(*parts).randrange(n)}" for n in (9, 250, 100_000)]
    assert f"draws   {', '.join(draws)}\n" in text


def test_every_code_stands_on_the_page_of_checks() -> None:
    text = (ROOT / "docs" / "spec" / "verification.md").read_text(encoding="utf-8")
    spelled = {"LINE_MALFORMED", "HEAD_MISMATCH"}
    assert {code for code in CODES if f"`{code}`" not in text} <= spelled
