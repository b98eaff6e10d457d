"""The replay log of a session: REPLAY.jsonl, one event a line, and RECEIPT.json, what came of it.

In: lines of this or another producer, events, or a journal's lines and values. Out: events, sums over them, a receipt,
and whether log and receipt say the same. Of the journal only `from_journal.py` knows, by its written form. Begin with
`events.py`, then `reader.py`.
"""

from __future__ import annotations

from reenact.trace.cutting import command_output, output_preview
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
    read_event,
)
from reenact.trace.hashing import HashForm, canonical_hash, form_of
from reenact.trace.reader import ReplayReader, ReplaySummary
from reenact.trace.receipt import ReceiptToolCall, ReceiptVerification, SessionReceipt
from reenact.trace.verifying import VerificationResult, verify_replay
from reenact.trace.writer import ReplayWriter

__all__ = [
    "HashForm",
    "PlanStart",
    "ReceiptToolCall",
    "ReceiptVerification",
    "ReplayEvent",
    "ReplayHeader",
    "ReplayReader",
    "ReplaySummary",
    "ReplayWriter",
    "SessionEnd",
    "SessionReceipt",
    "SessionStart",
    "SessionStatus",
    "StepComplete",
    "StepStatus",
    "ToolCall",
    "ToolResult",
    "UnknownEvent",
    "Verification",
    "VerificationResult",
    "canonical_hash",
    "command_output",
    "form_of",
    "output_preview",
    "read_event",
    "verify_replay",
]
