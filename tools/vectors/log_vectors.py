"""Vectors of the log profile: transitions good and bad, what recovery finds, and one golden chain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, digest
from tools.vectors.pieces import DROP, Json, at, changed, uid, with_digest
from tools.vectors.scenarios import three_steps

Step = tuple[str, str, str]
REQUEST: Step = ("PENDING", "PENDING", "action_request")
APPROVE: Step = ("PENDING", "AUTHORIZED", "supervisor_decision")
DENY: Step = ("PENDING", "DENIED", "supervisor_decision")
CALL: Step = ("AUTHORIZED", "EXECUTING", "tool_call")
DONE: Step = ("EXECUTING", "COMPLETED", "tool_effect")
FAIL: Step = ("EXECUTING", "FAILED", "tool_effect")
GOOD = {
    "request only": [REQUEST],
    "denied": [REQUEST, DENY],
    "authorized": [REQUEST, APPROVE],
    "executing": [REQUEST, APPROVE, CALL],
    "completed": [REQUEST, APPROVE, CALL, DONE],
    "failed": [REQUEST, APPROVE, CALL, FAIL],
}
ACTIONS = {
    "PENDING": "ASK_THE_GATES",
    "AUTHORIZED": "PERSIST_THE_TOOL_CALL",
    "EXECUTING": "DISPATCH_THE_SAME_TOOL_CALL",
    "COMPLETED": "RETURN_THE_RECORDED_EFFECT",
    "FAILED": "RETURN_THE_RECORDED_EFFECT",
    "DENIED": "RETURN_THE_RECORDED_DECISION",
}


def chain(steps: Iterable[Step], changes: dict[int, Json] | None = None) -> list[Json]:
    """Entries with digests that recompute, also over what `changes` lays over the entry of that index."""
    entries: list[Json] = []
    for index, (source, target, kind) in enumerate(steps):
        called = kind in ("tool_call", "tool_effect")
        entry = {
            "schema_id": "talos.tga.execution_log_entry",
            "schema_version": "v1",
            "trace_id": uid(0x500),
            "sequence_number": index + 1,
            "prev_entry_digest": entries[-1]["entry_digest"] if entries else ZERO_DIGEST,
            "ts": at(index),
            "from_state": source,
            "to_state": target,
            "artifact_type": kind,
            "artifact_id": uid(0x501 + index),
            "artifact_digest": digest([kind, index]),
            "tool_call_id": uid(0x503) if called else None,
            "idempotency_key": uid(0x500) if called else None,
        }
        entries.append(with_digest(changed(entry, (changes or {}).get(index)), "entry_digest"))
    return entries


def bad(name: str, code: str, steps: list[Step], change: Json | None = None, at_entry: int | None = None) -> Json:
    last = len(steps) - 1 if at_entry is None else at_entry
    entries = chain(steps, {last: change or {}})
    return {"name": name, "entries": entries, "bad_entry": last + 1, "code": code}


def state_transition_vectors() -> Json:
    full = GOOD["completed"]
    invalid = "STATE_INVALID_TRANSITION"
    changed_after = chain(full)
    changed_after[2]["ts"] = at(999)
    cases = [
        bad("a sequence number repeated", "STATE_SEQUENCE_GAP", full[:2], {"sequence_number": 1}),
        bad("a sequence number skipped", "STATE_SEQUENCE_GAP", full[:2], {"sequence_number": 3}),
        bad("a log that starts at 2", "STATE_SEQUENCE_GAP", full[:1], {"sequence_number": 2}),
        bad(
            "a first entry that follows something", "STATE_CHECKSUM_MISMATCH", full[:1], {"prev_entry_digest": "f" * 64}
        ),
        bad("a link to another entry", "STATE_CHECKSUM_MISMATCH", full[:3], {"prev_entry_digest": ZERO_DIGEST}),
        bad("a digest that is not the entry's", "STATE_CHECKSUM_MISMATCH", full, {"entry_digest": "e" * 64}),
        bad("a log that starts with a decision", invalid, [APPROVE]),
        bad("a second request", invalid, [REQUEST, REQUEST]),
        bad("a call that nobody authorized", invalid, [REQUEST, ("PENDING", "EXECUTING", "tool_call")]),
        bad("an effect without a call", invalid, [REQUEST, ("PENDING", "COMPLETED", "tool_effect")]),
        bad("an effect after the approval alone", invalid, [*full[:2], ("AUTHORIZED", "COMPLETED", "tool_effect")]),
        bad("a way back", invalid, [*full[:3], ("EXECUTING", "AUTHORIZED", "supervisor_decision")]),
        bad("a call after a denial", invalid, [REQUEST, DENY, CALL]),
        bad("a second effect", invalid, [*full, DONE]),
        bad("an approval by the wrong artifact", invalid, [REQUEST, ("PENDING", "AUTHORIZED", "tool_call")]),
        bad("a from_state that is not the log's", invalid, [REQUEST, CALL]),
        bad("a tool_call without its id", "MISSING_TOOL_CALL_ID", full[:3], {"tool_call_id": None}),
        {
            "name": "an entry changed after its digest was made",
            "entries": changed_after,
            "bad_entry": 3,
            "code": "STATE_CHECKSUM_MISMATCH",
        },
    ]
    return {
        "description": "Logs of one trace. In `invalid`, bad_entry counts from 1: the first that is refused.",
        "valid": [{"name": name, "entries": chain(steps), "final_state": steps[-1][1]} for name, steps in GOOD.items()]
        + [
            {
                "name": "optional keys left out count as null",
                "entries": [absent_as_null(entry) for entry in chain(GOOD["denied"])],
                "final_state": "DENIED",
            }
        ],
        "invalid": cases,
        "recovery": [
            {
                "name": f"crash after: {name}",
                "log": chain(steps),
                "state": steps[-1][1],
                "action": ACTIONS[steps[-1][1]],
                "dispatches": steps[-1][1] == "EXECUTING",
            }
            for name, steps in GOOD.items()
        ],
    }


def absent_as_null(entry: Json) -> Json:
    return changed(entry, {"tool_call_id": DROP, "idempotency_key": DROP})


def golden_chain() -> Json:
    run = three_steps()
    fetch = run.traces[0]
    links: list[Json] = []
    for line in b"".join(run.bodies).splitlines():
        record: Any = msgspec.json.decode(line)
        if record["kind"] != "entry" or record["entry"]["trace_id"] != fetch.trace_id:
            continue
        entry, artifact = record["entry"], record["artifact"]
        inner = {
            "trace_id": entry["trace_id"],
            "plan_id": artifact["plan_id"],
            "current_state": entry["to_state"],
            "last_sequence_number": entry["sequence_number"],
            "last_entry_digest": entry["entry_digest"],
        }
        state = {"schema_id": "talos.tga.execution_state", "schema_version": "v1", **inner}
        checkpoint = {
            "schema_id": "talos.tga.execution_checkpoint",
            "schema_version": "v1",
            "trace_id": entry["trace_id"],
            "checkpoint_sequence_number": entry["sequence_number"],
            "checkpoint_state": inner,
            "checkpoint_digest": digest(inner),
            "ts": entry["ts"],
        }
        links.append(
            {
                "artifact": artifact,
                "artifact_preimage": canonicalize(changed(artifact, {"_digest": DROP})).decode(),
                "entry": entry,
                "entry_preimage": canonicalize(changed(entry, {"entry_digest": DROP})).decode(),
                "state": with_digest(state, "state_digest"),
                "checkpoint": checkpoint,
            }
        )
    return {"description": "One call from request to effect, with the bytes that each digest covers.", "chain": links}
