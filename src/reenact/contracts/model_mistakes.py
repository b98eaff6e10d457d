"""Mistakes of a model that no plan can hold: a tool's name that cannot be one, arguments that are no JSON.

Such a call is refused as any other, and recorded: under the name `unknown`, with what was said among its parameters.
The keys begin with `$`, and what a model says has those escaped, so that only the session itself writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNKNOWN_TOOL: Final = "unknown"
"""The skill id of a call whose tool cannot be named as it was. Without a version it is nobody's."""
NAMED: Final = "$named"
INVALID: Final = "$invalid"
LONGEST: Final = 200


def misnamed(name: str, parameters: Mapping[str, object]) -> dict[str, object]:
    """The parameters of a call of `unknown`, with the name that was said."""
    return {**parameters, NAMED: speakable(name)}


def unusable(why: str) -> dict[str, object]:
    """Stands for parameters that cannot be recorded."""
    return {INVALID: speakable(why)}


def said_name(parameters: Mapping[str, object]) -> str | None:
    """The name that was said, where it is none."""
    name = parameters.get(NAMED)
    return name if isinstance(name, str) else None


def why_unusable(parameters: Mapping[str, object]) -> str | None:
    why = parameters.get(INVALID)
    return why if isinstance(why, str) and parameters.keys() <= {NAMED, INVALID} else None


def without_marks(parameters: Mapping[str, object]) -> dict[str, object]:
    """What of the parameters the model itself said."""
    return {key: value for key, value in parameters.items() if key not in (NAMED, INVALID)}


def speakable(text: str) -> str:
    """A bounded text that JSON can hold, whatever was said."""
    return text[:LONGEST].encode("utf-8", "replace").decode()
