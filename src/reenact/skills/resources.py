"""The resources of one call, from the names that its skill declares."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import msgspec

from reenact.contracts.skill import Resources, SkillMetadata


def resources_of(metadata: SkillMetadata, parameters: Mapping[str, Any]) -> Resources:
    """The declared names with parameters filled in.

    Resource names stand in the chain, which holds no values: only parameters that the skill declares
    `public` are filled in, and only scalars. Every other placeholder stays as it was written.
    """

    def fill(template: str) -> str:
        return "".join(
            literal + ("" if field is None else _scalar(field, metadata, parameters))
            for literal, field, _, _ in string.Formatter().parse(template)
        )

    return Resources(
        reads=tuple(fill(item) for item in metadata.resources.reads),
        writes=tuple(fill(item) for item in metadata.resources.writes),
    )


def _scalar(field: str, metadata: SkillMetadata, parameters: Mapping[str, Any]) -> str:
    value = parameters.get(field)
    if field not in metadata.public or isinstance(value, bool) or not isinstance(value, str | int | float):
        return "{" + field + "}"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
