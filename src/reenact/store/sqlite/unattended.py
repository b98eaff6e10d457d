"""Which runs that count as running somebody really works on."""

from __future__ import annotations

from reenact.store.owner import owner_is_gone
from reenact.store.sqlite.connection import Connection


def unattended(reader: Connection, now_ms: int) -> frozenset[str]:
    """Ids of runs in status `running` whose lease was given back or has lapsed, or whose owner is gone."""
    rows = reader.query("SELECT run_id, owner, expires_ms FROM runs WHERE status = 'running'")
    return frozenset(
        run_id for run_id, owner, expires in rows if owner is None or now_ms >= expires or owner_is_gone(owner)
    )
