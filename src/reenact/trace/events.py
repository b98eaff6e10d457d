"""The eight events of a replay log, each one line of canonical JSON; which one it is says its member `event`."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from reenact.trace.hashing import canonical
from reenact.values.threads import build

REPLAY_VERSION: Final = 1
MOST_ITERATIONS: Final = 255
"""What the field holds; a step with more of them says so beside it, in `iterations_total`."""

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)

Count = Annotated[int, Meta(ge=0)]
Utility = Annotated[float, Meta(ge=-1, le=1)]


class StepStatus(StrEnum):
    Success = "Success"
    Failed = "Failed"
    Skipped = "Skipped"
    MaxIterationsReached = "MaxIterationsReached"


class SessionStatus(StrEnum):
    Success = "Success"
    Failed = "Failed"
    Cancelled = "Cancelled"
    Timeout = "Timeout"


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """What all events have. `extra` are the members that the format does not name: kept, and written back."""

    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        time = getattr(self, "t", None)
        parse_time(getattr(self, "created_at", "") if time is None else time)

    def members(self) -> dict[str, Any]:
        """The JSON object that the event is."""
        named = {name: plain(getattr(self, name)) for name in FIELDS[type(self).__name__]}
        return {**self.extra, "event": type(self).__name__, **{k: v for k, v in named.items() if v is not UNSET}}

    def to_canonical_json(self) -> str:
        """One line of the log, without its newline: RFC 8785, so that keys are sorted and nothing is spaced."""
        return canonical(self.members()).decode()


class ReplayHeader(Event, frozen=True, kw_only=True):
    """The first line, and no other."""

    producer: str
    created_at: str
    replay_version: Annotated[int, Meta(ge=1)] = REPLAY_VERSION


class SessionStart(Event, frozen=True, kw_only=True):
    """`policy_bundle_id`, as other producers say, is read as `policy_version`."""

    t: str
    session_id: str
    policy_version: str
    issue_number: int | None = None


class PlanStart(Event, frozen=True, kw_only=True):
    t: str
    plan_hash: str
    step_count: Count


class ToolCall(Event, frozen=True, kw_only=True):
    t: str
    id: str
    tool: str
    params: Any
    params_hash: str
    step_id: str


class ToolResult(Event, frozen=True, kw_only=True):
    """`step_utility` is the learning signal; `output_hash` covers the whole output, `output_preview` shows its ends."""

    t: str
    id: str
    output_hash: str
    step_utility: Utility
    latency_ms: Count
    exit_code: int | None = None
    output_preview: str | UnsetType | None = UNSET


class StepComplete(Event, frozen=True, kw_only=True):
    t: str
    step_id: str
    status: StepStatus
    iterations: Annotated[int, Meta(ge=0, le=MOST_ITERATIONS)]


class Verification(Event, frozen=True, kw_only=True):
    t: str
    commands: list[str]
    exit_codes: list[int]
    verification_delta: int


class SessionEnd(Event, frozen=True, kw_only=True):
    t: str
    status: SessionStatus
    confidence: float
    total_tool_calls: Count
    total_latency_ms: Count


class UnknownEvent(msgspec.Struct, frozen=True):
    """An event that this version does not know: read past, kept, and written back."""

    content: dict[str, Any]

    @property
    def event(self) -> str:
        return str(self.content["event"])

    @property
    def t(self) -> str | None:
        time = self.content.get("t")
        return time if isinstance(time, str) else None

    def members(self) -> dict[str, Any]:
        return self.content

    def to_canonical_json(self) -> str:
        return canonical(self.content).decode()


KnownEvent = ReplayHeader | SessionStart | PlanStart | ToolCall | ToolResult | StepComplete | Verification | SessionEnd
ReplayEvent = KnownEvent | UnknownEvent

KINDS: Final[dict[str, type[Event]]] = {
    kind.__name__: kind
    for kind in (ReplayHeader, SessionStart, PlanStart, ToolCall, ToolResult, StepComplete, Verification, SessionEnd)
}
FIELDS: Final = {name: tuple(f for f in kind.__struct_fields__ if f != "extra") for name, kind in KINDS.items()}
_NAMED: Final = {name: frozenset((*fields, "event")) for name, fields in FIELDS.items()}

build(*KINDS.values())


def read_event(value: object) -> ReplayEvent:
    """The event that a JSON value is; ValueError with what is wrong with it."""
    if type(value) is not dict:
        raise ValueError("an event is a JSON object")
    name = value.get("event")
    if type(name) is not str:
        raise ValueError("`event`, which names the kind of event, is missing or no text")
    kind = KINDS.get(name)
    if kind is None:
        return UnknownEvent(value)
    if kind is ReplayHeader and "replay_version" not in value:
        raise ValueError("Object missing required field `replay_version`")
    if kind is SessionStart and "policy_version" not in value and "policy_bundle_id" in value:
        value = {**value, "policy_version": value["policy_bundle_id"]}
        del value["policy_bundle_id"]
    named = _NAMED[name]
    extra = {key: item for key, item in value.items() if key not in named}
    if "extra" in extra:
        value = {key: item for key, item in value.items() if key in named}
    try:
        event: Any = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if extra:
        msgspec.structs.force_setattr(event, "extra", extra)
    return event  # type: ignore[no-any-return]


def parse_time(text: str) -> datetime:
    """The moment that an ISO 8601 text names; ValueError for any other text, and for days that do not exist."""
    if _TIME.fullmatch(text) is None:
        raise ValueError("a time is expected as in 2026-01-13T10:00:00Z")
    return datetime.fromisoformat(text)


def plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value
