"""What is recorded truthfully verifies, in whatever state the repository is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.provenance.block import insert_block
from reenact.provenance.hashing import hash_raw, hash_structured
from reenact.provenance.render import render_block
from reenact.provenance.sidecar import (
    AnySidecar,
    Conditions,
    InputRef,
    Model,
    NamedInput,
    ReenactModel,
    ReenactSampling,
    ReenactSidecar,
    Sampling,
    Sidecar,
    serialize_sidecar,
)
from reenact.provenance.verify import Verifier
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


def lay_out(state: State, folder: Path) -> Repository:
    """The repository, with a commit where the state has one."""
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
    return inner


def recorded(state: State, repository: Repository) -> AnySidecar:
    """A truthful record of a run in this state."""
    commit = repository.git("rev-parse", "HEAD") if state.tracked else None
    dirty = None if commit is None else bool(repository.git("status", "--porcelain"))
    structured = "link.yml" if state.linked else f"in/{state.structured[0]}.yml"
    raw = f"in/{state.raw[0]}.md"
    hashes = hash_structured(state.structured[1]), hash_raw(state.raw[1])
    if not state.is_own:
        return Sidecar(
            kind="eval-live",
            ahd_version="0.11.0",
            ahd_commit=commit,
            git_dirty=dirty,
            node_version="v20",
            platform="linux",
            invoked_at="2026-04-27T05:00:00Z",
            argv=("ahd", "it's"),
            token=InputRef(structured, hashes[0]),
            brief=InputRef(raw, hashes[1]),
            sampling=Sampling(3),
            models=(Model("@cf/m", "p", ("a", "b")),),
            conditions=Conditions(("raw",), ("raw",)),
        )
    return ReenactSidecar(
        kind="benchmark",
        program="bench",
        version="1",
        reenact_version="0.1.0",
        commit=commit,
        dirty=dirty,
        runtime="python",
        platform="linux",
        invoked_at="2026-04-27T05:00:00Z",
        argv=("bench", "a\nb"),
        inputs=(
            NamedInput("config", structured, hashes[0], "structured"),
            NamedInput("prose", raw, hashes[1], "raw"),
        ),
        sampling=ReenactSampling(1, seeds=(7,)),
        models=(ReenactModel("m", "p"),),
        conditions=Conditions(),
    )


@given(state=states)
@settings(max_examples=40, deadline=None)
def test_a_truthful_record_verifies_without_a_failure(state: State) -> None:
    with tempfile.TemporaryDirectory() as folder, Verifier() as verifier:
        repository = lay_out(state, Path(folder) / "repository")
        sidecar = recorded(state, repository)
        repository.write("docs/r.replay.json", serialize_sidecar(sidecar))
        repository.write("docs/r.md", insert_block("# r\n\nmore\n", render_block(sidecar), sidecar.kind))
        report = verifier.verify(str(repository.root / "docs/r.md"))
        assert report.verdict == "holds", report
        assert {check.status.value for check in report.checks} <= {"ok", "not checked"}, report
