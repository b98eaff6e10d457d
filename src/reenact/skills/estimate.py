"""What to reserve before an attempt, in exact picodollars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reenact.contracts.skill import SkillMetadata

PICODOLLARS_PER_CENT = 10**10
