"""What an agent has spent on a day, and what is set apart for its calls in flight.

Whoever sets money apart holds the row of day and agent, so that nobody else reads what he read. What is set apart
counts until the call has ended, also while nobody holds the run, unless its process is known to be dead.
"""

from __future__ import annotations

from collections.abc import Collection

from reenact.store.base import Earmark
from reenact.store.beside.money import by_model, refuse_over_limit
from reenact.store.postgres.opened.database import Asks

SPENT = "SELECT model, sum(exact) FROM :schema.spending WHERE day = %s AND agent_id = %s GROUP BY model"
LIVE = (
    "SELECT e.model, e.exact, CASE WHEN r.status IN ('held', 'waiting') THEN NULL ELSE r.owner END, e.trace_id "
    "FROM :schema.earmarks e JOIN :schema.runs r ON r.run_no = e.run_no WHERE e.day = %s AND e.agent_id = %s"
)
SET_APART = (
    "INSERT INTO :schema.earmarks VALUES (%s, %s, %s, %s, %s, %s::numeric) ON CONFLICT (run_no, trace_id) DO UPDATE "
    "SET day = excluded.day, agent_id = excluded.agent_id, model = excluded.model, exact = excluded.exact"
)


def lock(db: Asks, day: str, agent_id: str) -> None:
    """Before anything is read."""
    db.ask("INSERT INTO :schema.limits VALUES (%s, %s) ON CONFLICT DO NOTHING", (day, agent_id))
    db.ask("SELECT 1 FROM :schema.limits WHERE day = %s AND agent_id = %s FOR UPDATE", (day, agent_id))


def spent(db: Asks, day: str, agent_id: str) -> dict[str, int]:
    """Picodollars by model."""
    return {model: int(exact) for model, exact in db.ask(SPENT, (day, agent_id))}


def apart(db: Asks, day: str, agent_id: str, besides: Collection[str]) -> dict[str, int]:
    """Picodollars by model that calls in flight may still cost, without those of the traces `besides`."""
    rows = db.ask(LIVE, (day, agent_id))
    return by_model(((model, int(exact), owner, trace_id) for model, exact, owner, trace_id in rows), besides)


def set_apart(db: Asks, earmark: Earmark, run_no: int) -> None:
    """What a call may cost is the call's until it ends; FundsTaken where a limit would be passed."""
    whose = (earmark.day, earmark.agent_id)
    if earmark.binding:
        refuse_over_limit(earmark, spent(db, *whose), apart(db, *whose, {earmark.trace_id}))
    db.ask(SET_APART, (run_no, earmark.trace_id, *whose, earmark.model, str(earmark.exact)))
