"""A package whose planner decides through its helpers."""
