"""Rules."""

from ..timing import exceeds as too_long

__all__ = ["too_long"]
