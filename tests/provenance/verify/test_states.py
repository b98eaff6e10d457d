"""What a capture accepted verifies, in whatever state the repository is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from reenact.errors import HashingError
from reenact.provenance.capture.capture import CaptureError, ReplayBlock
from reenact.provenance.sidecar.sidecar import Conditions, Model, ReenactSampling
from reenact.provenance.verify.verify import Verifier
from tests.provenance.verify.repository import PACKAGE, Repository

ATTRIBUTES = ("", "*.md text eol=crlf\n", "* text=auto eol=lf\n", "*.md filter=upper\n", "*.md ident\n", "*.md -text\n")
YAML = ("id: one\n", "a: [1, 2]\r\nb: {c: null}\r\n", "", '{"x": "é"}', "# only a comment\n", "text")
PROSE = (b"words\n", b"words\r\nmore\r\n", b"caf\xe9\n", b"$Id$\n", b"", b"\x00\xff", "# Ü\n".encode())
NAMES = ("config", "a b", "ü", "-x", "deep/er/file", "[glob]*", "it's", "#[x]", "a:b")


class State(NamedTuple):
    """A repository at the moment of a run, and what the run reads."""

    attributes: str
    structured: tuple[str, str]
    raw: tuple[str, bytes]
    tracked: bool
    changed: bool
    ignored: bool
    linked: bool
    nested: bool
    extra: bool
    is_own: bool


states = st.builds(
    State,
    attributes=st.sampled_from(ATTRIBUTES),
    structured=st.tuples(st.sampled_from(NAMES), st.sampled_from(YAML)),
    raw=st.tuples(st.sampled_from(NAMES), st.sampled_from(PROSE)),
    tracked=st.booleans(),
    changed=st.booleans(),
    ignored=st.booleans(),
    linked=st.booleans(),
    nested=st.booleans(),
    extra=st.booleans(),
    is_own=st.booleans(),
)


def lay_out(state: State, folder: Path) -> tuple[Repository, Repository]:
    """The repository, with a commit where the state has one, and the root in it that the run belongs to."""
    outer = Repository(folder)
    outer.git("init", "-q")
    outer.git("config", "filter.upper.clean", "tr a-z A-Z")
    inner = Repository(folder / "packages/inner") if state.nested else outer
    inner.write("package.json", PACKAGE)
    outer.write(".gitattributes", state.attributes)
    if state.ignored:
        outer.write(".gitignore", "in/\n")
    inner.write(f"in/{state.structured[0]}.yml", "before: 1\n" if state.changed else state.structured[1])
    inner.write(f"in/{state.raw[0]}.md", b"before" if state.changed else state.raw[1])
    if state.tracked:
        outer.commit()
    inner.write(f"in/{state.structured[0]}.yml", state.structured[1])
    inner.write(f"in/{state.raw[0]}.md", state.raw[1])
    if state.linked:
        (inner.root / "link.yml").symlink_to(f"in/{state.structured[0]}.yml")
    if state.extra:
        inner.write("in/other/config.yml", "id: decoy\n")
    return outer, inner


def capture(state: State, repository: Repository) -> ReplayBlock:
    """What a run in this state captures before it starts."""
    structured = "link.yml" if state.linked else f"in/{state.structured[0]}.yml"
    paths = {"token": repository.root / structured, "brief": repository.root / f"in/{state.raw[0]}.md"}
    if state.is_own:
        paths["package"] = repository.root / "package.json"
    return ReplayBlock.capture(
        "benchmark" if state.is_own else "eval-live",
        ["tool", "it's", "--n=3"],
        paths,
        sampling=ReenactSampling(2, seeds=(7, 8)),
        models=[Model("@cf/m", "p", ("a", "b"))],
        conditions=Conditions(("raw",), ("raw",)),
        report=repository.root / "docs/r.md",
        schema_version=None if state.is_own else 1,
    )


@given(state=states)
@settings(max_examples=25)
def test_what_was_captured_verifies_now_and_after_it_is_committed(state: State) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outer, repository = lay_out(state, Path(folder) / "repository")
        report = repository.write("docs/r.md", "# r\n\nmore\n")
        try:
            block = capture(state, repository)
        except (CaptureError, HashingError):
            reject()
        block.write(report)
        assert_holds(report)
        outer.commit("publish")
        assert_holds(report)
        if block.sidecar.commit and not block.sidecar.dirty and not state.ignored and not state.attributes:
            assert_holds(report, at_commit=True)


def assert_holds(report: Path, *, at_commit: bool = False) -> None:
    with Verifier(at_commit=at_commit) as verifier:
        verified = verifier.verify(str(report))
    assert verified.verdict == "holds", verified
    assert {check.status.value for check in verified.checks} <= {"ok", "not checked"}, verified
