"""Finding, placing and comparing the block in a report's markdown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reenact.provenance import compare_block, insert_block, parse_block, parse_sidecar, render_block
from reenact.provenance.sidecar.block import BlockDifference, BlockError
from tests.provenance.sidecar.samples import original, own

V1 = parse_sidecar(json.dumps(original()))
OWN = parse_sidecar(json.dumps(own()))
BLOCK = render_block(V1)


def test_the_block_goes_after_the_title_and_a_blank_line() -> None:
    assert insert_block("# Title\n\nBody.\n", BLOCK, "eval-live") == f"# Title\n\n{BLOCK}\n\nBody.\n"
    assert insert_block("# Title\nBody.\n", BLOCK, "eval-live") == f"# Title\n\n{BLOCK}\n\nBody.\n"
    assert (
        insert_block("intro\n\n# Title\n\n\n\nBody.\n", BLOCK, "eval-live") == f"intro\n\n# Title\n\n{BLOCK}\n\nBody.\n"
    )
    assert insert_block("# Title", BLOCK, "eval-live") == f"# Title\n\n{BLOCK}\n"


def test_the_block_of_a_critique_goes_after_its_critic_line() -> None:
    report = "# Title\n\ncritic: model-x\n\nBody.\n"
    assert insert_block(report, BLOCK, "critique") == f"# Title\n\ncritic: model-x\n\n{BLOCK}\n\nBody.\n"
    assert insert_block(report, BLOCK, "eval-live") == f"# Title\n\n{BLOCK}\n\ncritic: model-x\n\nBody.\n"
    assert insert_block("# Title\n\nBody.\n", BLOCK, "critique") == f"# Title\n\n{BLOCK}\n\nBody.\n"


def test_a_report_without_a_title_starts_with_its_block() -> None:
    assert insert_block("Body.\n", BLOCK, "eval-live") == f"{BLOCK}\n\nBody.\n"
    assert insert_block("```\n# no title\n```\n", BLOCK, "eval-live") == f"{BLOCK}\n\n```\n# no title\n```\n"


def test_a_block_that_is_there_is_brought_up_to_date_in_its_place() -> None:
    report = insert_block("# Title\n\nintro\n\n## More\n\nBody.\n", BLOCK, "eval-live")
    moved = report.replace("\n\nintro", "").replace("# Title\n\n", "# Title\n\nintro\n\n")
    updated = insert_block(moved, render_block(OWN), OWN.kind)
    assert updated == moved.replace(BLOCK, render_block(OWN))
    assert insert_block(updated, render_block(OWN), OWN.kind) == updated
    assert compare_block(updated, OWN) == ()


def test_line_ends_and_a_byte_order_mark_of_the_report_are_kept() -> None:
    report = insert_block("\ufeff# Title\r\n\r\nBody.\r\n", BLOCK, "eval-live")
    assert report == "\ufeff# Title\r\n\r\n" + BLOCK.replace("\n", "\r\n") + "\r\n\r\nBody.\r\n"
    assert compare_block(report, V1) == ()


def test_a_report_without_a_block_has_none() -> None:
    assert parse_block("# Title\n") is None
    assert compare_block("# Title\n", V1) is None


def test_a_block_quoted_inside_another_fence_is_none() -> None:
    assert parse_block(f"# Title\n\n````markdown\n{BLOCK}\n````\n") is None
    assert parse_block(f"# Title\n\n~~~\n{BLOCK}\n~~~\n") is None


def test_two_blocks_and_a_block_without_an_end_are_errors() -> None:
    with pytest.raises(BlockError, match="second replay block at line"):
        parse_block(f"{BLOCK}\n\n{BLOCK}\n")
    with pytest.raises(BlockError, match="second replay block"):
        insert_block(f"{BLOCK}\n\n{BLOCK}\n", BLOCK, "eval-live")
    with pytest.raises(BlockError, match="no closing fence"):
        parse_block("# T\n\n```yaml ahd-replay\nkind: x\n")


def test_the_fields_are_read_by_line() -> None:
    parsed = parse_block(f"# T\n\n{BLOCK}\n")
    assert parsed is not None
    assert parsed.fields["schema_version"] == "1"
    assert parsed.fields["token.path"] == "tokens/t.yml"
    assert parsed.fields["brief.hash"] == "sha256:abababababab"
    assert parsed.fields["models[0].provider_request_ids"] == "1 captured"
    assert parsed.fields["conditions.requested"] == "[raw]"
    assert parsed.unread == ()
    assert parsed.command == ("# install ahd@0.11.0", "node ahd")


def test_values_that_are_no_yaml_are_read_all_the_same() -> None:
    sidecar = parse_sidecar(
        json.dumps(original(models=[{"id": "@cf/x: y", "provider": "# p", "provider_request_ids": []}]))
    )
    parsed = parse_block(render_block(sidecar))
    assert parsed is not None
    assert parsed.fields["models[0].id"] == "@cf/x: y"
    assert parsed.fields["models[0].provider"] == "# p"


def differences(old: str, new: str, sidecar: Any = V1) -> list[BlockDifference]:
    report = insert_block("# T\n", render_block(sidecar), sidecar.kind)
    assert old in report
    found = compare_block(report.replace(old, new, 1), sidecar)
    assert found is not None
    return list(found)


def test_each_field_that_differs_from_the_sidecar_is_named() -> None:
    assert differences("ahd_version: 0.11.0", "ahd_version: 9") == [BlockDifference("ahd_version", "0.11.0", "9")]
    assert differences("sha256:abababababab", "sha256:000000000000") == [
        BlockDifference("token.hash", "sha256:abababababab", "sha256:000000000000")
    ]
    assert differences("  n: 2\n", "") == [BlockDifference("sampling.n", "2", None)]
    assert differences("kind: eval-live\n", "kind: eval-live\nextra: 1\n") == [BlockDifference("extra", None, "1")]
    assert differences("node ahd", "node evil") == [
        BlockDifference("command", "# install ahd@0.11.0\nnode ahd", "# install ahd@0.11.0\nnode evil")
    ]
    assert differences("ahd-replay", "reenact-replay") == [
        BlockDifference("fence", "yaml ahd-replay", "yaml reenact-replay")
    ]
    assert differences("kind: eval-live\n", "kind: eval-live\n\n") == [BlockDifference("layout", None, None)]
    assert differences("seeds: 1 kept", "seeds: 2 kept", OWN) == [BlockDifference("sampling.seeds", "1 kept", "2 kept")]


def test_a_field_that_is_there_twice_is_unread_and_differs() -> None:
    assert differences("kind: eval-live\n", "kind: eval-live\nkind: critique\n") == [
        BlockDifference("layout", None, None)
    ]


@pytest.mark.parametrize("argument", ["a\n```\nb", "a\n```\n\n# Forged\n\n```sh\nb"])
def test_a_value_that_would_end_its_fence_is_refused_where_the_format_cannot_quote_it(argument: str) -> None:
    block = render_block(parse_sidecar(json.dumps(original(argv=[argument]))))
    with pytest.raises(BlockError, match="end its fence"):
        insert_block("# T\n", block, "eval-live")
    quoted = render_block(parse_sidecar(json.dumps(own(argv=[argument]))))
    assert quoted in insert_block("# T\n", quoted, "eval-live")


def test_line_breaks_in_an_argument_that_end_no_fence_are_kept() -> None:
    sidecar = parse_sidecar(json.dumps(original(argv=["x\ny", "```"])))
    report = insert_block("# T\n\nBody.\n", render_block(sidecar), "eval-live")
    assert compare_block(report, sidecar) == ()
    assert insert_block(report, BLOCK, "eval-live") == f"# T\n\n{BLOCK}\n\nBody.\n"
