"""A part of a campaign: SHARE=K/N in the environment is the Kth of N, so that long forms fit into an hour each."""

from __future__ import annotations

import os


def share() -> tuple[int, int]:
    """(K, N); the whole where nothing is said."""
    part, _, shares = os.environ.get("SHARE", "1/1").partition("/")
    return int(part), int(shares)


def part_of(count: int, seed: int) -> tuple[int, int]:
    """(how many, seed) of this share: of a campaign by numbers they follow those of the share before it."""
    part, shares = share()
    first, last = ((part - 1) * count // shares, part * count // shares)
    return last - first, seed + first
