"""`reenact skills`: which skills there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.cli.options import JsonOption, SkillsOption

if TYPE_CHECKING:
    from reenact.cli.screens.printing import Segment
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
