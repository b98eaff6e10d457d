"""Pays the rent. The agent may look at the balance by itself; about paying a person is asked.

Start it as often as you like: what was done is answered from the record, and the rent is paid once.
"""

from __future__ import annotations

import sys
from typing import Any

from bank import balance, pay

from reenact import Runtime
from reenact.errors import WaitingForPerson


def main(store: str = "sqlite:///bank.db") -> None:
    runtime = Runtime(store, skills=[balance, pay])
    with runtime.session(
        id="rent-2026-11",
        goal="pay the rent",
        agent_id="accountant",
        context={"supervisor": "ask", "allowed_skills": ["bank.balance", "bank.pay"]},
    ) as session:
        before: Any = session.call("bank.balance", {"account": "main"}).output
        print(f"before: {before['cents']} cents", flush=True)
        paid = session.call(
            "bank.pay",
            {"to": "landlord", "cents": 2500, "token": ""},
            secrets={"/token": "BANK_TOKEN"},
            idempotency_key="rent-2026-11",
        )
        print(f"paid: {paid.code}")
        session.turn()  # the balance may be asked for again
        after: Any = session.call("bank.balance", {"account": "main"}).output
        print(f"after: {after['cents']} cents")


if __name__ == "__main__":
    try:
        main()
    except WaitingForPerson as waiting:
        print(f"{waiting.status}: {waiting}")
        sys.exit(waiting.exit_code)
