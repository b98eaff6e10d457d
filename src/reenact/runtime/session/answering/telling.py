"""Calls and values beside the record: whether they are the same, and how an error tells them, without any secret."""

from __future__ import annotations

from reenact.contracts.model_mistakes import said_name
from reenact.runtime.session.plan import Document
from reenact.runtime.writing.redaction import Redactor
from reenact.values.canonical import canonicalize
from reenact.values.difference import shown


def is_as_recorded(redactor: Redactor, opened: object, value: object, hints: tuple[str, ...] = ()) -> bool:
    """Whether a value is the recorded one (decrypted); where secrets were taken out for good, whether the rest is.

    Those of the host always are, and in a recording that was made without a key all that is like one.
    """
    recorded = canonicalize(opened)
    return recorded == canonicalize(value) or recorded in (
        canonicalize(redactor.hide(value)),
        canonicalize(redactor.mark(value, hints)),
    )


def shown_call(redactor: Redactor, skill_id: str, parameters: object, hints: tuple[str, ...] = ()) -> Document:
    """A call as an error may tell it: without what looks like a secret."""
    named = said_name(parameters) if isinstance(parameters, dict) else None
    return {"skill_id": named or skill_id, "parameters": redactor.mark(parameters, hints)}


def on_a_line(call: Document) -> str:
    return f"{call['skill_id']} {shown(call['parameters'])}"


def listed(names: list[str]) -> str:
    """A few names, and how many more."""
    first = ", ".join(names[:3])
    return first if len(names) <= 3 else f"{first} and {len(names) - 3} more"
