"""The events of a replay log as lines for a terminal, and what is known of each: its tool, and whether it failed."""

from __future__ import annotations

from typing import Final

from reenact.cli.screens.printing import Segment, brief, one_line, plural, short
from reenact.trace.events import (
    PlanStart,
    ReplayEvent,
    ReplayHeader,
    SessionEnd,
    SessionStart,
    SessionStatus,
    StepComplete,
    StepStatus,
    ToolCall,
    ToolResult,
    UnknownEvent,
    Verification,
)
from reenact.trace.hashing import canonical
from reenact.trace.reader import ReplaySummary
from reenact.trace.verifying import VerificationResult

MOST_VALUE: Final = 160
MOST_KNOWN: Final = 10_000
MOST_MISMATCHES: Final = 20
BAD_STEPS: Final = (StepStatus.Failed, StepStatus.MaxIterationsReached)


class Tools:
    """Which tool a result and a step belong to: as the calls before them said. Of very many, the latest."""

    def __init__(self) -> None:
        self._by_id: dict[str, str] = {}
        self._by_step: dict[str, str] = {}

    def of(self, event: ReplayEvent) -> str | None:
        """The tool that an event belongs to; None where it belongs to the session as a whole."""
        if isinstance(event, ToolCall):
            for known, key in ((self._by_id, event.id), (self._by_step, event.step_id)):
                known.pop(key, None)
                known[key] = event.tool
                if len(known) > MOST_KNOWN:
                    del known[next(iter(known))]
            return event.tool
        if isinstance(event, ToolResult):
            return self._by_id.get(event.id)
        return self._by_step.get(event.step_id) if isinstance(event, StepComplete) else None


def is_failure(event: ReplayEvent) -> bool:
    """What somebody who looks for the fault wants to stop at."""
    if isinstance(event, ToolResult):
        return event.step_utility < 0 or event.exit_code not in (None, 0)
    if isinstance(event, StepComplete):
        return event.status in BAD_STEPS
    if isinstance(event, Verification):
        return any(event.exit_codes) or event.verification_delta < 0
    return isinstance(event, SessionEnd) and event.status != SessionStatus.Success


def event_line(event: ReplayEvent, tool: str | None) -> list[Segment]:
    """One event as one line."""
    style = "red" if is_failure(event) else ""
    time = time_of(event)
    return [(f"{one_line(time[11:23] if time else ''):<14}", "dim"), *said(event, tool, style)]


def time_of(event: ReplayEvent) -> str | None:
    return event.created_at if isinstance(event, ReplayHeader) else event.t


def said(event: ReplayEvent, tool: str | None, style: str) -> list[Segment]:
    if isinstance(event, ToolCall):
        return [(f"{event.tool}  ", "bold"), (f"{event.step_id}  {event.id}  ", ""), (value(event.params), "dim")]
    if isinstance(event, ToolResult):
        return [(f"{tool or event.id}  ", style or "green"), (result(event), style)]
    return [(sentence(event), style or ("bold" if isinstance(event, SessionStart | SessionEnd) else ""))]


def result(event: ToolResult) -> str:
    parts = ["failed" if is_failure(event) else "ok", f"{event.latency_ms} ms", f"utility {event.step_utility:g}"]
    if event.exit_code is not None:
        parts.append(f"exit code {event.exit_code}")
    if isinstance(event.output_preview, str):
        parts.append(shortened(event.output_preview))
    return "  ".join(parts)


def sentence(event: ReplayEvent) -> str:
    """What an event that is no call says."""
    if isinstance(event, ReplayHeader):
        return f"replay log of {event.producer}, {event.created_at}"
    if isinstance(event, SessionStart):
        issue = "" if event.issue_number is None else f"  issue {event.issue_number}"
        return f"session {event.session_id}  policy {event.policy_version}{issue}"
    if isinstance(event, PlanStart):
        return f"plan {short(event.plan_hash)}  {plural(event.step_count, 'step')}"
    if isinstance(event, StepComplete):
        return f"{event.step_id}  {event.status.value}  {plural(event.iterations, 'iteration')}"
    if isinstance(event, Verification):
        return f"verification {event.verification_delta:+d}  {commands(event)}"
    if isinstance(event, SessionEnd):
        sums = f"{plural(event.total_tool_calls, 'call')}  {event.total_latency_ms} ms"
        return f"session {event.status.value}  confidence {event.confidence:g}  {sums}"
    assert isinstance(event, UnknownEvent)
    return f"{event.event}  {value(event.content)}"


def commands(event: Verification) -> str:
    codes = [str(code) for code in event.exit_codes] + ["?"] * len(event.commands)
    return ", ".join(f"{command} → {code}" for command, code in zip(event.commands, codes, strict=False))


def value(found: object) -> str:
    """A value in as much of canonical JSON as fits a line."""
    from reenact.errors import CanonicalizationError

    try:
        return shortened(canonical(found).decode())
    except CanonicalizationError:  # an integer of 64 bits, which has no canonical form
        return shortened(repr(found))


def shortened(text: str) -> str:
    return brief(text) if len(text) <= MOST_VALUE else f"{one_line(text[:MOST_VALUE])}…"


def sums(summary: ReplaySummary) -> str:
    return (
        f"{plural(summary.events, 'event')}, {plural(summary.tool_calls, 'call')}, "
        f"{plural(summary.failed_steps, 'failed step')}; {summary.total_latency_ms} ms in tools, "
        f"average step utility {summary.average_step_utility:g}"
    )


def receipt_lines(fits: VerificationResult | None) -> list[str]:
    """Whether the receipt fits, and in which form its hashes were made; the first few mismatches."""
    if fits is None:
        return []
    if not fits.success:
        more = len(fits.mismatches) - MOST_MISMATCHES
        told = [f"receipt: {brief(text)}" for text in fits.mismatches[:MOST_MISMATCHES]]
        return [*told, f"receipt: and {more} more"] if more > 0 else told
    forms = ", ".join(f"{count} by {form}" for form, count in sorted(fits.hash_forms.items()))
    return [f"receipt: fits, {plural(fits.calls, 'call')}" + (f" (parameters hashed again: {forms})" if forms else "")]
