"""Field stability: the tables of which fields may decide anything, and a view of an outcome without the others.

Paths are dotted, `[]` stands for each item of a list. A bare name in `FORBIDDEN_FIELDS` counts at any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, NoReturn, cast

import msgspec

from reenact.errors import DeterminismViolation

Determinism = Literal["YES", "NO", "PARTIAL", "YES (order)"]


class OutcomeField(NamedTuple):
    """A row of the outcome's table."""

    field: str
    deterministic: Determinism
    affects_replay_assertion: Literal["YES", "NO"]
    notes: str


class PlanField(NamedTuple):
    """A row of the plan's table."""

    field: str
    deterministic: Determinism
    notes: str


class ForbiddenField(NamedTuple):
    """A field that must never influence behaviour or a replay's verdict, and why."""

    field: str
    reason: str


OUTCOME_FIELDS: Final = (
    OutcomeField("run_id", "NO", "NO", "Correlation only, unique per execution"),
    OutcomeField("step_id", "YES", "YES", "Must match plan step ordering"),
    OutcomeField("status", "YES", "YES", "Same result type → same status"),
    OutcomeField("code", "YES", "YES", "Core replay invariant"),
    OutcomeField("message", "NO", "NO", "Human-readable, may vary slightly"),
    OutcomeField("details", "PARTIAL", "NO", "Structure deterministic, content may vary"),
    OutcomeField("cost_cents", "YES", "YES", "Core budget invariant"),
    OutcomeField("latency_ms", "NO", "NO", "Depends on network/system"),
    OutcomeField("retryable", "YES", "YES", "Derived from error code"),
    OutcomeField("side_effects", "YES (order)", "YES", "Order must match, timestamps ignored"),
    OutcomeField("metadata.skill_id", "YES", "YES", "Immutable reference"),
    OutcomeField("metadata.skill_version", "YES", "YES", "Immutable reference"),
    OutcomeField("observability.trace_id", "NO", "NO", "Unique per execution"),
    OutcomeField("observability.span_id", "NO", "NO", "Unique per execution"),
    OutcomeField("observability.backend_retries", "YES", "YES", "Retry count invariant"),
    OutcomeField("timestamp", "NO", "NO", "Wall-clock, always differs"),
)

PLAN_FIELDS: Final = (
    PlanField("plan_id", "YES", "Immutable after creation"),
    PlanField("agent_id", "YES", "Immutable reference"),
    PlanField("goal", "YES", "Original goal text"),
    PlanField("steps[].step_id", "YES", "Stable ordering reference"),
    PlanField("steps[].skill_id", "YES", "Immutable per step"),
    PlanField("steps[].skill_version", "YES", "Pinned at plan creation"),
    PlanField("steps[].parameters", "YES", "Immutable inputs"),
    PlanField("context.budget_cents", "YES", "Budget at plan creation"),
    PlanField("context.allowed_skills", "YES", "Permissions at plan creation"),
    PlanField("created_at", "NO", "Informational only"),
)

FORBIDDEN_FIELDS: Final = (
    ForbiddenField("timestamp", "Wall-clock time varies"),
    ForbiddenField("latency_ms", "Network/system dependent"),
    ForbiddenField("trace_id", "Unique per execution"),
    ForbiddenField("span_id", "Unique per execution"),
    ForbiddenField("message", "Human-readable, may have minor variations"),
    ForbiddenField("details.response_body", "External API content"),
    ForbiddenField("details.llm_output", "LLM content varies"),
)

# What an item of `side_effects` promises: type and target; the attempt follows from the retry count.
_SIDE_EFFECT_FIELDS: Final = ("type", "target", "attempt")

# Where an outcome shows the skill's return value: the content of `details` that the tables call varying.
OUTPUT_REASON: Final = "what the skill returned, so external content"

_ANYWHERE: Final = {row.field: row.reason for row in FORBIDDEN_FIELDS if "." not in row.field}
_BY_PATH: Final = {
    **{row.field: row.notes for row in OUTCOME_FIELDS if row.deterministic == "NO"},
    **{row.field: row.reason for row in FORBIDDEN_FIELDS},
    "details.output": OUTPUT_REASON,
    "output": OUTPUT_REASON,
}
_GIVEN: Final = frozenset(row.field for row in OUTCOME_FIELDS if row.deterministic != "NO") | {
    *(f"side_effects[].{name}" for name in _SIDE_EFFECT_FIELDS)
}
_OPEN: Final = "details"  # the only place where names that no table lists are handed over
_UNLISTED: Final = "no stability table lists it, so nothing promises that it stays the same"

_MISSING: Final = object()


