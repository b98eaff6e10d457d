"""A run without a seal whose last commits are gone: what other tables still say of them.

Nothing there contradicts the commits that are left. It tells that there were more, which no seal can.
"""

from __future__ import annotations

from reenact.store.checks.derived import Difference, key_row
from reenact.store.checks.rebuild import KeyedCall, Rebuilt
from reenact.store.sqlite.evidence import COMMITS_PER_RUN, Evidence, PayloadPlace

STATES = ("reserved", "completed", "released", "in_doubt")
OF_A_KEY = ("state", "no call of the run has this key")
"""What differs when the end of a call, or the call itself, is gone."""


class CutTail:
    """The rows of derived tables that belong to commits after the last one of an unsealed run."""

    def __init__(self, evidence: Evidence, run_no: int, rebuilt: Rebuilt) -> None:
        self._evidence = evidence
        self._run_no = run_no
        self._rebuilt = rebuilt
        self._low = run_no * COMMITS_PER_RUN
        self.commits: set[int] = set()
        """Those that are named and not there."""
        self._ahead: set[tuple[str, str]] = set()
        self._called = {trace_id for trace_id, _, _ in rebuilt.traces.values()}
        if rebuilt.seal is None and rebuilt.last_commit and not self._was_sealed():
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

    def _was_sealed(self) -> bool:
        return bool(self._evidence.query("SELECT 1 FROM seals WHERE run_no = ?", (self._run_no,)))

    def _beyond(self, n: object) -> bool:
        if isinstance(n, int) and n > self._rebuilt.last_commit:
            self.commits.add(n)
            return True
        return False

    def _payloads(self) -> None:
        for place, _ in self._evidence.payload_places(self._run_no):
            self._beyond(place.n)
        contents = "SELECT content_key, payload_id, commitment FROM contents WHERE run_no = ?"
        for key, payload_id, commitment in self._evidence.query(contents, (self._run_no,)):
            if isinstance(key, bytes) and self._is_payload_beyond(payload_id, commitment):
                self._ahead.add(("contents", f"content_key {key.hex()}"))
        shared = "SELECT commitment, payload_id FROM shared_payloads WHERE run_no = ?"
        for commitment, payload_id in self._evidence.query(shared, (self._run_no,)):
            if isinstance(commitment, bytes) and self._is_payload_beyond(payload_id, commitment):
                self._ahead.add(("shared_payloads", f"commitment {commitment.hex()}"))

    def _is_payload_beyond(self, payload_id: object, commitment: object) -> bool:
        """It lies with a commit that is gone, and none that is left names it."""
        if not isinstance(payload_id, int) or not isinstance(commitment, bytes):
            return False
        if commitment.hex() in self._rebuilt.named_in:
            return False
        place = PayloadPlace(payload_id)
        return place.run_no == self._run_no and self._beyond(place.n)

    def _traces(self) -> None:
        rows = self._evidence.query(
            "SELECT id, trace_id, commit_n FROM traces WHERE id >= ? AND id < ?",
            (self._low, self._low + COMMITS_PER_RUN),
        )
        for row_id, trace_id, n in rows:
            if row_id - self._low not in self._rebuilt.traces and self._beyond(n):
                self._ahead.add(("traces", f"step {row_id - self._low}"))
                self._called.add(trace_id)

    def _run_checkpoints(self) -> None:
        rows = self._evidence.query(
            "SELECT id FROM run_checkpoints WHERE id >= ? AND id < ?", (self._low, self._low + COMMITS_PER_RUN)
        )
        for (row_id,) in rows:
            if self._beyond(row_id - self._low):
                self._ahead.add(("run_checkpoints", f"commit {row_id - self._low}"))

    def _idempotency(self) -> None:
        """A key whose call, or the end of whose call, stood in what is gone."""
        rows = self._evidence.query(
            "SELECT server, tool, key, agent_id, trace_id, state FROM idempotency WHERE run_no = ?", (self._run_no,)
        )
        for server, tool, key, agent_id, trace_id, state in rows:
            if state not in STATES or trace_id not in self._called:
                continue
            call = self._rebuilt.keyed.get(trace_id)
            if call is None or is_before(call, server, tool, key, agent_id, state):
                self._ahead.add(("idempotency", key_row(server, tool, key)))


def is_before(call: KeyedCall, server: object, tool: object, key: object, agent_id: object, state: object) -> bool:
    """Whether the call is this one, and stands where it had not ended yet."""
    same = (call.server, call.tool, call.key, call.agent_id) == (server, tool, key, agent_id)
    return same and call.state == "reserved" and state != "reserved"
