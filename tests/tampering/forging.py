"""Somebody who changes a bundle and makes anew what follows from that, as far as he can: digests, chain, seal, notes.

`UP_TO` names how far. Without a key he ends at the seal; with one of his own he signs everything anew, in his name or
in that of the store; the owner signs with the store's.
"""

from __future__ import annotations

import gzip
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tools.vectors.bundle_vectors import with_views
from tools.vectors.pieces import b64, kid_of, mint, public_bytes, tree_root
from tools.vectors.writer import gzipped, manifest_bytes, note, packed_lines, signed_note, with_manifest

from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, digest, sha256_hex
from reenact.verify.capability import bound, from_base64url
from reenact.verify.shapes import ActionRequest, Run, SupervisorDecision
from tests.tampering.evidence import PLACE, PROOF, STORE, Files, leaves, note_lines, proof_of

Record = dict[str, Any]
JOURNAL, PACKED = "journal.jsonl", "payloads.jsonl.gz"
OWN = {"attempt": "digest", "vote": "digest", "run_checkpoint": "digest", "seal": "seal_digest"}
UP_TO = ("bytes", "record", "entry", "trace", "commits", "seal")


def lines_of(data: bytes) -> list[Any]:
    return [msgspec.json.decode(line) for line in data.splitlines()]


def jsonl(records: list[Any]) -> bytes:
    return b"".join(canonicalize(record) + b"\n" for record in records)


def envelopes(files: Files) -> dict[str, bytes]:
    if PACKED in files:
        rows = lines_of(gzip.decompress(files[PACKED]))
        return {row["commitment"]: b64decode(row["envelope"]) for row in rows}
    return {name.partition("/")[2]: data for name, data in files.items() if name.startswith("payloads/")}


def with_envelopes(files: Files, payloads: dict[str, bytes]) -> Files:
    others = {name: data for name, data in files.items() if not name.startswith("payloads")}
    if PACKED in files:
        return {**others, PACKED: gzipped(packed_lines(payloads))}
    return {**others, **{f"payloads/{name}": data for name, data in payloads.items()}}


def remade(files: Files, **changes: object) -> Files:
    """With a manifest that fits again; of a bundle inside it names the manifest alone. `changes` are laid over it."""
    old = msgspec.json.decode(files["manifest.json"])
    inner = {name: data for name, data in files.items() if name.startswith("parents/")}
    named = {name: data for name, data in files.items() if name not in inner or name.endswith("/manifest.json")}
    made = with_manifest(named, old["run_id"], old["payloads"])
    if changes:
        made["manifest.json"] = manifest_bytes({**msgspec.json.decode(made["manifest.json"]), **changes})
    return {**inner, **made}


