"""What vouches for the commits of a run: the MAC beside each, checked where the store's key is at hand."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from reenact.store.evidence import CommitRow, Evidence
from reenact.store.signing import MAC_BYTES, head_mac


class Heads:
    """Takes the commits of one run in order."""

    def __init__(self, evidence: Evidence, number: int) -> None:
        self._evidence = evidence
        self._macs: dict[int, tuple[str, object]] = {}
        """By commit: its head, and what lies beside it."""
        due = evidence.vouched_from()
        self.is_due = due is not None and number >= due
        """The store says that it vouches for all of the run."""
        self._elsewhere: set[str] = set()

    def take(self, row: CommitRow) -> None:
        if row.body is not None:
            self._macs[row.n] = (sha256(row.body).hexdigest(), row.mac)

    @property
    def has_macs(self) -> bool:
        return any(mac is not None for _, mac in self._macs.values())

    def _is_strict(self, kid: object) -> bool:
        """Whether the key that the run began with says itself that it vouches for everything."""
        key = self._evidence.key_of(kid) if isinstance(kid, str) else None
        return key is not None and key.is_strict

    def problems(self, run_id: str, began_with: object) -> Iterator[tuple[int, str]]:
        """(commit, what is wrong with it)"""
        store_id = str(self._evidence.store_id()).encode("utf-8", "replace").decode()
        keys = self._evidence.keys()
        some = self.has_macs or self._is_strict(began_with)
        for n, (head, mac) in self._macs.items():
            if mac is None:
                if self.is_due or some:
                    yield n, "nothing vouches for the commit"
                continue
            if not isinstance(mac, bytes) or len(mac) != MAC_BYTES:
                yield n, "what vouches for the commit cannot be read"
                continue
            kid = mac[:8].hex()
            key = self._evidence.key_of(kid)
            if key is None and kid not in keys:
                yield n, f"what vouches for the commit is of a key {kid} that the store never had"
            elif key is None:
                self._elsewhere.add(kid)
            elif head_mac(key, store_id, run_id, n, head) != mac:
                yield n, f"it is not the commit that the key {key.kid} vouched for"

    def notes(self) -> list[str]:
        return [
            f"whether the key {kid} vouched for the commits was not checked: it is not here"
            for kid in sorted(self._elsewhere)
        ]
