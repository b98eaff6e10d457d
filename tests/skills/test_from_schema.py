"""A tool that somebody else describes by a JSON Schema is a skill, and assumed for the worse."""

from __future__ import annotations

from typing import Any

import pytest

from reenact import SkillContext, skill_from_schema
from reenact.errors import SkillDeclarationError, SkillError
from tests.skills.contexts import make_context

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "where"}},
    "required": ["city"],
}


def weather(city: str) -> str:
    """Tells the weather."""
    return f"rain in {city}"


def test_it_takes_what_the_schema_says_and_gives_it_to_the_function_by_name() -> None:
    made = skill_from_schema("GetWeather", SCHEMA, weather)
    assert made.validate({"city": 5}) == ['/city: the value is not of type "string"']
    assert made.call_sync(make_context(), {"city": "Bergen"}) == "rain in Bergen"
    assert made.metadata.description == "Tells the weather."


def test_what_is_not_declared_is_a_write_of_high_risk_that_is_held_in_doubt() -> None:
    made = skill_from_schema("GetWeather", SCHEMA, weather)
    assert (made.tool_class_of({}), made.risk_level_of({}), made.metadata.in_doubt) == ("write", "HIGH_RISK", "hold")


@pytest.mark.parametrize(
    ("declared", "in_doubt"),
    [
        ({"tool_class": "read"}, "redispatch"),
        ({"honours_key": True}, "redispatch"),
        ({"reconcile": lambda ctx, city: None}, "reconcile"),
        ({"tool_class": "read", "in_doubt": "hold"}, "hold"),
        ({"tool_class": "write", "idempotent": True}, "hold"),
    ],
)
def test_only_what_can_do_no_harm_twice_is_sent_again_unasked(declared: dict[str, Any], in_doubt: str) -> None:
    assert skill_from_schema("t", SCHEMA, weather, **declared).metadata.in_doubt == in_doubt


def test_without_a_version_it_has_one_of_its_definition_and_not_of_its_words() -> None:
    versions = {
        skill_from_schema("t", {**SCHEMA, **words}, weather, description=said).version
        for words, said in (({}, "a"), ({"title": "x"}, "b"), ({"description": "y"}, None))
    }
    changed = skill_from_schema("t", {**SCHEMA, "required": []}, weather).version
    held = skill_from_schema("t", SCHEMA, weather, timeout_ms=5).version
    assert len(versions) == 1
    assert len({*versions, changed, held}) == 3
    assert all(version.startswith("0.0.0+") for version in versions)
    assert skill_from_schema("t", SCHEMA, weather, version="1.2.3").reference == "t@1.2.3"


def test_a_first_parameter_named_ctx_gets_the_context() -> None:
    def keyed(ctx: SkillContext, **given: Any) -> Any:
        return [ctx.idempotency_key, given]

    made = skill_from_schema("t", {"type": "object"}, keyed)
    assert made.call_sync(make_context(), {"user-id": 1, "class": "x"}) == ["key-1", {"user-id": 1, "class": "x"}]


def test_an_output_schema_is_held_to() -> None:
    made = skill_from_schema("t", SCHEMA, weather, output_schema={"type": "integer"})
    with pytest.raises(SkillError, match="the result is not what t@"):
        made.call_sync(make_context(), {"city": "Oslo"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("t", [], weather), "a schema is an object"),
        (("t", {"type": b"x"}, weather), "its schema is not JSON"),
        (("t", {"type": "nothing"}, weather), "skill t@0.0.0"),
        (("t", {"$ref": "https://example.com/x"}, weather), "remote references are never fetched"),
        (("t", SCHEMA, "weather"), "the function that is called"),
        (("t t", SCHEMA, weather), "is not a skill id"),
    ],
)
def test_what_is_no_tool_is_refused_at_once(arguments: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(SkillDeclarationError, match=message):
        skill_from_schema(*arguments)


def test_a_word_that_a_skill_does_not_know_is_refused_with_those_that_it_does() -> None:
    with pytest.raises(SkillDeclarationError, match=r"idempotency is nothing that a skill declares .*idempotent"):
        skill_from_schema("t", SCHEMA, weather, idempotency=True)
