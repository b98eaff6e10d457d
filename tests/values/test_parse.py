"""Reading JSON strictly."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.errors import JsonSyntaxError, UsageError
from reenact.values import canonical
from reenact.values.canonical import MAX_DEPTH, canonicalize, parse_canonical, parse_json
from reenact.values.parse import _Reader
from tests.values.documents import random_document


def test_the_error_names_the_text_the_line_and_the_column() -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        parse_json('{\n  "a": 1,\n  "é": 2, "a": 3\n}', what="plan.json")
    assert str(caught.value) == "plan.json: a key that stands twice in one object (line 3, column 11)"
    assert (caught.value.line, caught.value.column) == (3, 11)
    assert caught.value.code == "ERR_JSON_INVALID"
    assert isinstance(caught.value, UsageError)


def test_columns_count_characters_and_not_bytes() -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        parse_json('["\U0001f510é", x]'.encode())
    assert caught.value.column == 8


@pytest.mark.parametrize("data", [b'{"a":[2.5,"\xc3\xa9"]}', '{"a":[2.5,"é"]}', bytearray(b'{"a":[2.5,"\xc3\xa9"]}')])
def test_bytes_and_text_are_read_alike(data: bytes | str) -> None:
    assert parse_json(data) == {"a": [2.5, "é"]}


def test_a_text_with_a_raw_surrogate_is_refused() -> None:
    with pytest.raises(JsonSyntaxError, match="lone surrogate"):
        parse_json('["\ud800"]')


def test_half_a_pair_of_surrogates_is_seen_behind_an_escaped_backslash() -> None:
    slash, high, low = "\\" * 2, "\\" + "ud83d", "\\" + "udd10"
    assert parse_json(f'"{slash}ud83d"') == "\\" + "ud83d"
    assert parse_json(f'"{slash}{high}{low}"') == "\\" + "\U0001f510"
    with pytest.raises(JsonSyntaxError, match="lone surrogate"):
        parse_json(f'"{slash}ud83d{low}"')


def test_numbers_keep_their_kind() -> None:
    values = parse_json("[1, 1.0, -0, 1e2, 12345678901234567.0]")
    assert [type(value) for value in values] == [int, float, int, float, float]  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [1e16, 2.0**53, -(2.0**53), 123456789012345680000.0, 1e20, [9e15, "1" * 30]])
def test_canonical_bytes_are_read_back_also_where_they_hold_large_floats(value: object) -> None:
    assert parse_canonical(canonicalize({"k": value})) == {"k": value}
    with pytest.raises(JsonSyntaxError, match="integer beyond"):
        parse_json(canonicalize({"k": [value, 1e16]}))


@pytest.mark.parametrize(
    ("data", "column"),
    [
        (b'{"b":1,"a":2}', 3),
        (b"[1, 2]", 4),
        (b"1.0", 2),
        (b'"' + b"\\" + b'u00e9"', 2),
        (b"[9007199254740993]", 17),
        (b"1" + b"0" * 21, 2),
        (b"1" + b"0" * 400, 1),
        (b'{"a":1}\n', 8),
    ],
)
def test_bytes_that_are_not_canonical_are_refused_where_they_leave_it(data: bytes, column: int) -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        parse_canonical(data)
    assert (caught.value.line, caught.value.column) == (1, column)


def carefully(data: bytes) -> object:
    """What `parse_canonical` gives without its short way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "_LONG_NUMBER", re.compile(b""))
        return told(data)


def told(data: bytes) -> object:
    try:
        return repr(parse_canonical(data))
    except JsonSyntaxError as error:
        return str(error)


AWKWARD = [
    b'{"a":1,"a":1}', b'{"a":1,"a":2}', b"1e21", b"1e+21", b"1E5", b"-0", b"0.0", b"1e-7", b"1e400", b"NaN", b"01",
    b'"\\ud800"', b'"\\ud83d\\udd10"', b'"\xed\xa0\x80"', b'"\xff"', b"\xef\xbb\xbf1", b"", b" 1", b"1 ", b"1,2",
    b"[1,]", b'"' + b"\x01" + b'"', b"[" * 256 + b"]" * 256, b"[" * 257 + b"]" * 257, b"[" * 500_000,
    b"123456789012345", b"9007199254740993", b"1234567890123456.5", b'"1234567890123456"', b"9" * 400,
]  # fmt: skip


@pytest.mark.parametrize("data", AWKWARD, ids=lambda data: repr(data[:24]))
def test_what_is_read_by_the_short_way_is_what_the_careful_one_reads(data: bytes) -> None:
    assert told(data) == carefully(data)


def test_so_it_is_with_any_document() -> None:
    source = random.Random(8785)
    for _ in range(2000):
        data = canonicalize(json.loads(json.dumps(random_document(source))))
        assert told(data) == carefully(data)
        cut = data[: source.randrange(len(data) + 1)] + data[source.randrange(len(data) + 1) :]
        assert told(cut) == carefully(cut)


def test_many_brackets_that_are_not_deep_are_fine() -> None:
    text = "[" + ",".join(["[{}]"] * 1000) + "]"
    assert parse_json(text) == [[{}]] * 1000
    assert parse_json('"' + "[" * 1000 + '"') == "[" * 1000


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_the_limit_of_nesting_is_that_of_canonical_json(pair: str) -> None:
    opening, closing = ("[", "]") if pair == "[]" else ('{"k":', "}")
    deepest = opening * (MAX_DEPTH - 1) + pair + closing * (MAX_DEPTH - 1)
    assert canonicalize(parse_json(deepest)) == deepest.encode()
    with pytest.raises(JsonSyntaxError, match="nested deeper"):
        parse_json(opening + deepest + closing)
    with pytest.raises(JsonSyntaxError, match="nested deeper"):
        parse_json(opening * 500_000)


def test_the_careful_reader_and_the_fast_one_read_the_same() -> None:
    source = random.Random(7159)
    for _ in range(3000):
        document = json.loads(json.dumps(random_document(source)))
        text = json.dumps(document, ensure_ascii=source.random() < 0.5, indent=source.choice([None, 1]))
        assert parse_json(text) == _Reader(text, "JSON").document() == document


@settings(max_examples=1000)
@given(st.text(alphabet='{}[]",:0123456789.eE+-\\u dtrufalsn\n', max_size=30))
def test_both_readers_accept_the_same_texts(text: str) -> None:
    def read(reader):
        try:
            return canonicalize(reader())
        except JsonSyntaxError as error:
            return error.line, error.column

    assert read(lambda: parse_json(text)) == read(lambda: _Reader(text, "JSON").document())


@settings(max_examples=500)
@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_a_place(data: bytes) -> None:
    try:
        value, place = parse_json(data), (1, 1)
    except JsonSyntaxError as error:
        value, place = None, (error.line, error.column)
    assert place >= (1, 1)
    assert place[0] <= data.count(b"\n") + 1
    assert parse_canonical(canonicalize(value)) == value
