"""A refund whose recorded answer somebody turns from 1999 into 9999, in the folder that was sent, without any key."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from tools.vectors.bundle_vectors import with_views

from reenact import Registry, Runtime, skill
from reenact.journal.chain import MerkleTree
from reenact.record.export import export_run
from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST
from tests.verify.changing import read_folder, remade, split_bodies, write_folder

PLAN: dict[str, Any] = {
    "plan_id": "refunds",
    "agent_id": "clerk",
    "steps": [{"step_id": "refund", "skill_id": "refund", "parameters": {"order": "42"}}],
}
Json = dict[str, Any]
Files = dict[str, bytes]


def refund_skills() -> Registry:
    @skill("refund", version="1.0.0", tool_class="write", honours_key=True)
    def refund(order: str) -> dict[str, Any]:
        return {"order": order, "cents": 1999}

    return Registry([refund])


def refunded(folder: Path, name: str = "store.db") -> tuple[Path, str]:
    """(store, run) of a refund that was made."""
    path = folder / name
    runtime = Runtime(str(path), skills=refund_skills())
    try:
        return path, str(runtime.run(PLAN).run_id)
    finally:
        runtime.close()


def exported(folder: Path, name: str = "store.db") -> Files:
    """The files of its bundle."""
    path, run_id = refunded(folder, name)
    export_run(str(path), run_id, folder / f"bundle of {name}")
    return unpacked(read_folder(folder / f"bundle of {name}"))


def unpacked(files: Files) -> Files:
    """With a file for each payload, as bundles of before have them, and without the log's proof, which is another's."""
    left = {name: data for name, data in files.items() if not name.endswith(".gz") and name != "seal.tlog-proof"}
    for name in files.keys() - left.keys() - {"seal.tlog-proof"}:
        for line in gzip.decompress(files[name]).splitlines():
            payload = json.loads(line)
            left[f"payloads/{payload['commitment']}"] = b64decode(payload["envelope"])
    return remade(left)


def remake(folder: Path, files: Files) -> Path:
    """As a folder, with a manifest that fits."""
    return write_folder(folder, remade(files))


def forged(files: Files, change: Callable[[Json], None] = lambda line: None) -> Files:
    """Another answer, in the value, and in every digest up to the seal; `change` sees each line first."""
    (old,) = (name for name, data in files.items() if name.startswith("payloads/") and b'"cents":1999' in data)
    envelope = files[old].replace(b"1999", b"9999")
    swapped = {old.partition("/")[2]: sha256(envelope).hexdigest()}
    files = {name: data for name, data in files.items() if name != old}
    files[f"payloads/{sha256(envelope).hexdigest()}"] = envelope
    previous, heads, attempts, journal = ZERO_DIGEST, dict[str, Json](), MerkleTree(), b""
    for body in split_bodies(files["journal.jsonl"]):
        written = b""
        for raw in body.splitlines():
            text = raw.decode()
            for before, after in swapped.items():
                text = text.replace(before, after)
            line: Json = json.loads(text)
            change(line)
            if line["kind"] == "commit":
                line["prev"] = previous
            elif line["kind"] == "entry":
                entry, trace = line["entry"], line["entry"]["trace_id"]
                entry["artifact_digest"] = redigest(line["artifact"], "_digest", swapped)
                entry["prev_entry_digest"] = heads.get(trace, {}).get("head", ZERO_DIGEST)
                head = redigest(entry, "entry_digest", swapped)
                leaf = {"head": head, "state": entry["to_state"], "trace_id": trace}
                heads[trace] = {**leaf, "step_index": heads.get(trace, {"step_index": len(heads)})["step_index"]}
            elif line["kind"] == "attempt":
                redigest(line["attempt"], "digest", swapped)
                attempts.append(canonicalize({key: line["attempt"][key] for key in ("digest", "ordinal", "trace_id")}))
            elif line["kind"] == "seal":
                tree = MerkleTree()
                for each in heads.values():
                    tree.append(canonicalize(each))
                line["seal"] |= {"root": tree.root(), "attempts_root": attempts.root()}
                line["seal"]["run_head"] = sha256(written).hexdigest()
                redigest(line["seal"], "seal_digest", swapped)
                files["seal.json"] = canonicalize(line["seal"]) + b"\n"
            written += canonicalize(line) + b"\n"
        previous, journal = sha256(written).hexdigest(), journal + written
    return with_views({**files, "journal.jsonl": journal}, json.loads(files["manifest.json"])["run_id"])


def redigest(record: Json, own: str, swapped: dict[str, str]) -> str:
    before = record.pop(own)
    record[own] = swapped[before] = sha256(canonicalize(record)).hexdigest()
    return str(record[own])
