"""Parked: a run stops without an end, and can go on later."""

from __future__ import annotations

from reenact.contracts.records import RunStatus


class Parked(Exception):  # not an error: nothing failed
    """The run stops without an end: it waits for a person, or is held."""

    def __init__(self, status: RunStatus, reason: str) -> None:
        super().__init__(reason)
        self.status: RunStatus = status
