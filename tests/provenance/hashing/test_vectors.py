"""Every hash that the original computed is ours, and where it refuses we refuse."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.provenance import HashingError, Undecidable, hash_raw, hash_structured, hash_structured_with_warnings
from reenact.provenance.hashing import canonical_text
from tests.provenance.vector_files import load

VECTORS = load("hash_vectors")
OBSERVATIONS = load("hash_observations")


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_structured_hash_is_the_originals_and_an_error_is_an_error(vector: dict[str, Any]) -> None:
    text = vector["yaml_text"]
    if "canonical" in vector:
        assert canonical_text(text)[0] == vector["canonical"]
        assert hash_structured(text) == vector["hash"]
    else:
        with pytest.raises(HashingError):
            hash_structured(text)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_raw_hash_is_the_originals(vector: dict[str, Any]) -> None:
    assert hash_raw(vector["yaml_text"].encode()) == vector["raw_hash"]


def test_observations_beyond_the_vectors_agree_or_are_refused() -> None:
    wrong = []
    for observed in OBSERVATIONS:
        text = observed["yaml_text"]
        try:
            found = canonical_text(text)[0]
        except HashingError:
            found = None
        expected = None if observed.get("undecided") else observed.get("canonical")
        if found != expected:
            wrong.append((text, expected, found))
    assert wrong == []


def test_at_most_one_in_twenty_of_the_observations_that_have_a_hash_is_undecided() -> None:
    hashed = [observed for observed in OBSERVATIONS if "canonical" in observed]
    undecided = [observed for observed in hashed if observed.get("undecided")]
    assert len(hashed) > 1000
    assert len(undecided) * 20 < len(hashed) * 1.2


def test_text_and_its_bytes_have_one_hash() -> None:
    text = "a: é\nb: [😀, '日本']\n"
    assert hash_structured(text) == hash_structured(text.encode())


def test_bytes_that_are_not_utf8_hash_with_replacement_characters() -> None:
    assert hash_structured(b"a: x\xff\xe2\x82y\n") == hash_structured("a: x\ufffd\ufffdy\n")


def test_a_key_named_proto_is_dropped_with_a_warning() -> None:
    digest, warnings = hash_structured_with_warnings("a: 1\nb:\n  __proto__: 5\n  c: 2\n")
    assert digest == hash_structured("a: 1\nb: {c: 2}\n")
    assert warnings == ["line 3: the hash does not cover a key named __proto__"]


def test_warnings_are_not_without_end() -> None:
    _, warnings = hash_structured_with_warnings("- {__proto__: 1}\n" * 500)
    assert len(warnings) == 11
    assert warnings[-1] == "there are more such places"


def test_an_undecided_construct_says_so_with_its_line_and_shows_no_content() -> None:
    with pytest.raises(Undecidable, match=r"line 2: a collection as a key is too complex") as caught:
        hash_structured("plain: 1\n? [&secret token-value, *secret]\n: 2\n")
    assert "token-value" not in str(caught.value)
    assert caught.value.line == 2