class Forgery:
    """One bundle, its journal read. `records` finds what is changed, `written` makes a bundle of it again."""

    def __init__(self, files: Files) -> None:
        self.files = dict(files)
        self.lines: list[Record] = lines_of(files[JOURNAL])
        self.payloads = envelopes(files)
        self.new: dict[str, str] = {}
        """Digests and commitments that are others now."""

    def records(self, kind: str) -> list[Record]:
        """Those of one kind of line, or the artifacts of one kind."""
        found = [line.get(kind, line) for line in self.lines if line["kind"] == kind]
        of_entries = [line for line in self.lines if line["kind"] == "entry"]
        return found or [line["artifact"] for line in of_entries if line["entry"]["artifact_type"] == kind]

    def value(self, commitment: str) -> Any:
        return msgspec.json.decode(self.payloads[commitment][32:])

    def change_value(self, commitment: str, value: object) -> None:
        """Another value in its place, under the commitment that it has then, and all of its size."""
        envelope = self.payloads.pop(commitment)[:32] + canonicalize(value)
        named = sha256_hex(envelope)
        self.payloads[named] = envelope
        self.new[commitment] = named
        for line in self.lines:
            for document in line.get("artifact", {}).get("document_hashes", ()):
                if document["hash"] == commitment:
                    document["size_bytes"] = len(envelope)

    def entry(self, kind: str, number: int = 0) -> Record:
        """The log entry of an artifact."""
        found = [line["entry"] for line in self.lines if line["kind"] == "entry"]
        return [entry for entry in found if entry["artifact_type"] == kind][number]

    def written(self, up_to: str = "seal", key: Ed25519PrivateKey | None = None, stale: str = "") -> Files:
        """`key` signs capabilities anew; then notes, log and views are made anew too. All but `stale` digests are."""
        journal = _Journal(UP_TO.index(up_to), self.new, key, stale)
        before = msgspec.json.decode(self.files.get("seal.json", b"null"))
        self.files[JOURNAL] = journal.made(self.lines)
        if "manifest.json" in self.files and self.payloads != envelopes(self.files):
            self.files = with_envelopes(self.files, self.payloads)
        if up_to != "seal" or journal.seal is None or before is None:
            return remade(self.files)
        self.files["seal.json"] = canonicalize(journal.seal) + b"\n"
        if key is not None:
            self._sign(before["seal_digest"], journal.seal, key)
        files = remade(self.files)
        if "REPLAY.jsonl" not in files or any(name.startswith("parents/") for name in files):
            return files
        return with_views(files, journal.seal["run_id"])

    def _sign(self, old: str, seal: Record, key: Ed25519PrivateKey) -> None:
        """Notes, the copy for other programs, keys and log, in the name of this key."""
        self.files["notes.jsonl"] = note_lines(
            [
                resigned(each, key, {**self.new, old: seal["seal_digest"]})
                for each in lines_of(self.files["notes.jsonl"])
            ]
        )
        self.files["seal.note"] = signed_note(key, "reenact.seal.v1", seal["seal_digest"])
        if key is not STORE:
            self.files["keys.json"] = canonicalize({kid_of(key): b64(public_bytes(key))}) + b"\n"
        if PROOF in self.files:
            self.files[PROOF] = proof_of(leaves(canonicalize(seal)), PLACE, key)


def resigned(line: Record, key: Ed25519PrivateKey, new: dict[str, str]) -> Record:
    record = line.get("record")
    text = canonicalize(record if record is not None else line["digest"])
    for old, other in new.items():
        text = text.replace(old.encode(), other.encode())
    said = msgspec.json.decode(text)
    if record is None:
        return note(key, line["schema"], said)
    if "keys" in said:
        said["keys"] = {kid_of(key): b64(public_bytes(key))}
    return {**note(key, line["schema"], sha256(canonicalize(said)).hexdigest()), "record": said}


