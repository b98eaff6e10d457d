"""What the runs that are written to here hold, by content: known without asking, for nobody else writes to them."""

from __future__ import annotations

import threading
from collections import OrderedDict

from reenact.store.base import INDEXED_CONTENT, Unit
from reenact.store.postgres.opened.database import Asks

Found = tuple[str, int]
"""(commitment, commit that stored it)"""
MOST_RUNS = 1000
MOST_CONTENTS = 20_000
"""Of a run; where there are more, they are asked for."""
ONE = (
    "SELECT c.commitment, c.n FROM :schema.runs r JOIN :schema.contents c ON c.run_no = r.run_no "
    "JOIN :schema.payloads p ON p.run_no = c.run_no AND p.n = c.n AND p.k = c.k "
    "WHERE r.run_id = %s AND c.content_key = %s"
)
ALL = (
    "SELECT c.content_key, c.commitment, c.n FROM :schema.runs r JOIN :schema.contents c ON c.run_no = r.run_no "
    f"WHERE r.run_id = %s LIMIT {MOST_CONTENTS}"
)


class Contents:
    """Of one process. What it finds may have been erased since: whoever wants it looks at it."""

    def __init__(self, database: Asks) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, dict[bytes, Found] | None] = OrderedDict()
        """Of runs whose lease is held here; None where they were not asked for yet."""

    def hold(self, run_id: str, *, is_new: bool = False) -> None:
        """From here on nobody else writes to the run."""
        with self._lock:
            self._runs[run_id] = {} if is_new else None
            if len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)

    def let_go(self, run_id: str) -> None:
        with self._lock:
            self._runs.pop(run_id, None)

    def written(self, unit: Unit) -> None:
        """It is durable."""
        with self._lock:
            known = self._runs.get(unit.run_id)
            if known is None:
                return
            for payload in unit.payloads:
                if payload.content_key and len(payload.envelope) >= INDEXED_CONTENT:
                    known.setdefault(payload.content_key, (payload.commitment, unit.n))
            if len(known) >= MOST_CONTENTS:
                self._runs.pop(unit.run_id)

    def find(self, run_id: str, content_key: bytes) -> Found | None:
        with self._lock:
            is_held, known = run_id in self._runs, self._runs.get(run_id)
        if is_held and known is None:
            known = self._load(run_id)
        if known is not None:
            return known.get(content_key)
        rows = self._database.ask(ONE, (run_id, content_key))
        return (rows[0][0].hex(), int(rows[0][1])) if rows else None

    def _load(self, run_id: str) -> dict[bytes, Found] | None:
        rows = self._database.ask(ALL, (run_id,))
        known = {key: (commitment.hex(), int(n)) for key, commitment, n in rows}
        with self._lock:
            if run_id not in self._runs:
                return None
            if len(known) >= MOST_CONTENTS:
                self._runs.pop(run_id)
                return None
            self._runs[run_id] = known
        return known
