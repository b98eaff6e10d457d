"""The suites that run on both engines, and how much of them a run of the tests takes on PostgreSQL.

REENACT_TEST_ENGINES names the engines: `sqlite`, `postgres`, or both with a comma between, and all of the suites' tests
run on each. Where it is not set, all run on SQLite, and the first case of the first test of each file on PostgreSQL as
well, but of a few that take long: a file's first test is its plainest, and each is about another part of what a store
is asked for.
"""

from __future__ import annotations

import os
from typing import Final

SUITES: Final = ("tests/runtime/", "tests/replay/", "tests/record/", "tests/crash/", "tests/verify/")
"""Runtime with sessions and people, replay, export and erasure, crash, verify. Contract and state machine have
fixtures of their own for every engine."""
LONG: Final = (
    "tests/crash/test_lost_keys.py",
    "tests/crash/test_random_kills.py",
    "tests/crash/test_went_on.py",
    "tests/record/erasing/test_killed.py",
    "tests/replay/test_random_plans.py",
    "tests/runtime/call/test_answers.py",
    "tests/runtime/people/test_a_loop_that_starts_over.py",
    "tests/runtime/people/test_people.py",
    "tests/runtime/plans/test_spoiled_plans.py",
    "tests/runtime/session/answering/test_second_start.py",
    "tests/runtime/session/test_front_cut_anywhere.py",
    "tests/runtime/session/test_long_sessions.py",
    "tests/runtime/writing/test_large_commits.py",
)
"""Files whose first test takes longer than most others of all: none of theirs is among those of each file."""
ENGINES: Final = ("sqlite", "postgres")
CHOSEN: Final = "REENACT_TEST_ENGINES"


def engines() -> tuple[str, ...]:
    """All of the suites' tests run on these; empty for what is usual."""
    named = tuple(filter(None, os.environ.get(CHOSEN, "").split(",")))
    assert set(named) <= set(ENGINES), f"{CHOSEN} names engines of {', '.join(ENGINES)}, with a comma between"
    return named


def is_in_a_suite(node_id: str) -> bool:
    return node_id.startswith(SUITES)
