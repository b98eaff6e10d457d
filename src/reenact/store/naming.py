"""Which payloads a journal line names, and where in it. Reads lines that nobody has verified yet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")
_decode = msgspec.json.Decoder().decode


class Named(NamedTuple):
    """One commitment. `place` is what it stands for: plan, args, key, details, call, response, output, …"""

    commitment: str
    place: str


def read_lines(body: bytes) -> Iterator[dict[str, Any]]:
    """The lines of a commit as far as they are JSON objects; the rest is the verifier's business."""
    for raw in body.split(b"\n"):
        try:
            line = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def named_by(line: Mapping[str, Any]) -> list[Named]:
    """The commitments that one line names, in the order in which their payloads were made."""
    kind = line.get("kind")
    record = part(line, str(kind))
    if kind == "run":
        found = [(record.get("plan"), "plan")]
    elif kind == "attempt":
        found = [(record.get("response"), "response")]
    elif kind == "event":
        found = [(record.get("reason"), "reason"), (record.get("data"), "data")]
    elif kind == "vote":
        found = [(record.get("reason"), "reason")]
    elif kind == "entry":
        found = in_artifact(part(line, "artifact"), str(record.get("artifact_type")))
    else:
        found = []
    return [Named(value, place) for value, place in found if isinstance(value, str) and DIGEST.match(value)]


def in_artifact(artifact: Mapping[str, Any], artifact_type: str) -> list[tuple[object, str]]:
    meta = part(artifact, "meta")
    if artifact_type == "action_request":
        return [(part(part(artifact, "proposal"), "args").get("$commit"), "args"), (meta.get("key"), "key")]
    if artifact_type == "supervisor_decision":
        return [(meta.get("details"), "details")]
    if artifact_type == "tool_call":
        return [(part(part(artifact, "call"), "args").get("$commit"), "call")]
    documents = artifact.get("document_hashes")
    hashes = [item for item in documents if isinstance(item, dict)] if isinstance(documents, list) else []
    return [(item.get("hash"), str(item.get("pointer")).removeprefix("/")) for item in hashes]


def part(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object inside another; an empty one where something else stands."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}