def why_forbidden(path: str) -> str | None:
    """The reason why decision code must not read `path` of an outcome, or None when it may.

    `path` is dotted from the outcome on: `latency_ms`, `observability.trace_id`, `side_effects[].timestamp`.
    """
    reason = _BY_PATH.get(path) or _ANYWHERE.get(path.rsplit(".", 1)[-1])
    if reason is not None:
        return reason
    top = path.split(".", 1)[0]
    given = top == _OPEN or any(path == row or row.startswith((f"{path}.", f"{path}[]")) for row in _GIVEN)
    return None if given else _UNLISTED


EVERYTHING: Final = "*"
"""In a skill's list of fields: the whole result."""


def field_of(result: object, field: str) -> object:
    """A field of what a skill returned, by its dotted name; None where the result has no such field."""
    for name in () if field == EVERYTHING else field.split("."):
        result = result.get(name) if isinstance(result, dict) else None
    return result


def without_fields(result: object, fields: Iterable[str]) -> object:
    """What a skill returned, without the fields that it declares to differ from call to call."""
    for field in fields:
        if field == EVERYTHING:
            return None
        result = _without(result, field.split("."))
    return result


def _without(value: object, names: list[str]) -> object:
    if not isinstance(value, dict) or names[0] not in value:
        return value
    if len(names) == 1:
        return {name: member for name, member in value.items() if name != names[0]}
    return {**value, names[0]: _without(value[names[0]], names[1:])}


class DecisionView(Mapping[str, object]):
    """An outcome as decision code may see it: deterministic fields, by attribute or by subscript.

    Reading a forbidden field in any way (attribute, subscript, `get`, `in`) raises DeterminismViolation,
    whether the outcome has it or not; so does a field that the outcome has and no table lists. Iterating,
    `items()`, `==` and `repr` speak of deterministic fields alone. The view keeps no value of what it leaves
    out. Nested objects are views too, lists are tuples. It cannot be changed.
    """

    __slots__ = ("_fields", "_path", "_withheld")
    _fields: dict[str, object]
    _path: str
    _withheld: frozenset[str]

    def __init__(self, outcome: object, *, path: str = "") -> None:
        members = _members(outcome)
        if members is None:
            raise TypeError(f"a DecisionView is made from a mapping or a struct, not from {type(outcome).__name__}")
        given = {
            name: _view_of(value, _join(path, name))
            for name, value in members.items()
            if why_forbidden(_join(path, name)) is None
        }
        _fill(self, given, path, frozenset(members.keys() - given.keys()))

    @property
    def ok(self) -> bool:
        """True for success and partial: the call did something that can be used."""
        return self["status"] in ("success", "partial")

    def __getattr__(self, name: str) -> object:
        value = self._look_up(name)
        if value is _MISSING:
            raise AttributeError(f"the decision view has no field {_join(self._path, name)!r}")
        return value

    def __getitem__(self, key: str) -> object:
        value = self._look_up(key)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def _look_up(self, name: object) -> object:
        if not isinstance(name, str):
            return _MISSING
        value = self._fields.get(name, _MISSING)
        if value is _MISSING:
            path = _join(self._path, name)
            reason = why_forbidden(path)
            if reason is not None and (reason != _UNLISTED or name in self._withheld):
                raise DeterminismViolation(
                    f"decision code read {path!r}, which must not affect behaviour: {reason}; "
                    "decide on code, status, retryable, cost_cents or side_effects instead"
                )
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __bool__(self) -> bool:
        return bool(self._fields)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a decision view cannot be changed: {name!r} was assigned")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a decision view cannot be changed: {name!r} was deleted")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._fields})

    def __repr__(self) -> str:
        return "DecisionView(" + ", ".join(f"{name}={value!r}" for name, value in self._fields.items()) + ")"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._fields, self._path, self._withheld)


def _fill(view: DecisionView, fields: dict[str, object], path: str, withheld: frozenset[str]) -> None:
    object.__setattr__(view, "_fields", fields)
    object.__setattr__(view, "_path", path)
    object.__setattr__(view, "_withheld", withheld)


def _restored(fields: dict[str, object], path: str, withheld: frozenset[str]) -> DecisionView:
    view = DecisionView.__new__(DecisionView)
    _fill(view, fields, path, withheld)
    return view


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _members(value: object) -> dict[str, object] | None:
    """The named members of a mapping, a struct or another view; None for anything else."""
    if isinstance(value, msgspec.Struct):
        pairs = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: member for name, member in pairs if member is not msgspec.UNSET}
    if isinstance(value, Mapping):
        return {str(name): member for name, member in cast("Mapping[object, object]", value).items()}
    return None


def _view_of(value: object, path: str) -> object:
    if isinstance(value, list | tuple):
        return tuple(_view_of(item, f"{path}[]") for item in value)
    if isinstance(value, Mapping | msgspec.Struct):
        return DecisionView(value, path=path)
    return value
