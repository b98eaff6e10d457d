"""Ids, versions, and the digest by which a changed definition is noticed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.contracts.skill import Resources, SkillMetadata, definition_digest, split_skill_id, version_key
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


def test_the_digest_covers_the_complete_metadata_with_defaults_filled_in() -> None:
    document = msgspec.to_builtins(META)
    assert set(document) == set(CHANGES)
    assert definition_digest(META) == sha256_hex(canonicalize(document))


@pytest.mark.parametrize("field", sorted(CHANGES))
def test_a_change_of_any_field_changes_the_digest(field: str) -> None:
    changed = msgspec.structs.replace(META, **{field: CHANGES[field]})
    assert definition_digest(changed) != definition_digest(META)


def test_the_digest_is_the_same_in_every_release() -> None:
    """Recorded runs carry it: a new field or default shows here first, and needs a line in the changelog."""
    assert definition_digest(META) == "2a57597efa3a1c5cf84cc1c5c5b1d50704fbd5f7e1b92fcd452fb442f77de431"


def test_fields_stand_in_canonical_order() -> None:
    names = [field.encode_name for field in msgspec.structs.fields(SkillMetadata)]
    assert names == sorted(names)


def test_metadata_survives_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(META), type=SkillMetadata) == META


@pytest.mark.parametrize(
    ("skill_id", "parts"),
    [("http_call", ("local", "http_call")), ("github.create-pr", ("github", "create-pr")), ("0", ("local", "0"))],
)
def test_an_id_is_a_tool_or_a_server_and_a_tool(skill_id: str, parts: tuple[str, str]) -> None:
    assert split_skill_id(skill_id) == parts


@pytest.mark.parametrize(
    "skill_id", ["", "A", "a.", ".a", "a..b", "a.b.c", "a b", "a\n", "ä", "x" * 65, "a." + "x" * 65]
)
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
