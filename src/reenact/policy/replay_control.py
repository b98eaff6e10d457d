"""Duplicate calls: within a turn, an idempotent call that succeeded is not made twice; one that failed may be.

`ReplayControl` works alone, in anybody's loop: no store, no clock, no waiting.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from msgspec import UNSET, UnsetType

from reenact.errors import ToolCallError
from reenact.values.legacy_json import sorted_json
from reenact.values.refusal import advice

DenialReason = Literal["duplicate", "blocked", "pre_hook", "validation", "deadline"]

DENIAL_REASONS: Final[tuple[str, ...]] = get_args(DenialReason)

_DEEPEST: Final = 200  # how far to look for what JSON cannot express; beyond that, depth itself is the answer


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a tool declares. `idempotent`: to call it again with the same arguments is a waste, not an effect."""

    name: str
    idempotent: bool = True


@dataclass(frozen=True, slots=True)
class ToolDenied:
    """A call that was not made, as the value that the model gets for it: `ToolDenied(reason="duplicate", details=…)`.

    `earlier_call_id` names the call that already has the answer, and `output` is that answer where it was kept:
    a model that is told no and given nothing asks again. Without one, `output` is UNSET, for None is an answer.
    """

    call_id: str = ""
    tool_name: str = ""
    reason: DenialReason | Literal[""] = ""
    """Needed: it stands behind the others for whoever gives them by place."""
    details: str = ""
    earlier_call_id: str | None = None
    output: object | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.reason not in DENIAL_REASONS:
            raise ToolCallError(f"a call is denied for one of {', '.join(DENIAL_REASONS)}; not for {self.reason!r}")


@dataclass(frozen=True, slots=True)
class _Success:
    call_id: str | None
    output: object | UnsetType


class ReplayControl:
    """Remembers the calls of one turn. Threads may share it; it never waits for a call.

    Two equal calls that run at the same time both pass: what they did is recorded only afterwards.
    """

    __slots__ = ("_lock", "_seen")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, _Success | None] = {}  # call key → its first success, None while there is none

    def should_skip(
        self, tool_name: str, arguments: Mapping[str, object] | None, spec: ToolSpec | None = None
    ) -> tuple[bool, str]:
        """Whether to leave this call out, and why; ask before the call is made.

        True only for an idempotent tool whose equal call succeeded before. A tool without a spec counts as
        idempotent. Arguments that could not be recorded afterwards are refused here, before any effect.
        """
        key = call_key(tool_name, arguments)
        if spec is not None and not spec.idempotent:
            return False, ""
        with self._lock:
            earlier = self._seen.get(key)
        if earlier is None:
            return False, ""
        named = f" (call {earlier.call_id})" if earlier.call_id is not None else ""
        return (
            True,
            f"{tool_name} already succeeded with the same arguments in this turn{named}; use that result",
        )

    def record_success(
        self,
        tool_name: str,
        arguments: Mapping[str, object] | None,
        spec: ToolSpec | None = None,
        *,
        call_id: str | None = None,
        output: object | UnsetType = UNSET,
    ) -> None:
        """Record that the call succeeded. A later denial carries `call_id`, and `output` if it is given."""
        self._record(tool_name, arguments, spec, _Success(call_id, output))

    def record_failure(
        self,
        tool_name: str,
        arguments: Mapping[str, object] | None,
        spec: ToolSpec | None = None,
    ) -> None:
        """Record that the call failed: it may be made again. An earlier success stays a success."""
        self._record(tool_name, arguments, spec)

    def record_timeout(
        self,
        tool_name: str,
        arguments: Mapping[str, object] | None,
        spec: ToolSpec | None = None,
    ) -> None:
        """Record that the call timed out: it may be made again."""
        self._record(tool_name, arguments, spec)

    def record_denied(
        self,
        tool_name: str,
        arguments: Mapping[str, object] | None,
        spec: ToolSpec | None = None,
    ) -> None:
        """Record that the call was denied: that is no success, so it may be asked for again."""
        self._record(tool_name, arguments, spec)

    def history_size(self) -> int:
        """How many distinct pairs of name and arguments were recorded."""
        with self._lock:
            return len(self._seen)

    def deny_duplicate(
        self, call_id: str, tool_name: str, arguments: Mapping[str, object] | None, details: str = ""
    ) -> ToolDenied:
        """The denial to hand back after `should_skip` said so, with what the earlier call left."""
        key = call_key(tool_name, arguments)
        with self._lock:
            earlier = self._seen.get(key) or _Success(None, UNSET)
        return ToolDenied(
            call_id=call_id,
            tool_name=tool_name,
            reason="duplicate",
            details=details,
            earlier_call_id=earlier.call_id,
            output=earlier.output,
        )

    def _record(
        self,
        tool_name: str,
        arguments: Mapping[str, object] | None,
        spec: ToolSpec | None,
        success: _Success | None = None,
    ) -> None:
        """The first success stays. That of a tool which is not idempotent lets nothing be left out, whoever asks."""
        key = call_key(tool_name, arguments)
        if spec is not None and not spec.idempotent:
            success = None
        with self._lock:
            self._seen[key] = self._seen.get(key) or success


def call_key(tool_name: str, arguments: Mapping[str, object] | None) -> str:
    """The key under which equal calls are found: MD5 over the name and the arguments with their keys sorted.

    `1` and `1.0` are different arguments; the order of keys makes no difference. The hash finds repetitions
    and protects nothing. ToolCallError for arguments that JSON cannot express.
    """
    plain = dict(arguments) if isinstance(arguments, Mapping) else arguments
    try:
        raw = f"{tool_name}:{sorted_json(plain)}".encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = _problem(plain, "", 0) or "a name or a number that cannot be written as text"
        raise ToolCallError(f"the call to {tool_name!a} has {problem}") from error
    return hashlib.md5(raw, usedforsecurity=False).hexdigest()


def _problem(value: object, path: str, depth: int) -> str | None:
    """The first thing in `value` that JSON cannot express, with its place; never the value itself."""
    place = f"at {path}" if path else "as its arguments"
    if value is None or isinstance(value, str | int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"a number that is not finite {place}; leave it out or pass a string"
    if depth > _DEEPEST:
        return "arguments that are nested too deeply or contain themselves; pass less of them"
    if isinstance(value, dict):
        return _problem_of_keys(value, place) or _first_problem(value.items(), path, depth)
    if isinstance(value, list | tuple):
        return _first_problem(enumerate(value), path, depth)
    return f"{advice(value)} {place}"


def _problem_of_keys(value: dict[object, object], place: str) -> str | None:
    wrong = [key for key in value if key is not None and not isinstance(key, str | int | float)]
    if wrong:
        return f"a key of type {type(wrong[0]).__name__} {place}; use text for every key"
    try:
        sorted(value)  # type: ignore[type-var]  # whether the keys can be sorted is the question
    except TypeError:
        return f"keys of mixed types {place}; use text for every key"
    return None


def _first_problem(members: object, path: str, depth: int) -> str | None:
    for name, member in members:  # type: ignore[attr-defined]  # pairs of a dict or of enumerate
        found = _problem(member, f"{path}/{name}", depth + 1)
        if found is not None:
            return found
    return None
