"""Planners: a goal in, a plan out.

A planner gets a goal, the plan's context and a manifest of skills, and answers with a plan document or a
`PlannerError`, from a file (`static_file`), by rules (`rules`) or by asking a model (`model`). What it makes is checked
(`checking`), then pinned and stored; a replay never asks a planner again. Begin with `planner`, the interface.
"""
