"""Units of work as `append_1` takes them: what they say as JSON, and the bytes beside it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from reenact.errors import StoreError
from reenact.store.base import INDEXED_CONTENT, LEASE_MS, PAYLOAD_BITS, Lease, NewPayload, Unit
from reenact.store.compression import RAW, SMALL, Codec
from reenact.store.deltas import SALT, SMALLEST, DeltaBases, Row, base_of
from reenact.store.keys.notes import Note
from reenact.store.postgres.opened.schema import CLIENT
from reenact.store.signing import SigningKey, frontier_mac, head_mac

MOST_KEPT = 50_000


class Packing:
    """How the units of one process are packed. A large value may build on an earlier one of its run."""

    def __init__(self, store_id: str) -> None:
        self._store_id = store_id
        self._codec = Codec()
        self._bases = DeltaBases()
        self._kept: dict[tuple[str, int], bytes] = {}
        """Commitments of what may be built on, by run and place."""

    def forget(self, run_id: str) -> None:
        """Something that was built on is not there any more."""
        self._bases.forget(run_id)

    def add(self, batch: Batch, unit: Unit, lease: Lease, key: SigningKey, body: bytes, notes: list[Note]) -> bytes:
        """One unit behind those of the batch; the digest of its body."""
        if len(unit.payloads) >> PAYLOAD_BITS:
            raise StoreError(f"a commit holds fewer than {1 << PAYLOAD_BITS} payloads, not {len(unit.payloads)}")
        digest, blob = sha256(body), batch.blob
        mac = head_mac(key, self._store_id, unit.run_id, unit.n, digest.hexdigest())
        said: dict[str, Any] = {
            "client": CLIENT, "run_id": unit.run_id, "token": lease.token, "n": unit.n, "status": unit.status,
            "digest": blob(digest.digest()), "body": blob(self._codec.pack_body(body)), "mac": blob(mac),
        }  # fmt: skip
        if unit.new_run is not None and unit.n == 1:
            run = unit.new_run
            said["run"] = {
                "kind": run.kind, "mode": run.mode, "parent_run": run.parent_run, "plan_id": run.plan_id,
                "agent_id": run.agent_id, "started_at": run.started_at, "session": run.session, "owner": lease.owner,
                "lease_ms": LEASE_MS, "dedupe_key": blob(run.dedupe_key), "run_no": None,
            }  # fmt: skip
        if unit.payloads:
            self._add_payloads(batch, said, unit)
        if unit.traces:
            said["traces"] = [[trace.step_index, trace.trace_id, trace.step_id] for trace in unit.traces]
        if unit.frontier is not None:
            vouched = frontier_mac(key, self._store_id, unit.run_id, unit.n, unit.frontier)
            said["frontier"] = [blob(unit.frontier), blob(vouched)]
        if notes:
            said["notes"] = [[*note[:4], blob(note.signature)] for note in notes]
        if unit.shared:
            said["shared"] = [[blob(bytes.fromhex(commitment)), n] for commitment, n in unit.shared]
        if unit.ended:
            said["ended"] = unit.ended
        if unit.spent:
            said["spent"] = [[day, agent, model, str(exact)] for day, agent, model, exact in unit.spent]
        batch.units.append(said)
        return digest.digest()

    def _add_payloads(self, batch: Batch, said: dict[str, Any], unit: Unit) -> None:
        rows = self._rows(unit.run_id, unit.n, unit.payloads)
        bases = {
            base for _, _, stored in rows if (base := base_of(stored)) is not None and base >> PAYLOAD_BITS < unit.n
        }
        said["payloads"] = [len(batch.blobs) + 1, len(rows)]
        for _, commitment, stored in rows:
            batch.blob(commitment)
            batch.blob(stored)
        if bases:
            kept, mask = self._kept, (1 << PAYLOAD_BITS) - 1
            said["bases"] = [
                [base >> PAYLOAD_BITS, base & mask, batch.blob(kept[unit.run_id, base])] for base in sorted(bases)
            ]
        contents = [
            [batch.blob(payload.content_key), k, batch.blob(bytes.fromhex(payload.commitment))]
            for k, payload in enumerate(unit.payloads)
            if payload.content_key and len(payload.envelope) >= INDEXED_CONTENT
        ]
        if contents:
            said["contents"] = contents

    def _rows(self, run_id: str, n: int, payloads: list[NewPayload]) -> list[Row]:
        """(place within the run, commitment, as it is stored)"""
        rows: list[Row] = []
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        for place, payload in enumerate(payloads, n << PAYLOAD_BITS):
            commitment, envelope = bytes.fromhex(payload.commitment), payload.envelope
            if len(envelope) < SMALL:
                stored = RAW + envelope
            else:
                stored = self._bases.pack(
                    lambda base: self._kept.get((run_id, base)) if base >> PAYLOAD_BITS < n else None, self._codec,
                    rows, place, commitment, envelope, run=run_id,
                )  # fmt: skip
                if len(envelope) >= SALT + SMALLEST:
                    self._kept[run_id, place] = commitment
            rows.append((place, commitment, stored))
        return rows


class Batch:
    """What one call of `append_1` is given."""

    def __init__(self) -> None:
        self.units: list[dict[str, Any]] = []
        self.blobs: list[bytes] = []

    def blob(self, content: bytes) -> int:
        """Its place, counted from 1."""
        self.blobs.append(content)
        return len(self.blobs)

    @property
    def size(self) -> int:
        return sum(map(len, self.blobs))

    def parameters(self, *, again: bool = False) -> tuple[object, ...]:
        """`again` where they were sent before, and nobody knows what became of them."""
        units = [{**unit, "again": True} for unit in self.units] if again else self.units
        return msgspec.json.encode(units).decode(), self.blobs
