"""A run's seal in the log of its store, as the rows have it, for whoever verifies or exports the run."""

from __future__ import annotations

from reenact.errors import DamagedRecord, NotAuthentic, UsageError
from reenact.store.evidence import Evidence
from reenact.store.log.log import Edge, ReadLog
from reenact.verify.log.anchoring import Believed
from reenact.verify.log.merkle import joined
from reenact.verify.log.policy import Policy, Witness, all_of
from reenact.verify.signed.signed_note import read_vkey


class RunLog:
    """`reenact.verify.log.anchoring.LogSource` over a store; `run_no` is the store's number of the run."""

    def __init__(self, evidence: Evidence, run_no: int) -> None:
        rows = evidence.log_rows()
        self._log = ReadLog(rows, evidence.store_id() or "", evidence.keys)
        number = rows.number_of(run_no)
        self.index = None if number is None else number - 1

    def proof(self) -> bytes | None:
        return None if self.index is None else self._log.proof(self.index)

    def path(self, size: int) -> tuple[int, list[bytes]] | None:
        if self.index is None or not self.index < size <= self._log.rows.size():
            return None
        return self.index, self._log.path(self.index, size)

    def root(self, size: int) -> bytes | None:
        if size <= self._log.rows.size():
            return self._log.root_at(size)
        return root_of_seals(self._log, size) if size <= self._log.rows.seal_count() else None

    def stamps(self) -> list[bytes]:
        covering = None if self.index is None else self._log.covering(self.index)
        return [] if covering is None else [token for _, token in self._log.rows.timestamps(covering.size)]

    def contradictions(self) -> list[tuple[str, bytes]]:
        leaves, seals = self._log.rows.size(), self._log.rows.seal_count()
        if leaves > seals:
            raise DamagedRecord(f"the log has {leaves} seals, and the store {seals}: its last runs were taken out")
        return self._log.rows.contradictions()


def root_of_seals(log: ReadLog, size: int) -> bytes:
    """The root over the first seals, from their records."""
    edge = Edge()
    try:
        for leaf in log.leaves(size):
            edge.append(leaf)
    except NotAuthentic as error:
        raise DamagedRecord(str(error)) from None
    return joined(edge.hashes)


def with_own_witnesses(evidence: Evidence, believed: Believed) -> Believed:
    """What the reader believes; where he names no witness, those that the store asks, and it is said that they are."""
    if believed.policy is not None:
        return believed
    policy = own_policy(evidence)
    return believed._replace(policy=policy, is_own=True) if policy.witnesses else believed


def own_policy(evidence: Evidence) -> Policy:
    witnesses = []
    for peer in evidence.log_rows().peers("witness"):
        try:
            key = read_vkey(peer.name)
        except UsageError as error:
            raise DamagedRecord(f"log_peers, {peer.name}: {error}") from None
        witnesses.append(Witness(key.name, key, peer.url))
    return all_of(witnesses, 1)
