"""Planners: a goal in, a plan out. What they make is checked, pinned and stored; a replay never asks them again."""
