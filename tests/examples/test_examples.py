"""Every example runs offline, as its README says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.running import run_page

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.parent.name)
def test_an_example_does_what_its_page_says(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / page.parent.name
    shutil.copytree(page.parent, folder)
    run_page(page, folder, str(page.relative_to(ROOT)))
