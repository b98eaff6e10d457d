"""Lists of names in a policy or a profile: `team-*` covers every name that begins so, any other entry just itself."""

from __future__ import annotations

from collections.abc import Iterable


def covers(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def covers_skill(pattern: str, reference: str) -> bool:
    """Of skills an id covers all its versions; everywhere else `@` is a letter as any other."""
    return covers(pattern, reference) or reference.startswith(f"{pattern}@")


def lists(patterns: Iterable[str], name: str) -> bool:
    return any(covers(pattern, name) for pattern in patterns)


def lists_skill(patterns: Iterable[str], reference: str) -> bool:
    return any(covers_skill(pattern, reference) for pattern in patterns)
