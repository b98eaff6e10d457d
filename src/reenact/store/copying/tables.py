"""The tables of a store as they are copied: their columns, whatever an engine makes of them, and the order of rows.

A row of evidence is copied as it lies there, packed. What is not copied: who holds a lease (nobody does), and what an
engine keeps for itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from reenact.store.copying.origins import COPIED

Row = tuple[object, ...]
"""Cells as the columns of its table say: text, bytes, whole numbers, or None."""


class Table(NamedTuple):
    name: str
    key: tuple[str, ...]
    """Its rows are copied in this order: texts by their bytes."""
    values: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key + self.values

    def key_of(self, row: Row) -> Row:
        return row[: len(self.key)]


def table(name: str, key: str, values: str = "") -> Table:
    return Table(name, tuple(key.split()), tuple(values.split()))


RUN: Final = "run_id kind mode parent_run plan_id agent_id status started_at dedupe_key token cancel session"
TABLES: Final = (
    table("store", "key", "value"),
    table("key_secret", "id", "secret"),
    table("runs", "run_no", RUN),
    table("commits", "run_no n", "body digest mac"),
    table("payloads", "run_no n k", "commitment body"),
    table("traces", "run_no step_index", "trace_id step_id commit_n"),
    table("contents", "run_no content_key", "n k commitment"),
    table("shared_payloads", "run_no commitment", "n k"),
    table("run_checkpoints", "run_no n", "frontier mac"),
    table("idempotency", "server tool key", "request_digest agent_id trace_id run_no state next mac"),
    table("seals", "id", "run_no seal_digest"),
    table("spending", "day agent_id model", "exact"),
    table("earmarks", "run_no trace_id", "day agent_id model exact"),
    table("ballots", "run_no trace_id", "body"),
    table("erasures", "id", "run_no body"),
    table("late_effects", "id", "run_no trace_id body"),
    table("archived", "run_no n k", "commitment bundle"),
    table("archives", "run_no bundle", "place"),
    table("kv", "agent_id namespace key", "value"),
    table("kv_writes", "agent_id idempotency_key", "result"),
    table("keys", "kid", "public_key"),
    table("notes", "id", "schema store_id digest kid signature record"),
    table("log_nodes", "level index", "hash"),
    table("log_checkpoints", "size", "root kid signature"),
    table("log_cosignatures", "id", "size witness line"),
    table("log_timestamps", "id", "size place stamp"),
    table("log_contradictions", "id", "source note"),
    table("log_peers", "name", "kind url seen failures next_ms trouble"),
    table("tallies", "name", "sealed sums"),
)
"""`exact` is a text of digits: picodollars. A place in `payloads` is its commit and its number there."""

MOVING: Final = "moving_to"
"""In `store` of a store that is being copied: where to. It gives no lease."""
MOVED: Final = "moved_to"
"""In `store` of one that was copied."""
FILLING: Final = "copied_from"
"""In `store` of one that is not whole yet: the id of the one that it is copied from."""
THIS_STORE: Final = "this store"
"""How what `moved_says` says begins."""
AS_NEW: Final = frozenset(
    (
        *("key_secret", "keys", "idempotency", "spending", "earmarks", "ballots", "kv_writes", "log_nodes"),
        *("log_checkpoints", "log_cosignatures", "log_timestamps", "log_contradictions", "log_peers"),
    )
)
"""Tables of which a copy that is a new store takes nothing: its secret, its keys and its log are its own, and what was
spent and voted on is the business of the store that goes on."""
IDENTITY: Final = ("store_id", COPIED)
"""Rows of `store` that such a copy has of its own."""
OWN: Final = (MOVING, MOVED, FILLING, "schema", "oldest_client")
"""Rows of `store` that say something of the place and not of the store."""


def moved_says(said: dict[str, str]) -> str | None:
    """What whoever writes to a store is told that goes elsewhere, or went; None of any other."""
    if (to := said.get(MOVED)) is not None:
        return f"{THIS_STORE} was moved to {to}: name that one with --store or REENACT_STORE"
    if (to := said.get(MOVING)) is not None:
        return f"{THIS_STORE} is being copied to {to}: nothing is written to it any more"
    return None
