"""Nothing is written that nobody can find, and nothing is said that only its makers understand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
WRITTEN = {".md", ".py", ".toml", ".yml", ".yaml", ".json", ".sql", ".txt", ".cfg", ""}
# What belongs on somebody's desk, and not into the repository.
NOTE_TO_SELF = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
HOME = re.compile(r"/(?:home|Users)/(?!runner/|me/|user/|you/)\w+/")


def links(page: Path) -> set[Path]:
    return {(page.parent / target).resolve() for target in LINK.findall(page.read_text(encoding="utf-8"))}


def test_every_page_can_be_reached_from_the_readme(root: Path) -> None:
    seen: set[Path] = set()
    waiting = [root / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        waiting += links(page)
    pages = {page.resolve() for page in (root / "docs").rglob("*.md")}
    assert {str(page.relative_to(root)) for page in pages - seen} == set()


@pytest.mark.parametrize("index", ["docs/howto/README.md", "docs/spec/README.md"])
def test_an_index_names_every_page_beside_it(root: Path, index: str) -> None:
    page = root / index
    beside = {other.resolve() for other in page.parent.glob("*.md")} - {page.resolve()}
    assert {other.name for other in beside - links(page)} == set()


def test_every_reference_page_stands_on_the_map(root: Path) -> None:
    page = root / "docs" / "README.md"
    pages = {other.resolve() for other in (root / "docs" / "reference").glob("*.md")}
    assert {other.name for other in pages - links(page)} == set()


def test_every_schema_is_named_by_a_page_of_the_formats(root: Path) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (root / "docs" / "spec").glob("*.md"))
    named = set(re.findall(r"schemas/[\w/.*{},]+", text))
    named = {each for name in named for each in spelled_out(name)}
    unnamed = []
    for schema in sorted((root / "schemas").rglob("*.json")):
        path = schema.relative_to(root).as_posix()
        if path not in named and f"{path.rpartition('/')[0]}/*" not in named:
            unnamed.append(path)
    assert unnamed == []


def spelled_out(name: str) -> list[str]:
    """`schemas/{a,b}.json` as two names."""
    braces = re.search(r"\{([^}]*)\}", name)
    if braces is None:
        return [name]
    return [name[: braces.start()] + word + name[braces.end() :] for word in braces[1].split(",")]


def test_every_variable_that_the_code_reads_stands_in_the_reference(root: Path) -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (root / "src").rglob("*.py"))
    read = set(re.findall(r"\bREENACT_[A-Z_]+[A-Z]\b", sources)) - {"REENACT_ERROR"}  # the code of an exception
    text = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(REENACT_[A-Z_]+)`", text, re.MULTILINE)) - {"REENACT_ERROR"} == read


def test_every_vector_is_named_beside_it(root: Path) -> None:
    text = (root / "test_vectors" / "README.md").read_text(encoding="utf-8")
    folders = {"bundles/<name>/"} if "bundles/<name>/" in text else set()
    unnamed = []
    for file in sorted((root / "test_vectors").rglob("*")):
        path = file.relative_to(root / "test_vectors").as_posix()
        in_a_bundle = bool(folders) and path.count("/") > 1 and path.startswith("bundles/")
        if file.is_file() and file.suffix == ".json" and not in_a_bundle and f"`{path}`" not in text:
            unnamed.append(path)
    assert unnamed == []


def tracked(root: Path) -> list[Path]:
    """What the repository holds, in text; all files where this is no clone."""
    done = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        names = [str(path.relative_to(root)) for part in ("src", "docs", "tests") for path in (root / part).rglob("*")]
    else:
        names = done.stdout.split("\0")
    paths = [root / name for name in names if name]
    here = Path(__file__).resolve()
    return [path for path in paths if path.is_file() and path.suffix in WRITTEN and path.resolve() != here]


def test_no_note_to_self_and_no_path_of_somebodys_machine_is_left(root: Path) -> None:
    found = []
    for path in tracked(root):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if NOTE_TO_SELF.search(line) or HOME.search(line):
                found.append(f"{path.relative_to(root)}:{number}: {line.strip()[:120]}")
    assert found == []
