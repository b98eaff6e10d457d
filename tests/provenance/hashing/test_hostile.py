"""Inputs made to hurt: they end in a clear error or a hash, in linear time, and show nothing of themselves."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from reenact.errors import HashingError, Undecidable, Unparseable
from reenact.provenance import hash_structured

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 10)
)


NESTED = {
    "open": "[" * 10_000,
    "closed": "[" * 10_000 + "]" * 10_000,
    "maps": "{a: " * 10_000,
    "mixed": "[{" * 10_000,
    "sequences": "- " * 10_000,
    "keys": "? " * 10_000,
    "block maps": "".join(" " * depth + "a:\n" for depth in range(1_500)),
}


@pytest.mark.parametrize("text", NESTED.values(), ids=list(NESTED))
def test_thousands_of_nested_collections_are_refused_without_a_stack_overflow(text: str) -> None:
    with pytest.raises(Undecidable, match="nested more than 650 levels"):
        hash_structured(text)


def test_hundreds_of_nested_collections_are_read() -> None:
    assert hash_structured("[" * 600 + "]" * 600) == hash_structured("- " * 599 + "[]")


def test_a_yaml_bomb_is_refused_as_the_original_refuses_it() -> None:
    with pytest.raises(Unparseable, match="too many aliases"):
        hash_structured(BOMB)


def test_a_hundred_aliases_of_one_anchor_are_one_too_many() -> None:
    text = "- &a x\n"
    hash_structured(text + "- *a\n" * 99)
    with pytest.raises(Unparseable, match="line 101: one anchor is used by too many aliases"):
        hash_structured(text + "- *a\n" * 100)


def test_aliases_that_stay_below_the_limit_cannot_expand_without_bound() -> None:
    text = f"- &a {'x' * 1_000_000}\n" + "".join(f"- &b{number} [*a]\n" for number in range(98))
    with pytest.raises(Undecidable, match="64 MiB"):
        hash_structured(text)


@pytest.mark.parametrize("text", ["&a [*a]", "&a {k: *a}", "a: &x\n  - b: *x\n", "&a [&b [*a]]"])
def test_an_alias_inside_its_own_node_is_refused(text: str) -> None:
    with pytest.raises(Unparseable, match="inside the node"):
        hash_structured(text)


GROWING: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "[" + "[]," * n + "]",
    "open brackets": lambda n: "[" * n,
    "spaces": lambda n: "a:" + " " * n + "b",
    "tabs": lambda n: "a:" + "\t" * n + "b",
    "line breaks": lambda n: "a" + "\n" * n + "b",
    "comments": lambda n: "a: 1\n" + "#\n" * n,
    "gaps in flow": lambda n: "[" + "a\n\n\n," * (n // 5) + "]",
    "colons": lambda n: ":" * n,
    "dashes": lambda n: "-" * n,
    "quotes": lambda n: '"' * n,
    "single quotes": lambda n: "'" * n,
    "backslashes": lambda n: '"' + "\\" * n + '"',
    "unclosed": lambda n: '"' + "a\n" * (n // 2),
    "plain lines": lambda n: "a\n" * (n // 2),
    "plain words": lambda n: "a " * (n // 2),
    "literal": lambda n: "|\n" + " x\n" * (n // 3),
    "literal of spaces": lambda n: "|\n" + "  \n" * (n // 3),
    "keys": lambda n: "".join(f"k{number}: 1\n" for number in range(n // 8)),
    "anchors": lambda n: "".join(f"- &a{number} x\n" for number in range(n // 9)),
    "aliases of nothing": lambda n: "- &a []\n" + "- *a\n" * (n // 5),
    "aliases of nested nothing": lambda n: "- &a " + "[" * 300 + "]" * 300 + "\n" + "- *a\n" * (n // 5),
    "nested anchors": lambda n: (
        "- "
        + "".join(f"&a{depth} [" for depth in range(300))
        + "x, " * (n // 3)
        + "&z y, *z"
        + "]" * 300
        + "\n"
        + "".join(f"- *a{depth}\n" for depth in range(300))
    ),
    "warnings": lambda n: "- {__proto__: 1}\n" * (n // 16),
    "collection keys": lambda n: "{" + ",".join(f"[{number}]: 1" for number in range(n // 8)) + "}",
    "zigzag": lambda n: "".join(" " * (number % 40) + f"a{number}:\n" for number in range(n // 20)),
    "digits": lambda n: "a: " + "9" * n,
    "hex": lambda n: "a: 0x" + "f" * n,
    "directives": lambda n: "%A\n" * (n // 3),
    "CRLF": lambda n: "\r\n" * (n // 2),
    "tags": lambda n: "!" * n,
    "long key": lambda n: "a" * n + ": 1",
}


def _seconds(text: str) -> float:
    start = time.process_time()
    with contextlib.suppress(HashingError):
        hash_structured(text)
    return time.process_time() - start


@pytest.mark.parametrize("make", GROWING.values(), ids=list(GROWING))
def test_time_grows_no_faster_than_the_text(make: Callable[[int], str]) -> None:
    small = min(_seconds(make(10_000)) for _ in range(2))
    large = min(_seconds(make(80_000)) for _ in range(2))
    assert large < 0.05 + 30 * small, f"{small:.3f} s became {large:.3f} s for eight times the text"


def test_an_error_never_shows_the_content_of_the_file() -> None:
    secret = "hunter2secret"
    for text in (
        f"{secret}: [",
        f"a: '{secret}",
        f"{secret}: 1\n{secret}: 2\n",
        f"a: *{secret}",
        f"!{secret}! x",
        f'"\\q{secret}"',
        f"a: |{secret}\n",
        f"%{secret}\n",
        f"@{secret}",
        f"? [&{secret} x]\n: 1",
        f"a: !!timestamp {secret}",
    ):
        with pytest.raises(HashingError) as caught:
            hash_structured(text)
        assert secret not in str(caught.value)
        assert "\n" not in str(caught.value)
