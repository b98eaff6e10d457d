"""Every command and every program in the README and the docs is executed, as a reader would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.running import run_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "examples").rglob("*.md"))]
# Pages whose examples need a world of their own are executed where that world is built.
ELSEWHERE = {
    "docs/howto/share_a_store.md": "tests/store/postgres/test_page.py",
    "docs/howto/verify_without_reenact.md": "tests/second_verifier/test_page.py",
    "docs/reference/lint.md": "tests/lint",
    "docs/scale.md": "tests/store/postgres/test_page.py",
    "docs/reference/verify_replay.md": "tests/provenance/verify/test_surfaces.py",
}
RUN = [
    page
    for page in PAGES
    if "spec" not in page.relative_to(ROOT).parts and str(page.relative_to(ROOT)) not in ELSEWHERE
]


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path, str(page.relative_to(ROOT)))


@pytest.mark.parametrize(("page", "tests"), ELSEWHERE.items())
def test_a_page_that_is_executed_elsewhere_is_named_there(page: str, tests: str) -> None:
    place = ROOT / tests
    files = [place] if place.is_file() else sorted(place.glob("*.py"))
    assert any(Path(page).name in file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = []
    for target, anchor in re.findall(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([\w-]+))?\)", text):
        place = page if not target else page.parent / target
        if not place.exists() or (anchor and anchor not in anchors(place)):
            missing.append(f"{target}#{anchor}" if anchor else target)
    assert missing == []


def anchors(page: Path) -> set[str]:
    """What headings are linked by: lower case, without punctuation, blanks as dashes."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
