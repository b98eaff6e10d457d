"""What the pages print is what the code writes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from reenact.provenance import hash_structured, parse_sidecar, render_block, serialize_sidecar
from reenact.provenance.hashing import canonical_text
from reenact.provenance.verify.verify import verify_reports
from tests.provenance.capture.repository import Repository


def marked(page: str, name: str) -> list[str]:
    """The fenced texts that follow a marker, up to the next paragraph."""
    _, _, behind = page.partition(f"<!-- {name} -->\n")
    found = []
    while match := re.match(r"(`{3,})\w*\n(.*?)\1\n", behind, re.DOTALL):
        found.append(match.group(2))
        behind = behind[match.end() :]
    assert found, name
    return found


def test_the_sidecars_and_blocks_of_the_page_are_what_is_written(root: Path) -> None:
    page = (root / "docs/spec/replay_block.md").read_text(encoding="utf-8")
    for version in ("original", "own"):
        (text,) = marked(page, f"sidecar: {version}")
        sidecar = parse_sidecar(text)
        assert serialize_sidecar(sidecar) == text
        (block,) = marked(page, f"block: {version}")
        assert render_block(sidecar) + "\n" == block


def test_the_hash_of_the_page_recomputes(root: Path) -> None:
    page = (root / "docs/spec/replay_block.md").read_text(encoding="utf-8")
    source, value, digest = marked(page, "hash")
    assert canonical_text(source)[0] + "\n" == value
    assert hash_structured(source) + "\n" == digest


def test_the_values_of_the_reference_recompute(root: Path) -> None:
    page = (root / "docs/reference/provenance_hashing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| `([^|]*)` \| `([^|]*)` \|$", page, re.MULTILINE)
    assert len(rows) >= 12
    for text, value in rows:
        assert canonical_text(text.replace("⏎", "\n"))[0] == value


def test_the_example_of_the_reference_runs_and_verifies(root: Path, tmp_path: Path) -> None:
    page = (root / "docs/reference/provenance_hashing.md").read_text(encoding="utf-8")
    example = next(code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "record_report(" in code)
    repository = Repository(tmp_path / "repository")
    repository.write("tokens/swiss.yml", "a: 1\n")
    repository.write("briefs/landing.md", "Write.\n")
    repository.write("eval.py", example)
    repository.commit()
    subprocess.run([sys.executable, "eval.py"], cwd=repository.root, check=True)
    (report,) = verify_reports([str(repository.root / "docs/report.md")]).reports
    assert {check.level for check in report.checks} == {"ok"}
    assert "requests: 2 captured" in (repository.root / "docs/report.md").read_text()
