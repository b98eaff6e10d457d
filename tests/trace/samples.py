"""Logs and receipts to try things on; the eight lines are those of the format's own description."""

from __future__ import annotations

from pathlib import Path

from reenact.trace import (
    PlanStart,
    ReceiptToolCall,
    ReceiptVerification,
    ReplayEvent,
    ReplayHeader,
    ReplayReader,
    SessionEnd,
    SessionReceipt,
    SessionStart,
    SessionStatus,
    StepComplete,
    StepStatus,
    ToolCall,
    ToolResult,
    Verification,
    canonical_hash,
)
from reenact.trace.hashing import hash_of_bytes

EIGHT_LINES = Path(__file__).parent / "eight_lines.jsonl"


def at(second: int) -> str:
    return f"2026-01-13T10:{second // 60 % 60:02}:{second % 60:02}Z"


def call_pair(
    number: int, *, tool: str = "file_read", utility: float = 0.2, params: object = None
) -> list[ReplayEvent]:
    params = {"path": f"src/{number}.py"} if params is None else params
    return [
        ToolCall(
            t=at(number),
            id=f"tc_{number}",
            tool=tool,
            params=params,
            params_hash=canonical_hash(params),
            step_id=f"step-{number}",
        ),
        ToolResult(
            t=at(number),
            id=f"tc_{number}",
            output_hash=canonical_hash({"n": number}),
            step_utility=utility,
            latency_ms=10 + number,
            exit_code=None,
        ),
    ]


def session(calls: int = 3, *, failing: int | None = None) -> list[ReplayEvent]:
    """A whole session; the call of number `failing` fails its step."""
    events: list[ReplayEvent] = [
        ReplayHeader(producer="reenact@0.1.0", created_at=at(0)),
        SessionStart(t=at(0), session_id="sess_1", policy_version="v1", issue_number=42),
        PlanStart(t=at(1), plan_hash=canonical_hash("plan"), step_count=calls),
    ]
    for number in range(1, calls + 1):
        failed = number == failing
        events += call_pair(number, utility=-0.4 if failed else 0.2)
        status = StepStatus.Failed if failed else StepStatus.Success
        events.append(StepComplete(t=at(number), step_id=f"step-{number}", status=status, iterations=1))
    events.append(Verification(t=at(90), commands=["make test"], exit_codes=[0], verification_delta=3))
    end = SessionStatus.Success if failing is None else SessionStatus.Failed
    latency = sum(event.latency_ms for event in events if isinstance(event, ToolResult))
    events.append(SessionEnd(t=at(91), status=end, confidence=0.92, total_tool_calls=calls, total_latency_ms=latency))
    return events


def text_of(events: list[ReplayEvent]) -> bytes:
    return "".join(event.to_canonical_json() + "\n" for event in events).encode()


def reader_of(events: list[ReplayEvent]) -> ReplayReader:
    return ReplayReader.from_bytes(text_of(events))


def receipt_of(events: list[ReplayEvent]) -> SessionReceipt:
    """The receipt that fits."""
    made = {event.id: event for event in events if isinstance(event, ToolCall)}
    checks = [event for event in events if isinstance(event, Verification)]
    calls = [
        ReceiptToolCall(
            id=event.id,
            tool=made[event.id].tool,
            params_hash=made[event.id].params_hash,
            output_hash=event.output_hash,
            step_utility=event.step_utility,
            latency_ms=event.latency_ms,
        )
        for event in events
        if isinstance(event, ToolResult)
    ]
    return SessionReceipt(
        session_id="sess_1",
        started_at=at(0),
        completed_at=at(91),
        policy_version="v1",
        issue_number=42,
        plan_hash=canonical_hash("plan"),
        tool_calls=calls,
        verification=ReceiptVerification(
            commands_run=[command for event in checks for command in event.commands],
            exit_codes=[code for event in checks for code in event.exit_codes],
            verification_delta=sum(event.verification_delta for event in checks),
        ),
        final_confidence=0.92,
        replay_hash=hash_of_bytes(text_of(events)),
    )
