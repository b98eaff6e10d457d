"""The language-neutral vectors: ours, and the shared ones where they are present."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from reenact.errors import CanonicalizationError, JsonSyntaxError
from reenact.values.canonical import _canonicalize_strictly, canonicalize, parse_canonical, parse_json
from reenact.values.digest import digest, sha256_hex

VECTORS = json.loads((Path(__file__).parents[2] / "test_vectors" / "canonical_json.json").read_text(encoding="utf-8"))


def double(ieee754_hex: str) -> float:
    (value,) = struct.unpack(">d", bytes.fromhex(ieee754_hex))
    return float(value)


def name(case: object) -> str:
    return str(case["name"]) if isinstance(case, dict) and "name" in case else str(case)[:16]


@pytest.mark.parametrize("case", VECTORS["good"], ids=name)
def test_a_text_has_the_canonical_bytes_of_its_vector(case: dict[str, str]) -> None:
    value = parse_json(case["text"])
    assert canonicalize(value).hex() == case["canonical_hex"]
    assert _canonicalize_strictly(value).hex() == case["canonical_hex"]
    assert digest(value) == sha256_hex(bytes.fromhex(case["canonical_hex"])) == case["sha256"]
    assert canonicalize(parse_canonical(bytes.fromhex(case["canonical_hex"]))).hex() == case["canonical_hex"]


@pytest.mark.parametrize("case", VECTORS["bad"], ids=name)
def test_a_text_is_refused_at_the_place_of_its_vector(case: dict[str, str]) -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        parse_json(bytes.fromhex(case["text_hex"]))
    assert (caught.value.line, caught.value.column) == (case["line"], case["column"])


@pytest.mark.parametrize("case", VECTORS["numbers"], ids=lambda case: case["ieee754_hex"])
def test_a_double_is_printed_as_in_its_vector(case: dict[str, str]) -> None:
    assert canonicalize(double(case["ieee754_hex"])).decode() == case["text"]


@pytest.mark.parametrize("bits", VECTORS["refused_numbers"])
def test_doubles_that_json_does_not_have_are_refused(bits: str) -> None:
    with pytest.raises(CanonicalizationError):
        canonicalize(double(bits))


def test_the_shared_edge_cases_pass(shared: Path) -> None:
    path = shared / "vectors" / "tga" / "derived" / "jcs_edge_cases.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    assert cases
    for case in cases:
        canonical = canonicalize(parse_json(case["input_json_text"]))
        assert canonical == case["rfc8785"].encode(), case["name"]
        assert sha256_hex(canonical) == case["sha256_hex"], case["name"]
