"""Vectors of the replay log and its receipt: lines, what is wrong with others, hashes in both forms, mismatches."""

from __future__ import annotations

from typing import Any

from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex
from tools.vectors.pieces import Json

CREATED = "2026-01-13T10:00:00Z"


def hash_of(value: Any) -> str:
    return "sha256:" + sha256_hex(canonicalize(value))


def at(second: int) -> str:
    return f"2026-01-13T10:00:{second:02}Z"


def call(number: int, tool: str, params: Json, output: Any, utility: float) -> list[Json]:
    name, t = f"tc_{number:03}", at(number)
    return [
        {
            "event": "ToolCall", "t": t, "id": name, "tool": tool, "params": params, "params_hash": hash_of(params),
            "step_id": f"step-{number}",
        },
        {
            "event": "ToolResult", "t": t, "id": name, "output_hash": hash_of(output), "exit_code": None,
            "step_utility": utility, "latency_ms": 40 + number,
        },
    ]  # fmt: skip


def session() -> list[Json]:
    """Two calls, the second of which fails."""
    return [
        {"event": "ReplayHeader", "replay_version": 1, "producer": "reenact@0.1.0", "created_at": CREATED},
        {
            "event": "SessionStart", "t": CREATED, "session_id": "sess_abc123", "issue_number": 42,
            "policy_version": "v1.2.3",
        },
        {"event": "PlanStart", "t": CREATED, "plan_hash": hash_of("plan"), "step_count": 2},
        *call(1, "file_read", {"path": "src/auth.rs"}, {"content": "fn main()", "error": None, "success": True}, 0.8),
        {"event": "StepComplete", "t": at(1), "step_id": "step-1", "status": "Success", "iterations": 1},
        *call(2, "shell", {"command": "make", "é": [1.5, None]}, {"content": "", "error": "2", "success": False}, -0.4),
        {"event": "StepComplete", "t": at(2), "step_id": "step-2", "status": "Failed", "iterations": 3},
        {
            "event": "Verification", "t": at(3), "commands": ["make test"], "exit_codes": [2],
            "verification_delta": -1,
        },
        {
            "event": "SessionEnd", "t": at(4), "status": "Failed", "confidence": 0.25, "total_tool_calls": 2,
            "total_latency_ms": 83,
        },
    ]  # fmt: skip


def lines(events: list[Json]) -> bytes:
    return b"".join(canonicalize(event) + b"\n" for event in events)


def receipt(events: list[Json]) -> Json:
    calls = {event["id"]: event for event in events if event["event"] == "ToolCall"}
    items = [
        {
            "id": event["id"], "tool": calls[event["id"]]["tool"], "params_hash": calls[event["id"]]["params_hash"],
            "output_hash": event["output_hash"], "step_utility": event["step_utility"],
            "latency_ms": event["latency_ms"], "side_effects": [],
        }
        for event in events
        if event["event"] == "ToolResult"
    ]  # fmt: skip
    verification = {"commands_run": ["make test"], "exit_codes": [2], "verification_delta": -1}
    unknown = {"tests_before": None, "tests_after": None, "ci_status": "fail"}
    return {
        "schema_version": "1.0.0", "session_id": "sess_abc123", "started_at": CREATED, "completed_at": at(4),
        "ended_at": at(4), "issue_number": 42, "plan_hash": hash_of("plan"), "policy_version": "v1.2.3",
        "policy_bundle_id": "v1.2.3", "tool_calls": items, "verification": {**verification, **unknown},
        "final_confidence": 0.25, "costs": {"total_tokens": 0}, "signature": None,
        "replay_hash": "sha256:" + sha256_hex(lines(events)),
    }  # fmt: skip


