"""What was captured verifies, whatever state the repository was in."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.provenance import Conditions, ReenactModel, ReenactSampling, ReplayBlock, compare_block, parse_sidecar
from reenact.provenance.verify.verify import verify_reports
from tests.provenance.capture.repository import Repository

TEXTS = st.sampled_from(
    ["a: 1\n", "a: [1, 2]\n", "x", "", "- 1\n- 2\n", "a: [\n", "\ufeffa: 1\n", "a: 1\r\n", "é: 😀\n"]
)
NAMES = st.sampled_from(
    ["t.yml", "data/x.json", "notes.md", "deep/er/in.yaml", "with space.yml", "é.yml", ".hidden.yml"]
)
STEPS = st.lists(st.tuples(st.sampled_from(["commit", "write", "delete", "ignore", "stage"]), NAMES, TEXTS), max_size=5)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def apply(repository: Repository, step: tuple[str, str, str]) -> None:
    action, name, content = step
    if action == "commit":
        repository.commit()
    elif action == "delete":
        (repository.root / name).unlink(missing_ok=True)
    elif action == "ignore":
        repository.write(".gitignore", f"/{name}\n")
    else:
        repository.write(name, content)
        if action == "stage" and (repository.root / ".git").exists():
            repository.git("add", "-A")


@settings(max_examples=25)
@given(
    steps=STEPS,
    inputs=st.lists(NAMES, unique=True, max_size=3),
    schema_version=st.sampled_from([None, None, 1]),
    value=VALUES,
)
def test_capture_then_verify_is_clean_on_any_state_that_capture_accepted(
    steps: list[tuple[str, str, str]], inputs: list[str], schema_version: Any, value: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repository = Repository(Path(os.path.realpath(folder)) / "repository")
        for step in steps:
            apply(repository, step)
        names = ("token", "brief", "third")
        repository.report.write_text("# Report\n\nBody.\n")
        try:
            block = ReplayBlock.capture(
                "eval-live",
                [value],
                {name: repository.root / path for name, path in zip(names, inputs, strict=False)},
                ReenactSampling(2, 0.5, None, (1, None)),
                [ReenactModel(value, value)],
                Conditions((value,), ()),
                report=repository.report,
                schema_version=schema_version,
            )
            block.write(repository.report)
        except UsageError:
            return
        (report,) = verify_reports([str(repository.report)]).reports
        assert report.problem is None
        assert [check for check in report.checks if check.level not in ("ok", "note")] == []
        sidecar = parse_sidecar((repository.root / "docs/r.replay.json").read_text())
        assert sidecar == block.sidecar
        assert compare_block(repository.report.read_bytes().decode(), sidecar) == ()
