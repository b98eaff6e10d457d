"""`skill_from_schema`: a tool that another library describes by a JSON Schema becomes a skill."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from reenact.contracts.skill import InDoubt, SkillMetadata, definition_digest
from reenact.errors import SkillDeclarationError, SkillError
from reenact.skills.declare import check_against_parameters, check_values, declared_fields, first_line, skill
from reenact.skills.plain import to_plain
from reenact.skills.schema.signature import CONTEXT_PARAMETER, Signature
from reenact.skills.skill import Skill

UNMADE: Final = "0.0.0"
MADE = re.compile(r"0\.0\.0\+[0-9a-f]{12}")
"""A version that was made of a definition: another definition has another one."""
DEFAULTS: Final = {
    name: parameter.default
    for name, parameter in inspect.signature(skill).parameters.items()
    if parameter.default is not parameter.empty and name != "name"
}
"""What `@skill` takes besides its id and version."""


def skill_from_schema(
    name: str,
    input_schema: Mapping[str, Any],
    function: Callable[..., Any],
    *,
    version: str | None = None,
    output_schema: Mapping[str, Any] | None = None,
    **declared: Any,
) -> Skill:
    """The skill `name` whose parameters are as a JSON Schema says; the function gets them by name.

    `declared` is what `@skill` takes. What is not declared is assumed for the worse: a write, and held when in doubt.
    Without a version it gets one made of its definition, so that another definition is another version.
    """
    if not callable(function):
        raise SkillDeclarationError(f"skill {name}: the third argument is the function that is called")
    frame = inspect.currentframe()
    caller = frame.f_back if frame else None
    signature = as_given(name, input_schema, output_schema or {}, function)
    made = foreign_skill(name, signature, function, version, declared)
    made.declared_in = str(caller.f_globals.get("__name__")) if caller else made.declared_in
    return made


def foreign_skill(
    skill_id: str, signature: Signature, function: Callable[..., Any], version: str | None, declared: Mapping[str, Any]
) -> Skill:
    """A skill of a function that was not written as one."""
    where = f"skill {skill_id}"
    refuse_unknown(declared, where)
    given = {**DEFAULTS, **declared, "skill_id": skill_id, "version": UNMADE if version is None else version}
    given["in_doubt"] = declared.get("in_doubt", cautious(declared))
    fields = declared_fields(given, where)
    check_values(fields, given["reconcile"], where)
    description = given["description"]
    metadata = SkillMetadata(
        **fields,
        name=skill_id,
        description=first_line(function) if description is None else description,
        input_schema=signature.input_schema,
        output_schema=signature.output_schema,
    )
    check_against_parameters(metadata, signature, where)
    if version is None:
        metadata = replace(metadata, version=f"{UNMADE}+{definition_digest(metadata)[:12]}")
    return Skill(function, metadata, signature, given["reconcile"])


def refuse_unknown(declared: Iterable[str], where: str) -> None:
    unknown = sorted(set(declared) - DEFAULTS.keys())
    if unknown:
        raise SkillDeclarationError(
            f"{where}: {unknown[0]} is nothing that a skill declares (there are: {', '.join(sorted(DEFAULTS))})"
        )


def cautious(declared: Mapping[str, Any]) -> InDoubt:
    """Nobody said what to do in doubt: only what cannot do harm twice is sent again."""
    if declared.get("reconcile") is not None:
        return "reconcile"
    return "redispatch" if declared.get("tool_class") == "read" or declared.get("honours_key") else "hold"


def as_given(
    name: str, input_schema: Mapping[str, Any], output_schema: Mapping[str, Any], function: Callable[..., Any]
) -> Signature:
    """The parameters reach the function as they are; a first one named `ctx` that the schema does not know does not."""
    schemas = [as_json(name, schema) for schema in (input_schema, output_schema)]
    properties = schemas[0].get("properties")
    names = tuple(properties) if isinstance(properties, dict) else ()
    try:
        first = next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError):  # of what is not written in Python nobody knows
        first = None
    return Signature(
        takes_context=first == CONTEXT_PARAMETER and CONTEXT_PARAMETER not in names,
        names=names,
        parameters_type=None,
        input_schema=schemas[0],
        output_schema=schemas[1],
    )


def as_json(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain = to_plain(schema)
    except SkillError as error:
        raise SkillDeclarationError(f"skill {name}: its schema is not JSON: {error}") from None
    if not isinstance(plain, dict):
        raise SkillDeclarationError(f"skill {name}: a schema is an object, not a {type(schema).__name__}")
    return plain
