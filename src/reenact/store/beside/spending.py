"""What an agent has spent on a day, vouched for: whoever takes a row of it out, or changes one, gives no money back.

A row among those of idempotency keys has the digest of all amounts of one day and agent, so it is authenticated, and so
is that there is none. A result is recorded whatever stands there; what cannot be told any more is then refused to
whoever asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from reenact.errors import NotAuthentic
from reenact.journal.chain import encode

SPENT: Final = ("reenact", "spent")
"""Server and tool of the rows."""
BOUND: Final = "spent"
"""What the first row of all says once there are some: those of before are vouched for as they are found."""
NOT_BOUND: Final = ""
UNKNOWN: Final = ""
"""In the place of a digest: amounts were changed before others were added."""


def bound(has_rows: bool) -> str:  # noqa: FBT001  # the one thing that is asked
    """What the first row of all says in an engine that has rows of amounts, or has none."""
    return BOUND if has_rows else NOT_BOUND


def place(day: str, agent_id: str) -> tuple[str, str, str]:
    return *SPENT, sha256(encode([day, agent_id])).hexdigest()


def digest(amounts: Iterable[tuple[str, str]]) -> str:
    """Of (model, picodollars as text); of nothing where there is no row."""
    return sha256(encode(sorted(amounts))).hexdigest()


def not_what_was_spent(day: str, agent_id: str) -> NotAuthentic:
    return NotAuthentic(
        f"nothing is sent: what agent {agent_id} has spent on {day} is not what was written, so nobody knows what is "
        "left of its budget. Put the store back from a backup, or say with `reenact keys vouch` that what is there is "
        "right"
    )
