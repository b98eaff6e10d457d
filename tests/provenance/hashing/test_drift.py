"""What changes a structured hash, and what does not."""

from __future__ import annotations

import random

import pytest

from reenact.provenance import hash_raw, hash_structured

DOCUMENT = """\
# The token of a style.
id: swiss-editorial
palette:
  - black   # ink
  - white
type: {family: Helvetica, sizes: [12, 16, 24.5]}
rules: |
  Keep it plain.
  No shadows.
note: "a \\"quoted\\" word"
"""


@pytest.mark.parametrize(
    "changed",
    [
        DOCUMENT.replace("# The token of a style.\n", ""),
        DOCUMENT.replace("   # ink", ""),
        DOCUMENT + "# the end\n",
        DOCUMENT.replace("id:", "\n\nid:   "),
        DOCUMENT.replace("\n", "\r\n"),
        DOCUMENT.rstrip("\n") + "\n\n\n",
        "---\n" + DOCUMENT,
        "\ufeff" + DOCUMENT,
        DOCUMENT.replace(
            "{family: Helvetica, sizes: [12, 16, 24.5]}", "\n  sizes: [12, 16, 24.50]\n  family: 'Helvetica'"
        ),
        DOCUMENT.replace("  - black   # ink\n  - white\n", "- black\n- white\n"),
    ],
    ids=[
        "comment",
        "end-of-line comment",
        "last comment",
        "layout",
        "CRLF",
        "empty lines",
        "marker",
        "BOM",
        "block",
        "indent",
    ],
)
def test_comments_line_ends_layout_and_key_order_do_not_count(changed: str) -> None:
    assert changed != DOCUMENT
    assert hash_structured(changed) == hash_structured(DOCUMENT)
    assert hash_raw(changed.encode()) != hash_raw(DOCUMENT.encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("black", "blacK"),
        ("12", "13"),
        ("24.5", "'24.5'"),
        ("- black   # ink\n  - white", "- white\n  - black"),
        ("No shadows.\n", "No shadows.\n\n  .\n"),
        ("rules: |", "rules: |-"),
        ("id:", "ID:"),
        ("Keep it", "Keep  it"),
    ],
)
def test_one_changed_byte_that_means_something_changes_the_hash(old: str, new: str) -> None:
    assert hash_structured(DOCUMENT.replace(old, new, 1)) != hash_structured(DOCUMENT)


def test_the_order_of_keys_does_not_count_at_any_depth() -> None:
    lines = [f"k{number}: {{b: {number}, a: [x, {{d: 1, c: 2}}]}}" for number in range(30)]
    shuffled = [line.replace("d: 1, c: 2", "c: 2, d: 1") for line in lines]
    random.Random(1).shuffle(shuffled)
    assert hash_structured("\n".join(shuffled)) == hash_structured("\n".join(lines))
