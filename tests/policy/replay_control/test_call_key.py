"""The key is the one that the original loop computes, byte by byte."""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import ToolCallError
from reenact.policy.replay_control import ReplayControl, ToolSpec, call_key

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
ARGUMENTS = st.dictionaries(st.text(), JSON, max_size=5)
NAMES = st.text(st.characters(exclude_categories=["Cs"]))


def original(tool_name: str, arguments: Any) -> str:
    raw = f"{tool_name}:{json.dumps(arguments, sort_keys=True)}"
    return hashlib.md5(raw.encode()).hexdigest()


@given(NAMES, ARGUMENTS)
def test_the_key_equals_the_original_for_all_that_json_can_express(name: str, arguments: dict[str, Any]) -> None:
    assert call_key(name, arguments) == original(name, arguments)


@given(NAMES, ARGUMENTS, st.randoms(use_true_random=False))
def test_the_order_of_keys_makes_no_difference(name: str, arguments: dict[str, Any], random: Any) -> None:
    items = list(arguments.items())
    random.shuffle(items)
    assert call_key(name, dict(items)) == call_key(name, arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "key"),
    [
        ("web_search", {"q": "capital of France"}, "98e3033999d9bc82accfc8a6465fee46"),
        ("t", {"b": 2, "a": 1}, "66e25ef632afd6f7364deafb4092f9cd"),
        ("t", {"é": "ü", "n": None, "x": [1, 1.0, True]}, "32afc2281a6321da039b17bec304eb2b"),
        ("", {}, "e3dba086fd0368223492b2921db61dc7"),
    ],
)
def test_known_keys(name: str, arguments: dict[str, Any], key: str) -> None:
    assert call_key(name, arguments) == key


def test_an_integer_and_the_float_of_the_same_size_are_different_arguments() -> None:
    assert call_key("t", {"n": 1}) != call_key("t", {"n": 1.0})


def test_the_name_belongs_to_the_key() -> None:
    assert call_key("a", {}) != call_key("b", {})


def test_keys_of_one_type_are_written_as_the_standard_library_writes_them() -> None:
    numbered: Any = {2: "b", 1: "a"}
    assert call_key("t", numbered) == original("t", numbered) == call_key("t", {"1": "a", "2": "b"})


def test_a_read_only_mapping_is_the_mapping_that_it_shows() -> None:
    assert call_key("t", MappingProxyType({"a": 1})) == call_key("t", {"a": 1})
    assert call_key("t", None) == original("t", None)


def endless() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    return loop


def deep() -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"x": value}
    return value


REFUSED: dict[str, tuple[Any, str]] = {
    "bytes": ({"body": b"secret"}, r"bytes .*encode it as text.* at /body"),
    "deep inside": ({"a": [{"b": object()}]}, r"type object, which JSON cannot express at /a/0/b"),
    "a set": ({"tags": {"x"}}, r"no order .*sorted list.* at /tags"),
    "NaN": ({"n": float("nan")}, r"not finite at /n"),
    "infinity": ({"n": [float("inf")]}, r"not finite at /n/0"),
    "mixed keys": ({"a": {1: 1, "b": 2}}, r"keys of mixed types at /a; use text for every key"),
    "mixed keys at the top": ({1: 1, "b": 2}, r"keys of mixed types as its arguments"),
    "tuple keys": ({("a",): 1}, r"a key of type tuple as its arguments; use text"),
    "itself": (endless(), r"nested too deeply or contain themselves"),
    "too deep": (deep(), r"nested too deeply or contain themselves"),
}


@pytest.mark.parametrize(("arguments", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_arguments_that_json_cannot_express_are_refused_with_their_place(arguments: Any, says: str) -> None:
    with pytest.raises(ToolCallError, match=says) as caught:
        call_key("tool", arguments)
    assert str(caught.value).startswith("the call to 'tool' has ")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ToolCallError, match=r"the call to '\\ud800' has a name"):
        call_key("\ud800", {})


@pytest.mark.parametrize("spec", [None, ToolSpec("t"), ToolSpec("t", idempotent=False)])
def test_bad_arguments_are_refused_before_the_call_for_every_kind_of_tool(spec: ToolSpec | None) -> None:
    with pytest.raises(ToolCallError):
        ReplayControl().should_skip("t", {"body": b""}, spec)
