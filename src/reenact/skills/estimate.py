"""What to reserve before an attempt, in exact picodollars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reenact.contracts.skill import SkillMetadata

PICODOLLARS_PER_CENT = 10**10


def reservation(metadata: SkillMetadata, parameters: Mapping[str, Any], prices: Mapping[str, Any]) -> int:
    """The declared estimate."""
    return metadata.cost_estimate_cents * PICODOLLARS_PER_CENT
