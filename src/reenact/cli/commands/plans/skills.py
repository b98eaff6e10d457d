"""`reenact skills` lists the skills that there are; `reenact skill NAME` says what one of them declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from reenact.cli.options import JsonOption, SkillsOption

if TYPE_CHECKING:
    from reenact.cli.screens.printing import Segment
    from reenact.contracts.skill import SkillMetadata
    from reenact.skills.skill import Skill


def skills(skills: SkillsOption = None, as_json: JsonOption = False) -> None:
    """List the skills that plans may use: built in, installed, and given with --skills.

    Exit codes: 0 listed; 2 a file or module of skills cannot be loaded.
    """
    from reenact.cli.options import load_registry
    from reenact.cli.screens.printing import print_json, print_lines

    found = load_registry(skills).all()
    if as_json:
        print_json([as_document(item) for item in found])
    else:
        print_lines(table(found))


def as_document(skill: Skill) -> dict[str, object]:
    meta = skill.metadata
    return {
        "skill_id": meta.skill_id,
        "version": meta.version,
        "digest": skill.digest,
        "class": kind(skill),
        "idempotent": meta.idempotent,
        "honours_key": meta.honours_key,
        "in_doubt": meta.in_doubt,
        "side_effects": meta.side_effects,
        "description": meta.description,
        "origin": skill.origin,
    }


def kind(skill: Skill) -> str:
    """`read`, `write`, `read/write` where it depends on the call, `undeclared` where the author did not say."""
    meta = skill.metadata
    if meta.read_when:
        return "read/write"
    return meta.tool_class or "undeclared"


def table(found: list[Skill]) -> list[list[Segment]]:
    from reenact.cli.screens.printing import one_line

    names = [skill.metadata.reference for skill in found]
    width = max(len("SKILL"), *(len(name) for name in names))
    lines: list[list[Segment]] = [[(f"{'SKILL':<{width}}  {'CLASS':<10}  DESCRIPTION", "bold")]]
    for skill, name in zip(found, names, strict=True):
        description = one_line(skill.metadata.description)
        lines.append([(f"{name:<{width}}", "cyan"), (f"  {kind(skill):<10}  {description}", "")])
    return lines


# -- one skill -----------------------------------------------------------------------------------------------------


def skill(
    name: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="A skill; without a version, the highest.")],
    skills: SkillsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a skill declares: parameters, result, class, limits, effects, and the digest of all that.

    Exit codes: 0 shown; 2 no such skill or version, or a file of skills cannot be loaded.
    """
    import msgspec

    from reenact.cli.options import load_registry
    from reenact.cli.screens.printing import print_json, print_lines

    registry = load_registry(skills)
    skill_id, at, version = name.partition("@")
    found = registry.resolve(skill_id, version) if at else registry.highest(skill_id)
    versions = registry.versions(skill_id)
    if as_json:
        document = {"metadata": msgspec.to_builtins(found.metadata), "digest": found.digest}
        print_json({**document, "versions": versions, "origin": found.origin})
    else:
        print_lines(describe(found, versions))


def describe(found: Skill, versions: list[str]) -> list[list[Segment]]:
    from reenact.cli.screens.printing import one_line

    meta = found.metadata
    lines: list[list[Segment]] = [[(meta.reference, "bold cyan"), (f"  {one_line(meta.description)}", "")]]
    lines += [[(f"  {label:<14}", "dim"), (one_line(text), "")] for label, text in facts(found, versions) if text]
    for title, rows in (("parameters", parameters(meta)), ("result", result(meta))):
        lines.append([("", "")])
        lines.append([(title, "bold")])
        lines += [[("  " + one_line(row), "")] for row in rows]
    return lines


def facts(found: Skill, versions: list[str]) -> list[tuple[str, str]]:
    meta = found.metadata
    return [
        ("digest", found.digest),
        ("origin", found.origin or ""),
        ("versions", ", ".join(versions) if len(versions) > 1 else ""),
        ("class", kind(found) + (", high risk" if meta.high_risk else "")),
        ("read when", "; ".join(f"{key} is {' or '.join(values)}" for key, values in meta.read_when.items())),
        ("repeating", repeating(meta)),
        ("in doubt", meta.in_doubt),
        ("side effects", ", ".join(meta.side_effects)),
        ("reads", ", ".join(meta.resources.reads)),
        ("writes", ", ".join(meta.resources.writes)),
        ("time limit", f"{meta.timeout_ms} ms"),
        (
            "cost",
            "by tokens" if meta.cost_model else f"{meta.cost_estimate_cents} cents" if meta.cost_estimate_cents else "",
        ),
        ("permissions", ", ".join(meta.permissions)),
        ("public", ", ".join(meta.public)),
        ("secret fields", ", ".join(meta.redact)),
        ("stable fields", ", ".join(meta.stable_fields)),
        ("deaths in one call", "" if meta.max_redispatches is None else f"held after {meta.max_redispatches}"),
        ("may differ", ", ".join(meta.nondeterministic)),
        ("may fail with", ", ".join(meta.failure_modes)),
        ("owner", meta.owner or ""),
        ("tags", ", ".join(meta.tags)),
    ]


def repeating(meta: SkillMetadata) -> str:
    words = []
    if meta.idempotent:
        words.append("idempotent")
    if meta.honours_key:
        words.append("honours the idempotency key")
    return ", ".join(words) or "not repeatable"


def parameters(meta: SkillMetadata) -> list[str]:
    properties: dict[str, Any] = meta.input_schema.get("properties", {})
    required = set(meta.input_schema.get("required", ()))
    width = max((len(name) for name in properties), default=0)
    return [
        f"{name:<{width}}  {shape(schema)}{'' if name in required else default(schema)}"
        for name, schema in properties.items()
    ] or ["none"]


def result(meta: SkillMetadata) -> list[str]:
    schema = meta.output_schema
    if "$ref" in schema:
        schema = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    properties: dict[str, Any] = schema.get("properties", {})
    width = max((len(name) for name in properties), default=0)
    return [f"{name:<{width}}  {shape(field)}" for name, field in properties.items()] or [shape(schema)]


def shape(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "enum" in schema:
        return " | ".join(str(item) for item in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(shape(item) for item in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {shape(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def default(schema: dict[str, Any]) -> str:
    import msgspec

    if "default" not in schema:
        return "  (optional)"
    return f"  = {msgspec.json.encode(schema['default']).decode()}"
