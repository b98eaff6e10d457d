"""Matching a goal against the patterns of a rule file, in a process that is ended when it takes too long.

The patterns are the host's own, the goal may be anybody's, and nothing within a process stops a pattern that tries for
ever.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import msgspec

from reenact.values.canonical import canonicalize

LIMIT_S: Final = 2
"""Of CPU time."""
WAIT_S: Final = 30
"""Until then also a busy machine has started a process and given it that much."""
CHILD: Final = f"""
import json, re, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, ({LIMIT_S}, {LIMIT_S}))
except ImportError:
    pass
patterns, goal = json.load(sys.stdin)
found = ((number, re.search(pattern, goal, re.IGNORECASE)) for number, pattern in enumerate(patterns))
print(json.dumps(next(([number, match.groupdict()] for number, match in found if match), None)))
"""


class TookTooLong(Exception):  # the planner makes its own error of it
    """The patterns were not through with the goal in time."""


def first_match(patterns: list[str], goal: str) -> tuple[int, dict[str, str]] | None:
    """The first pattern that is found in the goal, without regard to case, and what its named groups caught."""
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", CHILD]
    try:
        done = subprocess.run(  # noqa: S603  # our own interpreter and our own code
            command, input=canonicalize([patterns, goal]), capture_output=True, timeout=WAIT_S, check=True
        )
    except subprocess.SubprocessError as error:
        raise TookTooLong from error
    found = msgspec.json.decode(done.stdout, type=tuple[int, dict[str, str | None]] | None)
    if found is None:
        return None
    return found[0], {name: text for name, text in found[1].items() if text is not None}
