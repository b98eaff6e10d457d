"""The tools of the agent, ordinary functions: a price, a charge and a mail. What reached the world stands in two files.

The payment provider charges for every request: it knows no keys. `FIRST_HOUR` says what goes wrong in this start:
`later` kills the process between the charge and the mail, `killed` inside the charge, when the money is taken and
nobody has been told, and `cut` cuts the connection there, while the process lives.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path


def find_price(item: str) -> int:
    return {"lamp": 1999, "chair": 4900}[item]


def charge(order: str, cents: int) -> str:
    note("charges.txt", f"order {order}: {cents} cents")
    if goes_wrong("killed"):
        die()
    if goes_wrong("cut"):
        raise ConnectionResetError("the connection was cut after the request had been sent")
    return f"receipt of order {order}"


def send_mail(to: str, text: str) -> str:
    note("mails.txt", f"{to}: {text}")
    return "sent"


def customer() -> str:
    """No tool: the program itself looks it up, between two calls."""
    if goes_wrong("later"):
        die()
    return "kim@example.com"


def note(file: str, line: str) -> None:
    with Path(file).open("a", encoding="utf-8") as out:
        out.write(f"{line}\n")


def goes_wrong(how: str) -> bool:
    return os.environ.get("FIRST_HOUR") == how


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
