"""A run without a seal whose last commits are gone: what other tables still say of them.

Nothing there contradicts the commits that are left. It tells that there were more, which no seal can.
"""

from __future__ import annotations

from reenact.store.checks.derived import Difference, key_row
from reenact.store.checks.rebuild import KeyedCall, Rebuilt
from reenact.store.evidence import KeyCells, PayloadPlace, RunEvidence

STATES = ("reserved", "completed", "released", "in_doubt")
OF_A_KEY = ("state", "no call of the run has this key")
"""What differs when the end of a call, or the call itself, is gone."""


class CutTail:
    """The rows of derived tables that belong to commits after the last one of an unsealed run."""

    def __init__(self, run: RunEvidence, rebuilt: Rebuilt) -> None:
        self._run = run
        self._rebuilt = rebuilt
        self.commits: set[int] = set()
        """Those that are named and not there."""
        self._ahead: set[tuple[str, str]] = set()
        self._called: set[object] = {trace_id for trace_id, _, _ in rebuilt.traces.values()}
        if rebuilt.seal is None and rebuilt.last_commit and run.seal_place() is None:
            self._payloads()
            self._traces()
            self._run_checkpoints()
            self._idempotency()

    def split(self, differences: list[Difference]) -> list[Difference]:
        """Those that a cut tail does not explain."""
        return [difference for difference in differences if not self._explains(difference)]

    def _explains(self, difference: Difference) -> bool:
        if difference.table == "idempotency" and difference.what not in OF_A_KEY:
            return False
        return (difference.table, difference.row) in self._ahead

    def notes(self) -> list[str]:
        if not self._ahead and not self.commits:
            return []
        tables = ", ".join(sorted({table for table, _ in self._ahead})) or "payloads"
        last = self._rebuilt.last_commit
        named = f"commit {max(self.commits)}" if self.commits else f"a commit after {last}"
        return [f"the tail may have been cut: commits end with {last}, and {tables} still know of {named}"]

    def _beyond(self, n: object) -> bool:
        if isinstance(n, int) and n > self._rebuilt.last_commit:
            self.commits.add(n)
            return True
        return False

    def _payloads(self) -> None:
        for place, _ in self._run.payload_places():
            self._beyond(place.n)
        for key, payload_id, commitment in self._run.contents():
            if isinstance(key, bytes) and self._is_payload_beyond(payload_id, commitment):
                self._ahead.add(("contents", f"content_key {key.hex()}"))
        for commitment, payload_id in self._run.shared_payloads():
            if isinstance(commitment, bytes) and self._is_payload_beyond(payload_id, commitment):
                self._ahead.add(("shared_payloads", f"commitment {commitment.hex()}"))

    def _is_payload_beyond(self, payload_id: object, commitment: object) -> bool:
        """It lies with a commit that is gone, and none that is left names it."""
        if not isinstance(payload_id, int) or not isinstance(commitment, bytes):
            return False
        if commitment.hex() in self._rebuilt.named_in:
            return False
        place = PayloadPlace(payload_id)
        return place.run_no == self._run.number and self._beyond(place.n)

    def _traces(self) -> None:
        for step_index, trace_id, _, n in self._run.traces():
            if step_index not in self._rebuilt.traces and self._beyond(n):
                self._ahead.add(("traces", f"step {step_index}"))
                self._called.add(trace_id)

    def _run_checkpoints(self) -> None:
        for row in self._run.run_checkpoints():
            if self._beyond(row.n):
                self._ahead.add(("run_checkpoints", f"commit {row.n}"))

    def _idempotency(self) -> None:
        """A key whose call, or the end of whose call, stood in what is gone."""
        for row in self._run.keyed_calls():
            if row.state not in STATES or row.trace_id not in self._called:
                continue
            call = self._rebuilt.keyed.get(str(row.trace_id))
            if call is None or is_before(call, row):
                self._ahead.add(("idempotency", key_row(row.server, row.tool, row.key)))


def is_before(call: KeyedCall, row: KeyCells) -> bool:
    """Whether the call is this one, and stands where it had not ended yet."""
    same = (call.server, call.tool, call.key, call.agent_id) == (row.server, row.tool, row.key, row.agent_id)
    return same and call.status is None and row.state not in ("reserved", call.state)
