"""Ids, versions, and the digest by which a changed definition is noticed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.contracts.skill import (
    Resources,
    SkillMetadata,
    definition_digest,
    split_skill_id,
    version_key,
    whole_digest,
)
from reenact.errors import SkillDeclarationError
from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex

META = SkillMetadata(
    skill_id="http_call",
    version="1.2.0",
    name="http_call",
    input_schema={"type": "object"},
    output_schema={},
)

# Every field, with a value other than META's. A field that is added to the metadata must be added here.
CHANGES: dict[str, object] = {
    "nondeterministic": ("at",),
    "max_redispatches": 1,
    "cost_estimate_cents": 1,
    "cost_model": "tokens",
    "description": "x",
    "failure_modes": ("ERR_HTTP_500",),
    "high_risk": True,
    "honours_key": True,
    "idempotent": True,
    "in_doubt": "hold",
    "input_schema": {"type": "array"},
    "isolation": "process",
    "name": "other",
    "output_schema": {"type": "null"},
    "owner": "me",
    "permissions": ("net",),
    "public": ("url",),
    "read_when": {"method": ("GET",)},
    "redact": ("token",),
    "resources": Resources(reads=("x",)),
    "retry": {"max_retries": 1},
    "side_effects": ("http_request",),
    "skill_id": "http_get",
    "stable_fields": ("status",),
    "tags": ("x",),
    "timeout_ms": 1,
    "tool_class": "read",
    "version": "1.2.1",
}


WORDS = {"description", "name", "owner", "tags"}


def test_the_digest_covers_the_metadata_with_defaults_filled_in_but_not_its_words() -> None:
    document = msgspec.to_builtins(META)
    assert set(document) == set(CHANGES)
    assert document.pop("nondeterministic") == (), "it came later: left out where nothing is declared"
    assert document.pop("max_redispatches") is None, "likewise"
    assert whole_digest(META) == sha256_hex(canonicalize(document))
    behaviour = {name: value for name, value in document.items() if name not in WORDS}
    assert definition_digest(META) == sha256_hex(canonicalize(behaviour))


@pytest.mark.parametrize("field", sorted(CHANGES))
def test_a_change_of_any_field_but_the_words_changes_the_digest(field: str) -> None:
    changed = msgspec.structs.replace(META, **{field: CHANGES[field]})
    assert whole_digest(changed) != whole_digest(META)
    assert (definition_digest(changed) != definition_digest(META)) == (field not in WORDS)


def schema(**of_the_property: object) -> dict[str, object]:
    return {
        "type": "object",
        "title": of_the_property.get("title"),
        "properties": {"description": {"type": "string", **of_the_property}},
        "$defs": {"title": {"enum": ["description"], **of_the_property}},
    }


@pytest.mark.parametrize("word", ["$comment", "description", "examples", "title"])
def test_words_in_a_schema_are_no_part_of_the_definition(word: str) -> None:
    plain, described = (msgspec.structs.replace(META, input_schema=it) for it in (schema(), schema(**{word: "x"})))
    assert definition_digest(plain) == definition_digest(described)


def test_a_property_that_is_called_like_a_word_is_part_of_it() -> None:
    without = {**schema(), "properties": {}}
    made = {definition_digest(msgspec.structs.replace(META, input_schema=it)) for it in (schema(), without)}
    assert len(made) == 2
    values = [{"properties": {"a": {"default": {"title": title}}}} for title in ("x", "y")]
    assert len({definition_digest(msgspec.structs.replace(META, input_schema=it)) for it in values}) == 2


@pytest.mark.parametrize("keyword", ["dependencies", "dependentRequired"])
def test_what_a_property_that_is_called_like_a_word_needs_is_part_of_it(keyword: str) -> None:
    needs = [{keyword: {"title": needed}} for needed in (["a"], ["b"])]
    assert len({definition_digest(msgspec.structs.replace(META, input_schema=it)) for it in needs}) == 2


def test_the_digest_is_the_same_in_every_release() -> None:
    """Recorded runs carry it: a new field or default shows here first, and needs a line in the changelog."""
    assert whole_digest(META) == "2a57597efa3a1c5cf84cc1c5c5b1d50704fbd5f7e1b92fcd452fb442f77de431"
    assert definition_digest(META) == "f668e9c4187b0d21d52ef5da2a7d2ad2172e29acdfbe32e9618d5e6fb17daae2"


def test_fields_stand_in_canonical_order() -> None:
    names = [field.encode_name for field in msgspec.structs.fields(SkillMetadata)]
    assert names == sorted(names)


def test_metadata_survives_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(META), type=SkillMetadata) == META


@pytest.mark.parametrize(
    ("skill_id", "parts"),
    [
        ("http_call", ("local", "http_call")),
        ("github.create-pr", ("github", "create-pr")),
        ("0", ("local", "0")),
        ("GetWeather", ("local", "x-bb52a1806854314ac30ca700580d7af2")),
        ("admin.tools.list", ("admin", "x-f15fbfcc08b15355e61a22fbcabc10b5")),
        ("a..b", ("a", "x-868dc77bc9bbfff4adda0a9cd587febe")),
        ("x" * 65, ("local", "x-9537c5fdf120482f7d58d25e9ed583f5")),
        ("MyServer.run", ("x-5e3e900585e7834b034d4f17187e521b", "run")),
        ("x-" + "0" * 32, ("local", "x-bfd12999cff6854f2242c3bdf6f5653c")),
        ("x-" + "g" * 32, ("local", "x-" + "g" * 32)),
    ],
)
def test_an_id_is_a_tool_or_a_server_and_a_tool(skill_id: str, parts: tuple[str, str]) -> None:
    assert split_skill_id(skill_id) == parts


@pytest.mark.parametrize("skill_id", ["", "a.", ".a", ".", "a b", "a\n", "ä", "a@b", "x" * 129, "a." + "x" * 127])
def test_anything_else_is_no_id(skill_id: str) -> None:
    with pytest.raises(SkillDeclarationError, match="is not a skill id"):
        split_skill_id(skill_id)


def test_versions_are_ordered_as_semver_orders_them() -> None:
    """The example of section 11 of semver 2.0.0, and numbers that texts would order wrongly."""
    ordered = [
        "0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2",
        "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.0+build", "1.2.0", "1.10.0", "2.0.0",
    ]  # fmt: skip
    assert sorted(set(ordered), key=version_key) == ordered


@pytest.mark.parametrize("version", ["1", "1.0", "v1.0.0", "1.0.0.0", "1.0.0-", "1.0.0-01", "1.0.0 ", "١.0.0", ""])
def test_what_semver_does_not_allow_is_no_version(version: str) -> None:
    with pytest.raises(SkillDeclarationError, match="is not a version"):
        version_key(version)


@given(st.tuples(st.integers(0, 999), st.integers(0, 999), st.integers(0, 999)), st.integers(0, 999))
def test_a_release_is_above_its_pre_releases_and_below_the_next_patch(numbers: tuple[int, int, int], n: int) -> None:
    major, minor, patch = numbers
    release = version_key(f"{major}.{minor}.{patch}")
    assert version_key(f"{major}.{minor}.{patch}-rc.{n}") < release < version_key(f"{major}.{minor}.{patch + 1}-0")
