"""Every example runs offline, as its README says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.docs.test_pages_run import run_page_block

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.parent.name)
def test_an_example_does_what_its_page_says(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / page.parent.name
    shutil.copytree(page.parent, folder)
    for block in blocks(page):
        run_page_block(block, folder, f"{page.relative_to(ROOT)}:{block.line}")
