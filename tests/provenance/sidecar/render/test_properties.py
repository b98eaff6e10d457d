"""Sidecar → block → markdown → read by line → compare, for any values."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.provenance import compare_block, insert_block, parse_block, parse_sidecar, render_block
from reenact.provenance.sidecar.block import BlockError
from tests.provenance.sidecar.samples import original, own

ANY = st.text(max_size=15) | st.sampled_from(
    ["```", "a\n```\nb", "~~~", "# T", "\r\n", "\u2028", "\x1b[0m", ": ", "- "]
)
FILLED = ANY.filter(bool)
REPORTS = st.lists(
    st.sampled_from(["# Title", "body", "", "```", "```sh", "~~~", "critic: x", "## two", "- item", "    # code"]),
    max_size=8,
).map("\n".join)


@st.composite
def sidecars(draw: st.DrawFn, *, ours: bool) -> Any:
    argv = draw(st.lists(ANY, max_size=4))
    conditions = {"requested": draw(st.lists(ANY, max_size=3)), "effective": draw(st.lists(ANY, max_size=3))}
    models = [
        {"id": draw(FILLED), "provider": draw(FILLED), "requests" if ours else "provider_request_ids": []}
        for _ in range(draw(st.integers(0, 2)))
    ]
    common: dict[str, Any] = {"argv": argv, "conditions": conditions, "models": models, "platform": draw(FILLED)}
    if ours:
        return own(program=draw(FILLED), version=draw(FILLED), runtime=draw(FILLED), **common)
    return original(ahd_version=draw(FILLED), ahd_commit=draw(st.none() | ANY), node_version=draw(FILLED), **common)


def round_trip(fields: dict[str, Any], report: str) -> None:
    sidecar = parse_sidecar(json.dumps(fields))
    block = render_block(sidecar)
    markdown = insert_block(report, block, sidecar.kind)
    assert compare_block(markdown, sidecar) == ()
    assert insert_block(markdown, block, sidecar.kind) == markdown
    read, rendered = parse_block(markdown), parse_block(block)
    assert read is not None
    assert rendered is not None
    assert read.fields == rendered.fields
    assert read.command == rendered.command


@settings(max_examples=300)
@given(sidecars(ours=True), REPORTS)
def test_our_own_block_survives_any_values_in_any_report(fields: dict[str, Any], report: str) -> None:
    round_trip(fields, report)


@settings(max_examples=300)
@given(sidecars(ours=False))
def test_the_originals_block_survives_any_values_or_is_refused(fields: dict[str, Any]) -> None:
    values = json.dumps(fields)
    try:
        round_trip(fields, "# Title\n\nBody.\n")
    except BlockError:
        assert "\\n" in values or "\\r" in values


@settings(max_examples=200)
@given(sidecars(ours=True), st.sampled_from(["program", "version", "runtime", "platform"]), FILLED)
def test_a_field_that_was_changed_in_the_sidecar_shows_in_the_comparison(
    fields: dict[str, Any], name: str, value: str
) -> None:
    before = parse_sidecar(json.dumps(fields))
    after = parse_sidecar(json.dumps({**fields, name: value}))
    markdown = insert_block("# T\n", render_block(before), before.kind)
    found = compare_block(markdown, after)
    assert found is not None
    assert [one.field for one in found] == ([] if value == fields[name] else [name])
