"""Every command and every program in the README and the docs is executed, as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import Block, blocks, commands, matches

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "examples").rglob("*.md"))]
# Pages whose examples need a world of their own are executed where that world is built.
ELSEWHERE = {
    "docs/reference/lint.md": "tests/lint",
    "docs/reference/verify_replay.md": "tests/provenance/verify/test_surfaces.py",
}
RUN = [
    page
    for page in PAGES
    if "spec" not in page.relative_to(ROOT).parts and str(page.relative_to(ROOT)) not in ELSEWHERE
]


def environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("REENACT_", "XDG_"))}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_DATA_HOME": str(folder / ".data"),
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "NO_COLOR": "1",
    }


def run_page_block(block: Block, folder: Path, where: str) -> None:
    if block.file is not None:
        target = folder / block.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.body, encoding="utf-8")
    elif block.lang == "python":
        run([sys.executable, "-c", block.body], folder, where)
    elif block.lang in ("console", "bash", "sh", "shell"):
        run_commands(block, folder, where)


def run(command: list[str], folder: Path, where: str) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"


def run_commands(block: Block, folder: Path, where: str) -> None:
    listed = commands(block.body)
    assert listed, f"{where}: a block of commands without a line that begins with `$ `"
    for command in listed:
        done = subprocess.run(
            ["bash", "-c", command.text], cwd=folder, env=environment(folder), capture_output=True, text=True,
            timeout=180, check=False,
        )  # fmt: skip
        printed = done.stdout + done.stderr
        # A shell tells of a signal as 128 + n; bash that became its last command cannot.
        code = 128 - done.returncode if done.returncode < 0 else done.returncode
        assert code == command.exit_code, f"{where}: $ {command.text}\n{printed}"
        for line in command.expected:
            assert matches(line, printed), f"{where}: $ {command.text}\nexpected {line!r} in\n{printed}"


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.not_run is None:
            run_page_block(block, tmp_path, f"{page.relative_to(ROOT)}:{block.line}")


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
