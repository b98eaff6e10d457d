"""A bank whose payments a person approves, and stores in which one of them is on its way: what forgers work on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, skill
from reenact.errors import WaitingForPerson
from reenact.record.erase import erase
from reenact.runtime import crash_points
from reenact.runtime.people import decisions
from tests.engines.places import store_at

PLAN: dict[str, Any] = {
    "plan_id": "payments",
    "agent_id": "clerk",
    "steps": [
        {"step_id": "rate", "skill_id": "rate", "parameters": {"currency": "EUR"}},
        {"step_id": "pay", "skill_id": "pay", "parameters": {"payee": "Ada", "amount": 100, "rate": "{{rate.rate}}"}},
    ],
    "context": {"supervisor": "ask"},
}
APPROVED = ("Ada", 100, 2)


class Bank:
    """Its ledger is a file, so that it outlives whoever pays."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "store.db"
        self._ledger = folder / "ledger"

    def payments(self) -> list[tuple[str, int, int]]:
        lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
        return [(payee, int(amount), int(rate)) for payee, amount, rate in (line.split("|") for line in lines)]

    def forget(self) -> None:
        self._ledger.unlink(missing_ok=True)

    def skills(self) -> Registry:
        @skill("pay", version="1.0.0", tool_class="write")
        def pay(payee: str, amount: int, rate: int) -> dict[str, str]:
            with self._ledger.open("a") as ledger:
                ledger.write(f"{payee}|{amount}|{rate}\n")
            return {"paid": payee}

        @skill("rate", version="1.0.0", tool_class="read", retry={"backoff_base_ms": 1})
        def rate(currency: str) -> dict[str, Any]:
            return {"rate": 2, "currency": currency}

        return Registry([pay, rate])

    def runtime(self) -> Runtime:
        return Runtime(store_at(self.path), skills=self.skills())

    # -- where a payment may stand -------------------------------------------------------------------------------------

    def waiting(self) -> str:
        """A person was asked about it."""
        runtime = self.runtime()
        try:
            result = runtime.run(PLAN)
        finally:
            runtime.close()
        assert result.status == "waiting"
        return result.run_id

    def approved(self) -> str:
        """A person has approved it, and nobody has gone on yet."""
        run_id = self.waiting()
        runtime = self.runtime()
        asyncio.run(decisions.vote(runtime, run_id, "pay", approve=True, reason="seen", who="kim"))
        runtime.close()
        return run_id

    def cut_off(self, crash_point: str = "before_dispatch:2") -> str:
        """It was approved and about to be sent when its process died."""
        run_id = self.approved() if crash_point == "before_dispatch" else ""
        child = os.fork()
        if child == 0:
            crash_points.arm(crash_point)
            try:
                runtime = self.runtime()
                if run_id:
                    runtime.resume(run_id)
                else:
                    runtime.run({**PLAN, "context": {}})
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        runtime = self.runtime()
        (row,) = runtime.store.runs()
        runtime.close()
        return row.run_id

    def voted(self, *, approve: bool = True) -> str:
        """A person has spoken about it, and about one of another run, and nobody has heard of it yet."""
        run_id, other = self.waiting(), self.waiting()
        runtime = self.runtime()
        decisions.cast_vote(runtime, run_id, "pay", approve=approve, reason="seen", who="kim")
        decisions.cast_vote(runtime, other, "pay", approve=True, reason="seen", who="lee")
        runtime.close()
        return run_id

    def refused(self) -> str:
        return self.voted(approve=False)

    def kept(self) -> str:
        """It was made, a value of it was erased, another payment was made, and another key signs since."""
        run_id = self.paid()
        runtime = self.runtime()
        erase(runtime.store, run_id, "rate", who="kim", reason="asked to")
        runtime.run({**PLAN, "context": {}})
        runtime.store.key_table.rotate("kim")
        runtime.close()
        return run_id

    def paid(self) -> str:
        """It was made, and the run is sealed."""
        run_id = self.approved()
        runtime = self.runtime()
        assert runtime.resume(run_id).status == "completed"
        runtime.close()
        return run_id

    def session(self) -> str:
        """A session with a payment that waits, and one call that was made."""
        runtime = self.runtime()
        with runtime.session(id="till-1", agent_id="clerk", context={"supervisor": "ask"}) as session:
            session.call("rate", {"currency": "EUR"})
            with pytest.raises(WaitingForPerson):
                session.call("pay", {"payee": "Ada", "amount": 100, "rate": 2})
        runtime.close()
        return session.run_id
