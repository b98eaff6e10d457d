"""Skills offered to a model as tools, and the way back: from the tool call that it asks for to the skill's id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reenact.builtin.llm.translation import anthropic_tool, spoken
from reenact.contracts.tool_results import check_style
from reenact.errors import UsageError
from reenact.runtime.session.messages import tool_name
from reenact.runtime.session.plan import Document
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill


def offered(registry: Registry, skill_ids: Iterable[str] | None, style: str) -> list[Document]:
    """The skills of these ids, in their highest versions and in the order of their ids, as a model API takes tools.

    Without ids: those that the program added to the built-in ones.
    """
    check_style(style)
    if isinstance(skill_ids, str):
        raise UsageError(f"tools takes a list of skill ids: tools([{skill_ids!r}])")
    ids = registry.added() if skill_ids is None else sorted(set(skill_ids))
    for skill_id in ids:
        refuse_shared_name(registry, tool_name(skill_id))
    tools = [tool(registry.highest(skill_id)) for skill_id in ids]
    return tools if style == "openai" else [anthropic_tool(item) for item in tools]


def tool(skill: Skill) -> Document:
    """In OpenAI's form."""
    # Which dialect a schema is written in is nothing to a model.
    schema = {key: value for key, value in skill.metadata.input_schema.items() if key != "$schema"}
    function = {"name": tool_name(skill.skill_id), "description": skill.metadata.description, "parameters": schema}
    return {"type": "function", "function": function}


def refuse_shared_name(registry: Registry, name: str) -> list[str]:
    """The ids of the skills that a model knows by this name, one or none; UsageError where there are more."""
    ids = [skill_id for skill_id in registry.ids() if tool_name(skill_id) == name]
    if len(ids) > 1:
        raise UsageError(f"{' and '.join(ids)} are both {name} to a model; give one of them another id")
    return ids


def asked_for(registry: Registry, tool_call: object) -> tuple[str, Any]:
    """(skill id, parameters) of a model's tool call, in whichever form; a name that no skill has stays as it is."""
    dump = getattr(tool_call, "model_dump", None)  # what a provider's SDK gives
    call = dump() if callable(dump) else tool_call
    try:
        name, arguments = spoken(dict(call)) if isinstance(call, Mapping) else ("", None)
    except (AttributeError, KeyError, TypeError):
        name = ""
    if not name:
        raise UsageError(f"{tool_call!r} is no tool call: it has a name, an id and arguments, in a provider's form")
    ids = refuse_shared_name(registry, name)
    return (ids[0] if ids else name), arguments