class _Journal:
    """Goes through the lines and makes anew what follows from those before."""

    def __init__(self, level: int, new: dict[str, str], key: Ed25519PrivateKey | None, stale: str) -> None:
        self.level, self.new, self.key, self.stale = level, new, key, stale
        self.heads: dict[str, Record] = {}
        self.attempts: list[bytes] = []
        self.seal: Record | None = None
        self.run: Record = {}
        self.request: dict[str, Record] = {}
        self.commits = 0

    def reaches(self, name: str) -> bool:
        return self.level >= UP_TO.index(name)

    def made(self, lines: list[Record]) -> bytes:
        previous, body, journal = ZERO_DIGEST, b"", b""
        for line in lines:
            if line["kind"] == "commit":
                previous, journal = sha256_hex(body) if body else ZERO_DIGEST, journal + body
                body = b""
                self.commits += 1
                follows = {"prev": previous, "n": self.commits} if self.reaches("commits") else {}
                body += canonicalize({**line, **follows}) + b"\n"
            else:
                body += canonicalize(self.line(line, body)) + b"\n"
        return journal + body

    def line(self, line: Record, before: bytes) -> Record:
        if self.reaches("trace"):
            text = canonicalize(line)
            for old, other in self.new.items():
                text = text.replace(old.encode(), other.encode())
            line = msgspec.json.decode(text)
        kind = line["kind"]
        if kind == "run":
            self.run = line["run"]
            if self.key is not None and self.key is not STORE:
                self.run["capability_key"] = kid_of(self.key)
        if kind == "entry":
            self.entry(line["entry"], line["artifact"])
        elif kind == "checkpoint" and self.reaches("record") and self.stale != "checkpoint":
            line["checkpoint"]["checkpoint_digest"] = digest(line["checkpoint"]["checkpoint_state"])
        elif kind in OWN and self.reaches("record"):
            self.record(line[kind], OWN[kind], before, is_stale=self.stale == kind)
        if kind == "attempt":
            named = {name: line["attempt"][name] for name in ("digest", "ordinal", "trace_id")}
            self.attempts.append(canonicalize(named))
        return line

    def entry(self, entry: Record, artifact: Record) -> None:
        kind, trace = entry["artifact_type"], entry["trace_id"]
        if kind == "action_request":
            self.request[trace] = artifact
        if self.key is not None and "minted_capability" in artifact and self.run["kind"] != "trace":
            artifact["minted_capability"] = self.minted(artifact, self.request[trace])
        if self.reaches("record") and self.stale != kind:
            self.digested(artifact, "_digest")
        if self.reaches("entry"):
            if self.stale != "the artifact of an entry":
                entry["artifact_digest"] = artifact["_digest"]
            if self.reaches("trace") and self.stale != "the entry before":
                entry["prev_entry_digest"] = self.heads.get(trace, {}).get("head", ZERO_DIGEST)
            if self.stale != "entry":
                self.digested(entry, "entry_digest")
        index = self.heads.get(trace, {}).get("step_index", len(self.heads))
        state = entry["to_state"]
        self.heads[trace] = {"head": entry["entry_digest"], "state": state, "step_index": index, "trace_id": trace}

    def minted(self, decision: Record, request: Record) -> str:
        """The same permission, signed anew."""
        assert self.key is not None
        old = str(decision["minted_capability"])
        claims = msgspec.json.decode(from_base64url(old.split(".")[1]) or b"")
        digested = {**request, "_digest": digest({k: v for k, v in request.items() if k != "_digest"})}
        shapes = (msgspec.convert(self.run, Run), msgspec.convert(digested, ActionRequest))
        claims["plan_id"] = request["plan_id"]
        arguments = claims["constraints"]["arg_constraints"]
        arguments["$commit"] = request["proposal"]["args"]["$commit"]
        if "$bounds" in arguments:
            arguments["$bounds"] = bound(*shapes, msgspec.convert(decision, SupervisorDecision))
        token = mint(self.key, claims)
        self.new[sha256_hex(old.encode())] = sha256_hex(token.encode())
        return token

    def record(self, record: Record, own: str, before: bytes, *, is_stale: bool) -> None:
        is_seal = own == "seal_digest"
        if "run_head" in record and not is_stale and self.reaches("seal" if is_seal else "commits"):
            if is_seal or self.stale != "head":
                record["run_head"] = sha256_hex(before)
            terminal = ("COMPLETED", "FAILED", "DENIED")
            found = [head for head in self.heads.values() if is_seal or head["state"] in terminal]
            if is_seal or self.stale != "fields":
                record["root"] = tree_root([canonicalize(head) for head in found])
                record["commits"] = self.commits
            if is_seal:
                record["attempts_root"] = tree_root(self.attempts)
        if (not is_seal or self.reaches("seal")) and not is_stale:
            self.digested(record, own)
        if is_seal:
            self.seal = record

    def digested(self, record: Record, own: str) -> None:
        old = record.pop(own, None)
        record[own] = digest(record)
        if isinstance(old, str) and old != record[own]:
            self.new[old] = record[own]


def forged(
    files: Files,
    change: Callable[[Forgery], object],
    up_to: str = "seal",
    key: Ed25519PrivateKey | None = None,
    stale: str = "",
) -> Files:
    forgery = Forgery(files)
    change(forgery)
    return forgery.written(up_to, key, stale)