def bad() -> list[Json]:
    """Logs as hex; `line` counts from 1, `offset` is the byte where that line begins."""
    events = session()
    raw = [canonicalize(event) + b"\n" for event in events]
    whole = b"".join(raw)

    def put(number: int, line: bytes) -> bytes:
        return b"".join([*raw[: number - 1], line, *raw[number:]])

    cases: list[tuple[str, bytes, str, int]] = [
        ("an empty file", b"", "REPLAY_EMPTY", 1),
        ("no header", b"".join(raw[1:]), "REPLAY_HEADER_MISSING", 1),
        ("a second header", whole + raw[0], "REPLAY_HEADER_REPEATED", len(raw) + 1),
        ("a newer version", put(1, lines([{**events[0], "replay_version": 2}])), "REPLAY_VERSION_UNKNOWN", 1),
        ("a torn last line", whole[:-20], "REPLAY_TORN_TAIL", len(raw)),
        ("a last line without its newline", whole[:-1], "REPLAY_TORN_TAIL", len(raw)),
        ("a result without its call", put(4, b""), "REPLAY_RESULT_ORPHAN", 4),
        ("a call twice", put(6, raw[3]), "REPLAY_ID_REPEATED", 6),
        ("a result twice", put(6, raw[4]), "REPLAY_RESULT_REPEATED", 6),
        ("no JSON", put(3, b"{]\n"), "REPLAY_LINE_MALFORMED", 3),
        ("a key twice", put(3, b'{"event":"X","event":"X"}\n'), "REPLAY_LINE_MALFORMED", 3),
        ("a byte that is not UTF-8", put(3, b'{"event":"\xff"}\n'), "REPLAY_LINE_MALFORMED", 3),
        ("half a surrogate pair", put(3, b'{"event":"\\ud800"}\n'), "REPLAY_LINE_MALFORMED", 3),
        (
            "nested too deeply",
            put(3, b'{"event":"X","a":' + b"[" * 300 + b"]" * 300 + b"}\n"),
            "REPLAY_LINE_MALFORMED",
            3,
        ),
        ("a NUL byte", put(3, b'{"event":"X"}\0\n'), "REPLAY_NUL", 3),
        ("CR LF", whole.replace(b"\n", b"\r\n"), "REPLAY_CRLF", 1),
        ("a byte order mark", b"\xef\xbb\xbf" + whole, "REPLAY_BYTE_ORDER_MARK", 1),
        ("no object", put(3, b"1\n"), "REPLAY_EVENT_INVALID", 3),
        ("a field missing", put(3, lines([{"event": "PlanStart", "t": CREATED}])), "REPLAY_EVENT_INVALID", 3),
        ("a day that is none", put(3, raw[2].replace(b"-01-13", b"-02-31")), "REPLAY_EVENT_INVALID", 3),
    ]
    return [
        {
            "name": name, "log": data.hex(), "code": code, "line": line,
            "offset": sum(map(len, data.splitlines(keepends=True)[: line - 1])),
        }
        for name, data, code, line in cases
    ]  # fmt: skip


def differing() -> list[Json]:
    """A receipt changed at a JSON Pointer, and the first mismatch that is found."""
    fits = receipt(session())
    zeros = "sha256:" + "0" * 64
    one = fits["tool_calls"][0]
    return [
        {"pointer": "/tool_calls/0/output_hash", "value": zeros,
         "mismatch": f"Tool file_read output mismatch: expected {zeros}, got {one['output_hash']}"},
        {"pointer": "/tool_calls/0/params_hash", "value": zeros,
         "mismatch": f"Tool file_read params mismatch: expected {zeros}, got {one['params_hash']}"},
        {"pointer": "/tool_calls/1/id", "value": "tc_009",
         "mismatch": "Tool shell (tc_002) is in the replay log, but not in the receipt"},
        {"pointer": "/tool_calls", "value": fits["tool_calls"][::-1],
         "mismatch": "Tool calls are in another order: "
                     "the receipt has tc_002 before tc_001, the replay log does not"},
        {"pointer": "/replay_hash", "value": zeros,
         "mismatch": f"Replay hash mismatch: expected {zeros}, got {fits['replay_hash']}"},
        {"pointer": "/session_id", "value": "sess_2",
         "mismatch": "Session id mismatch: expected sess_2, got sess_abc123"},
    ]  # fmt: skip


def hashes() -> list[Json]:
    """Texts as they stand in a log, and the hash that a producer gave for them, by its form."""
    given = [
        ('{"b":1.0,"a":2}', '{"a":2,"b":1}', '{"a":2,"b":1.0}'),
        ('{"\U0001f600":1,"\uffff":2}', '{"\U0001f600":1,"\uffff":2}', '{"\uffff":2,"\U0001f600":1}'),
        ("[1e16,1e15,-0.0,0.00001,1e-6]", "[10000000000000000,1000000000000000,0,0.00001,0.000001]",
         "[1e16,1000000000000000.0,-0.0,0.00001,1e-6]"),
        ('{"id":9223372036854775809}', None, '{"id":9223372036854775809}'),
    ]  # fmt: skip
    return [
        {
            "json": text,
            "rfc_8785": None if ours is None else "sha256:" + sha256_hex(ours.encode()),
            "code_points": "sha256:" + sha256_hex(theirs.encode()),
        }
        for text, ours, theirs in given
    ]


def replay_log_vectors() -> Json:
    return {
        "description": "A replay log and its receipt; logs that are refused, as hex; hashes in both forms.",
        "log": lines(session()).decode(),
        "receipt": receipt(session()),
        "sums": {"events": 11, "tool_calls": 2, "total_latency_ms": 83, "average_step_utility": 0.2},
        "bad": bad(),
        "differing": differing(),
        "hashes": hashes(),
    }
