"""Every byte that stands on the page about canonical JSON is recomputed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reenact.errors import JsonSyntaxError
from reenact.values.canonical import MAX_DEPTH, MAX_SAFE_INTEGER, canonicalize, parse_canonical, parse_json
from reenact.values.digest import sha256_hex

EXAMPLE = re.compile(r"```text\ntext +(.+)\nhex +([0-9a-f]+)\nsha256 +([0-9a-f]{64})\n```")


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "spec" / "canonical_json.md").read_text(encoding="utf-8")


def test_every_example_has_the_bytes_and_the_digest_that_are_printed(page: str) -> None:
    examples = EXAMPLE.findall(page)
    assert len(examples) == page.count("```text") - 1 == 8
    for text, printed, digest in examples:
        canonical = canonicalize(parse_json(text))
        assert (canonical.hex(), sha256_hex(canonical)) == (printed, digest), text


def test_the_example_of_the_two_readers_is_true(page: str) -> None:
    (printed,) = re.findall(r"canonical +([0-9a-f]{20,})", page)
    data = bytes.fromhex(printed)
    assert canonicalize(1e16) == data
    assert parse_canonical(data) == 1e16
    with pytest.raises(JsonSyntaxError):
        parse_json(data)


def test_the_limits_on_the_page_are_those_of_the_code(page: str) -> None:
    assert f"±{MAX_SAFE_INTEGER} " in page
    assert f"more than {MAX_DEPTH} arrays" in page
