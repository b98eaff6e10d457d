"""Any JSON value has one hash, however it is written down."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.provenance import hash_raw, hash_structured
from reenact.provenance.yaml.javascript import join_surrogates, number_text, parse_json, pretty, quote, sorted_keys

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXT.filter(lambda key: key != "__proto__"), inner, max_size=4)
    ),
    max_leaves=12,
)


def expected(value: Any) -> str:
    """The canonical text, written the short way."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{quote(key)}:{expected(value[key])}" for key in sorted_keys(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(expected, value)) + "]"
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return number_text(float(value))


def block_style(value: Any, indent: int = 0) -> str:
    """The value as block YAML with quoted scalars; what stands behind `-` or `:`."""
    pad = "\n" + " " * indent
    if isinstance(value, dict) and value:
        return pad + pad.join(f"{json.dumps(key)}:{block_style(item, indent + 2)}" for key, item in value.items())
    if isinstance(value, list) and value:
        return pad + pad.join(f"-{block_style(item, indent + 2)}" for item in value)
    return " " + json.dumps(value, ensure_ascii=False)


@settings(max_examples=300)
@given(VALUES)
def test_json_compact_indented_and_block_yaml_have_the_same_hash(value: Any) -> None:
    digest = hash_raw(expected(value).encode())
    for text in (
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, indent=2),
        json.dumps(value, indent="\t"),
        block_style(value).lstrip("\n ") + "\n",
        "---" + block_style(value) + "\n",
    ):
        assert hash_structured(text) == digest, text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_prints_the_shortest_digits_that_read_back_in_javascripts_form(value: float) -> None:
    text = number_text(value)
    assert float(text) == value
    mantissa, _, exponent = text.lstrip("-").partition("e")
    assert len(mantissa.replace(".", "").strip("0")) <= 17
    if exponent:
        assert exponent[0] in "+-"
        assert not -7 < int(exponent) < 21
    else:
        assert value == 0 or 1e-6 <= abs(value) < 1e21


def test_numbers_at_the_edges_print_as_javascript_prints_them() -> None:
    cases = {
        1e21: "1e+21", 1e20: "100000000000000000000", 1e-6: "0.000001", 1e-7: "1e-7", 5e-324: "5e-324",
        -0.0: "0", 1.7976931348623157e308: "1.7976931348623157e+308", 123e-20: "1.23e-18", -1.5: "-1.5",
        4.35: "4.35", 2**53: "9007199254740992", 1.0: "1", 100.1: "100.1", 1e16: "10000000000000000",
        math.inf: "Infinity", -math.inf: "-Infinity", math.nan: "NaN",
    }  # fmt: skip
    assert {value: number_text(value) for value in cases} == cases


def test_array_indices_come_first_by_number_and_the_rest_by_utf16_code_unit() -> None:
    keys = ["b", "10", "9", "4294967295", "4294967294", "01", "-1", "😀", "\uffff", "a"]
    assert sorted_keys(keys) == ["9", "10", "4294967294", "-1", "01", "4294967295", "a", "b", "😀", "\uffff"]


def test_surrogates_join_to_characters_and_lone_ones_are_escaped() -> None:
    assert join_surrogates("\ud83d\ude00x\ud800") == "😀x\ud800"
    assert quote("\ud800\x01\x7f/") == '"\\ud800\\u0001\x7f/"'


@given(VALUES)
def test_indented_json_reads_back(value: Any) -> None:
    assert parse_json(pretty(value)) == parse_json(json.dumps(value))
