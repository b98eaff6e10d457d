"""Idempotency keys of traces that come from elsewhere: the keys of the store's own calls, made of the same parts."""

from __future__ import annotations

from reenact.contracts.artifacts import Artifact, ToolCall, ToolEffect
from reenact.errors import KeyTaken
from reenact.journal.fold import TraceFold
from reenact.store.base import KeyCompletion, KeyReservation, KeyState, Store
from reenact.values.canonical import canonicalize
from reenact.values.digest import hmac_hex


def key_of(secret: bytes, server: str, tool: str, key: str) -> str:
    """As a caller's key stands in the store, whoever gives it: one call of one tool under it."""
    return "k:" + hmac_hex(secret, canonicalize(["caller", server, tool, key]))


def reserved(store: Store, trace: TraceFold, artifact: Artifact) -> list[KeyReservation]:
    """What a tool_call takes in its own commit; KeyTaken where another call did so before."""
    if not isinstance(artifact, ToolCall):
        return []
    secret, call = store.key_secret, artifact.call
    key = key_of(secret, call.tool_server, call.tool_name, artifact.idempotency_key)
    taken = store.key_record(call.tool_server, call.tool_name, key)
    if taken is not None and taken.trace_id != trace.trace_id and taken.state != "released":
        raise KeyTaken(
            f"trace {trace.trace_id}: trace {taken.trace_id} has the key of its call to {call.tool_server}."
            f"{call.tool_name}; load_effect gives what came of it, and nothing is to be sent"
        )
    digest = hmac_hex(secret, canonicalize(["request", call.tool_server, call.tool_name, call.args]))
    assert trace.request is not None
    agent = trace.request.agent_id
    return [KeyReservation(call.tool_server, call.tool_name, key, digest, agent, trace.trace_id)]


def completed(store: Store, trace: TraceFold, artifact: Artifact) -> list[KeyCompletion]:
    """A call that was made is not made again, whatever came of it; one that was refused was not made."""
    if not isinstance(artifact, ToolEffect) or trace.call is None:
        return []
    call = trace.call.call
    key = key_of(store.key_secret, call.tool_server, call.tool_name, trace.call.idempotency_key)
    state: KeyState = "released" if artifact.outcome.status == "DENIED" else "completed"
    return [KeyCompletion(call.tool_server, call.tool_name, key, trace.trace_id, state)]
