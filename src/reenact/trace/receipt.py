"""RECEIPT.json: what came of a session, call by call. Two shapes are in use; both are read, and one is written that
holds all members of either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, overload

import msgspec

from reenact.errors import JsonSyntaxError, ReceiptError, UsageError
from reenact.trace.events import Count, Utility
from reenact.trace.hashing import canonical, wide_integer
from reenact.trace.large_receipt import CALLS, members
from reenact.values.bounds import TooLarge, read_file
from reenact.values.parse import read
from reenact.values.threads import build

MOST_HELD: Final = 4 << 20
"""Larger receipts are read anew each time."""
SCHEMA_VERSION: Final = "1.0.0"

_TWO_NAMES: Final = {"ended_at": "completed_at", "policy_bundle_id": "policy_version"}
"""What one shape calls what the other does; written under both names."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """`extra` are the members that no shape names: kept, and written back."""

    extra: dict[str, Any] = {}

    def members(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in self.__struct_fields__ if name != "extra"}
        return {**self.extra, **named}


P = TypeVar("P", bound=Part)


class ReceiptToolCall(Part, frozen=True, kw_only=True):
    id: str
    tool: str
    params_hash: str
    output_hash: str
    step_utility: Utility
    latency_ms: Count
    side_effects: list[Any] = []


class ReceiptVerification(Part, frozen=True, kw_only=True):
    """Which commands were run to see whether the work is good, and how the tests changed by it."""

    commands_run: list[str] = []
    exit_codes: list[int] = []
    verification_delta: int = 0
    tests_before: int | None = None
    tests_after: int | None = None
    ci_status: str | None = None


class SessionReceipt(Part, frozen=True, kw_only=True):
    """`replay_hash` is the hash of the log's bytes, null where the producer gave none."""

    session_id: str
    started_at: str
    completed_at: str | None
    policy_version: str
    tool_calls: Sequence[ReceiptToolCall]
    verification: ReceiptVerification = ReceiptVerification()
    issue_number: int | None = None
    plan_hash: str | None = None
    final_confidence: float | None = None
    costs: dict[str, Any] = {}
    replay_hash: str | None = None
    signature: Any = None
    schema_version: str = SCHEMA_VERSION

    @classmethod
    def from_json(cls, data: bytes, *, name: str = "the receipt") -> SessionReceipt:
        """The receipt that these bytes are, in either shape; ReceiptError with what is wrong."""
        try:
            value = read(data, name, wide_integer)
        except JsonSyntaxError as error:
            raise ReceiptError(str(error)) from None
        try:
            return _receipt(value)
        except (msgspec.ValidationError, ValueError) as error:
            raise ReceiptError(f"{name}: no valid receipt: {error}") from None

    @classmethod
    def from_file(cls, path: str | Path) -> SessionReceipt:
        """As `from_json`. The calls of a large receipt stay in the file, and are read as they are asked for."""
        try:
            return cls.from_json(read_file(path, MOST_HELD), name=str(path))
        except TooLarge:
            return read_large(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error

    def members(self) -> dict[str, Any]:
        found = super().members()
        found["tool_calls"] = [call.members() for call in self.tool_calls]
        found["verification"] = self.verification.members()
        return found | {old: found[new] for old, new in _TWO_NAMES.items()}

    def to_canonical_json(self) -> str:
        """All members of both shapes; the file is this and a newline."""
        return canonical(self.members()).decode()


build(SessionReceipt)


class CallsInFile(Sequence[ReceiptToolCall]):
    """The calls of a large receipt. Whoever takes one by its number goes through the file for it."""

    def __init__(self, path: str | Path, count: int) -> None:
        self._path = path
        self._count = count

    def __iter__(self) -> Iterator[ReceiptToolCall]:
        return (_call(value, self._path) for name, value in members(self._path) if name == CALLS)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> ReceiptToolCall: ...
    @overload
    def __getitem__(self, index: slice) -> list[ReceiptToolCall]: ...
    def __getitem__(self, index: int | slice) -> ReceiptToolCall | list[ReceiptToolCall]:
        return list(self)[index]


def read_large(path: str | Path) -> SessionReceipt:
    """All of it is checked once; of the calls nothing is kept."""
    count = 0
    others: dict[str, Any] = {}
    try:
        for name, value in members(path):
            if name == CALLS:
                _call(value, path)
                count += 1
            else:
                others[name] = value
        receipt = _receipt({**others, CALLS: []})
    except (msgspec.ValidationError, ValueError) as error:
        raise ReceiptError(f"{path}: no valid receipt: {error}") from None
    msgspec.structs.force_setattr(receipt, CALLS, CallsInFile(path, count))
    return receipt


def _call(value: object, path: str | Path) -> ReceiptToolCall:
    try:
        return _part(value, ReceiptToolCall)
    except (msgspec.ValidationError, ValueError) as error:
        raise ReceiptError(f"{path}: no valid receipt: {error}") from None


def _receipt(value: object) -> SessionReceipt:
    if type(value) is not dict:
        raise ValueError("it is no JSON object")
    members = dict(value)
    for old, new in _TWO_NAMES.items():
        if old in members:
            other = members.pop(old)
            if members.setdefault(new, other) != other:
                raise ValueError(f"`{old}` and `{new}` are two names for one thing, and differ here")
    calls, verification = members.get("tool_calls"), members.get("verification")
    if isinstance(calls, list):
        members["tool_calls"] = [_part(call, ReceiptToolCall) for call in calls]
    if isinstance(verification, dict):
        members["verification"] = _part(verification, ReceiptVerification)
    return _part(members, SessionReceipt)


def _part(value: object, kind: type[P]) -> P:
    if type(value) is not dict:
        raise ValueError(f"a {kind.__name__} is a JSON object")
    extra = {key: item for key, item in value.items() if key not in kind.__struct_fields__ or key == "extra"}
    named = {key: item for key, item in value.items() if key not in extra}
    return msgspec.structs.replace(msgspec.convert(named, kind), extra=extra)
