"""Any function as a skill: named after it, with its parameters recorded by their names."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from reenact.contracts.plan_rules import SKILL_ID
from reenact.errors import SkillDeclarationError, UsageError
from reenact.skills.from_schema import DEFAULTS, foreign_skill
from reenact.skills.schema.signature import CONTEXT_PARAMETER, read_any_signature
from reenact.skills.skill import Skill
from reenact.values.digest import sha256_hex

LONGEST_CLEAN: Final = 119
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9_.-]")


class FunctionCall(NamedTuple):
    """A function that is about to be called, as a skill, and its arguments by name."""

    skill: Skill
    parameters: dict[str, Any]


def function_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None, declared: Mapping[str, Any]
) -> FunctionCall:
    """What a call of the function is recorded as; UsageError where it does not take these arguments."""
    while isinstance(function, functools.partial):
        args, kwargs = (*function.args, *args), {**function.keywords, **(kwargs or {})}
        function = function.func
    if isinstance(function, Skill):
        if declared:
            raise UsageError(f"{function.reference} has declared itself: leave out {', '.join(sorted(declared))}")
        context = (None,) if function.takes_context else ()
        found = arguments(function.function, (*context, *args), kwargs or {})
        return FunctionCall(function, {name: found[name] for name in found if not context or name != CONTEXT_PARAMETER})
    if not callable(function):
        raise UsageError(f"step takes a function and its arguments, and this is a {type(function).__name__}")
    words = tuple(sorted(declared.items()))
    make = remembered if is_hashable(function, words) else function_skill
    return FunctionCall(make(function, words), arguments(function, args, kwargs or {}))


def function_skill(function: Callable[..., Any], words: tuple[tuple[str, Any], ...]) -> Skill:
    """The function as a skill, declared by these words."""
    declared = dict(words)
    skill_id, version = declared.pop("skill_id", None) or name_of(function), declared.pop("version", None)
    own = sorted(declared.keys() - DEFAULTS.keys())
    if own:
        raise UsageError(
            f"{own[0]} is nothing that a skill declares; a keyword argument of the function itself goes into "
            f"kwargs={{{own[0]!r}: …}}"
        )
    where = f"skill {skill_id}"
    try:
        signature = read_any_signature(function, where)
    except (TypeError, ValueError):
        raise SkillDeclarationError(f"{where}: nobody can tell its parameters; wrap it in a function") from None
    return foreign_skill(skill_id, signature, by_name(function), version, declared)


remembered = functools.lru_cache(maxsize=128)(function_skill)
"""Reading a signature takes a millisecond, and an agent's loop makes the same step again and again."""


def is_hashable(function: Callable[..., Any], words: tuple[tuple[str, Any], ...]) -> bool:
    """Whether equal means the same: of an object that can be called nobody knows."""
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        return False
    return all(isinstance(value, Hashable) and not isinstance(value, tuple) for _, value in words)


def arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names of their parameters; what was left out is left to the function's own defaults."""
    signature = inspect.signature(function)
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise UsageError(f"{getattr(function, '__qualname__', function)}{signature}: {error}") from None


def by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called by the names of its parameters: each argument goes where the function takes it."""
    target = function if hasattr(function, "__name__") else type(function).__call__.__get__(function)
    signature = inspect.signature(target)

    @functools.wraps(target)
    def called(**given: Any) -> Any:
        bound = inspect.BoundArguments(signature, given)
        return target(*bound.args, **bound.kwargs)

    return called


def name_of(function: Callable[..., Any]) -> str:
    """`module.function` in the letters of an id; UsageError for what has no name of its own."""
    named = function if hasattr(function, "__qualname__") else type(function)
    qualname = named.__qualname__.replace("<locals>.", "")
    if "<" in qualname:
        raise UsageError('a lambda has no name that its record could be found by: give it one, skill_id="…"')
    name = f"{named.__module__}.{qualname}"
    if SKILL_ID.match(name):
        return name
    return f"{_NOT_IN_AN_ID.sub('_', name)[:LONGEST_CLEAN]}-{sha256_hex(name.encode())[:8]}"
