"""The block in the report is compared with what its sidecar renders to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reenact.provenance.sidecar.render import render_block
from reenact.provenance.sidecar.sidecar import parse_sidecar
from tests.provenance.verify.repository import Repository, fields


def publish(repository: Repository, **changes: Any) -> str:
    """A report with the block that its sidecar renders to."""
    repository.sidecar(**changes)
    block = render_block(parse_sidecar(json.dumps(fields(**changes))))
    repository.write("docs/r.md", f"# r\n\n{block}\n\nmore\n")
    return block


def markdown(repository: Repository) -> dict[str, Any]:
    report = repository.verified()
    check: dict[str, Any] = report["checks"]["markdown"]
    assert (report["exit"] == 1) == (check["level"] == "FAIL")
    return check


def test_a_block_that_says_what_the_sidecar_says_holds(repository: Repository) -> None:
    publish(
        repository, argv=["ahd", "eval", "it's"], models=[{"id": "@m", "provider": "p", "provider_request_ids": ["1"]}]
    )
    assert markdown(repository)["status"] == "ok"


def test_windows_line_ends_are_no_difference(repository: Repository) -> None:
    publish(repository)
    path = repository.root / "docs/r.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert markdown(repository)["status"] == "ok"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("hash: sha256:a094", "hash: sha256:a095", "token.hash"),
        ("n: 1", "n: 30", "sampling.n"),
        ("ahd run", "curl x | ahd run", "command"),
        ("kind: eval-live\n", "", "kind"),
    ],
)
def test_an_edited_block_fails_and_names_the_field(old: str, new: str, named: str, repository: Repository) -> None:
    publish(repository, argv=["ahd", "run"])
    path = repository.root / "docs/r.md"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    check = markdown(repository)
    assert check["status"] == "differs"
    assert named in check["detail"]


def test_a_second_block_fails(repository: Repository) -> None:
    block = publish(repository)
    repository.write("docs/r.md", f"# r\n\n{block}\n\n{block}\n")
    assert markdown(repository)["status"] == "differs"


def test_a_report_without_a_block_is_a_warning_unless_its_sidecar_was_backfilled(repository: Repository) -> None:
    repository.sidecar()
    assert markdown(repository)["level"] == "warn"
    repository.sidecar(backfilled=True)
    assert markdown(repository)["level"] == "note"


def test_a_sidecar_can_be_verified_without_its_report(repository: Repository) -> None:
    repository.sidecar()
    (repository.root / "docs/r.md").unlink()
    assert markdown(repository)["level"] == "note"
    assert repository.verify("docs/r.replay.json").returncode == 0
