"""A recording taken apart, changed, and put together again with every digest, link and the seal recomputed.

What comes out is a recording that the verifier accepts and that says something else: only a replay can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from reenact.contracts.plan import plan_hash
from reenact.journal.lines import decode_line
from reenact.journal.run_fold import RunFold
from reenact.policy.cost import cents
from reenact.record.bundle import new_run
from reenact.replay import Recording, load_recording
from reenact.store.base import NewPayload, NewTrace, Unit
from reenact.store.keys.notes import sign_note
from reenact.store.signing import SigningKey
from reenact.store.sqlite.signed import notes
from reenact.store.sqlite.store import SqliteStore
from reenact.values.canonical import canonicalize, parse_json

Record = dict[str, Any]
SALT = bytes(32)


def sha(data: bytes) -> str:
    return sha256(data).hexdigest()


class Forge:
    """The lines and values of a run, free to be changed."""

    def __init__(self, recording: Recording) -> None:
        self.run_id = recording.run_id
        self.keys = recording.store.public_keys()
        self.signer: tuple[SigningKey, str] | None = (recording.store.signing_key, recording.store.store_id)
        """Whoever forges has the key; None where he has not."""
        self.commits: list[list[Record]] = [
            [parse_json(raw) for raw in body.splitlines()]  # type: ignore[misc]
            for body in recording.store.bodies(recording.run_id)
        ]
        self.values: dict[str, bytes] = dict(recording.store.payloads(recording.run_id))

    # -- finding -----------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[Record]:
        for commit in self.commits:
            yield from commit

    def trace_id(self, step_id: str) -> str:
        for line in self.lines():
            if line["kind"] == "entry" and line["artifact"].get("meta", {}).get("step_id") == step_id:
                return str(line["artifact"]["trace_id"])
        raise KeyError(step_id)

    def artifact(self, step_id: str, kind: str) -> Record:
        trace_id = self.trace_id(step_id)
        for line in self.lines():
            if line["kind"] == "entry" and line["entry"]["artifact_type"] == kind:
                artifact: Record = line["artifact"]
                if artifact["trace_id"] == trace_id:
                    return artifact
        raise KeyError((step_id, kind))

    def attempts(self, step_id: str) -> list[Record]:
        trace_id = self.trace_id(step_id)
        attempts = [line["attempt"] for line in self.lines() if line["kind"] == "attempt"]
        return [attempt for attempt in attempts if attempt["trace_id"] == trace_id]

    def value(self, commitment: str) -> Any:
        return parse_json(self.values[commitment][32:])

    def put(self, value: object) -> str:
        envelope = SALT + canonicalize(value)
        self.values[sha(envelope)] = envelope
        return sha(envelope)

    # -- changing ----------------------------------------------------------------------------------------------------

    def change_outcome(self, step_id: str, change: Callable[[Record], None]) -> None:
        effect = self.artifact(step_id, "tool_effect")
        document = effect["document_hashes"][1]
        outcome = self.value(document["hash"])
        change(outcome)
        document["hash"] = self.put(outcome)
        document["size_bytes"] = len(self.values[document["hash"]])

    def change_plan(self, change: Callable[[Record], None]) -> None:
        run = next(line["run"] for line in self.lines() if line["kind"] == "run")
        document = self.value(run["plan"])
        change(document)
        run["plan"] = self.put(document)
        run["plan_hash"] = plan_hash(document)

    def sum_up(self, step_id: str) -> None:
        """The effect and the outcome as they follow from the attempts."""
        attempts, meta = self.attempts(step_id), self.artifact(step_id, "tool_effect")["meta"]
        exact = sum(int(attempt["cost_exact"]) for attempt in attempts)
        effects = [[effect["type"], effect["target"]] for attempt in attempts for effect in attempt["side_effects"]]
        meta |= {
            "attempts": len(attempts),
            "retries": max(0, sum(attempt["kind"] == "attempt" for attempt in attempts) - 1),
            "cost_exact": str(exact),
            "cost_cents": cents(exact),
            "side_effects": sha(canonicalize(effects)),
        }

        def follow(outcome: Record) -> None:
            outcome |= {key: meta[key] for key in ("code", "status", "retryable", "cost_cents")}
            outcome["observability"]["backend_retries"] = meta["retries"]
            outcome["side_effects"] = [
                {**effect, "timestamp": attempt["ended_at"]}
                for attempt in attempts
                for effect in attempt["side_effects"]
            ]

        self.change_outcome(step_id, follow)

    def insert_attempt(self, step_id: str, after: int, **fields: Any) -> None:
        """A copy of the attempt `after`, put behind it, with other fields; later numbers move up."""
        original = self.attempts(step_id)[after]
        copy = {**msgspec.json.decode(msgspec.json.encode(original)), **fields}
        for commit in self.commits:
            for index, line in enumerate(commit):
                if line.get("attempt") is original:
                    commit.insert(index + 1, {"kind": "attempt", "attempt": copy})
                    self.renumber(step_id)
                    return

    def remove_attempt(self, step_id: str, number: int) -> None:
        victim = self.attempts(step_id)[number]
        self.commits = [[line for line in commit if line.get("attempt") is not victim] for commit in self.commits]
        self.commits = [commit for commit in self.commits if len(commit) > 1]
        self.renumber(step_id)

    def renumber(self, step_id: str) -> None:
        made = 0
        for ordinal, attempt in enumerate(self.attempts(step_id)):
            attempt["ordinal"], attempt["attempt"] = ordinal, made
            for effect in attempt["side_effects"]:
                effect["attempt"] = made
            made += attempt["kind"] == "attempt"

    # -- putting together --------------------------------------------------------------------------------------------

    def store(self) -> SqliteStore:
        """A store with the changed run in it."""
        store = SqliteStore(":memory:")
        with store._writer.transaction() as db:
            for kid, key in self.keys.items():
                db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (kid, key))
        fold, heads, lease = RunFold(self.run_id), {}, None
        unplaced = dict(self.values)
        for n, commit in enumerate(self.commits, start=1):
            body, traces = self._body(n, commit, fold, heads)
            named = [c for c in unplaced if c.encode() in body]
            record = next((line["run"] for line in commit if line["kind"] == "run"), None)
            unit = Unit(
                run_id=self.run_id,
                n=n,
                body=body,
                seal=fold.seal,
                payloads=[NewPayload(c, b"", unplaced.pop(c)) for c in named],
                traces=traces,
                new_run=None
                if record is None
                else new_run(decode_line(canonicalize({"kind": "run", "run": record}), where="").run),  # type: ignore[arg-type]
                status=None if fold.seal is None else fold.seal.status,
            )
            lease = store.append(unit, lease, owner="forge").lease
        if self.signer is not None and fold.seal is not None:
            key, store_id = self.signer
            with store._writer.transaction() as db:
                notes.write(db, sign_note(key, fold.seal.schema, store_id, str(fold.seal.seal_digest)))
        return store

    def recording(self) -> Recording:
        """The changed run, which the verifier accepts."""
        return load_recording(self.store(), self.run_id)

    def _body(
        self, n: int, commit: list[Record], fold: RunFold, heads: dict[str, Record]
    ) -> tuple[bytes, list[NewTrace]]:
        commit[0] |= {"n": n, "prev": fold.head}
        body, traces = canonicalize(commit[0]) + b"\n", []
        for line in commit[1:]:
            if line["kind"] == "entry":
                self._link(line, heads)
                if line["entry"]["sequence_number"] == 1:
                    meta = line["artifact"]["meta"]
                    traces.append(NewTrace(line["entry"]["trace_id"], meta["step_index"], meta["step_id"]))
            elif line["kind"] == "attempt":
                self._chain(line["attempt"], heads)
            elif line["kind"] == "seal":
                self._seal(line["seal"], n, body, fold)
            raw = canonicalize(line)
            fold.apply_line(decode_line(raw, where="forge"), where="forge", body_before=body)
            body += raw + b"\n"
        fold.commits, fold.head = n, sha(body)
        return body, traces

    def _link(self, line: Record, heads: dict[str, Record]) -> None:
        artifact, entry = line["artifact"], line["entry"]
        known = heads.setdefault(entry["trace_id"], {"head": "0" * 64})
        for field in ("action_request_digest", "supervisor_decision_digest", "tool_call_digest"):
            if field in artifact:
                artifact[field] = known[field]
        if entry["artifact_type"] == "tool_effect":
            artifact["meta"]["attempts_head"] = known["attempts"]
        artifact.pop("_digest", None)
        artifact["_digest"] = digest = sha(canonicalize(artifact))
        known[f"{entry['artifact_type']}_digest"] = digest
        if entry["artifact_type"] == "tool_call":
            known["attempts"] = digest
        entry |= {"artifact_digest": digest, "prev_entry_digest": known["head"]}
        entry.pop("entry_digest", None)
        entry["entry_digest"] = known["head"] = sha(canonicalize(entry))

    def _chain(self, attempt: Record, heads: dict[str, Record]) -> None:
        known = heads[attempt["trace_id"]]
        attempt["prev"] = known["attempts"]
        attempt.pop("digest", None)
        attempt["digest"] = known["attempts"] = sha(canonicalize(attempt))

    def _seal(self, seal: Record, n: int, body: bytes, fold: RunFold) -> None:
        assert fold.record is not None
        seal |= {
            "attempts_root": fold.attempts_tree.root(),
            "commits": n,
            "plan_hash": fold.record.plan_hash,
            "root": fold.full_root(),
            "run_head": sha(body),
            "traces": fold.requested,
        }
        seal.pop("seal_digest", None)
        seal["seal_digest"] = sha(canonicalize(seal))
