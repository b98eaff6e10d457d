"""Forecasts of plans that never ran, by dry runs through the engine in memory.

In comes a pinned plan with the skills at hand and what is known of the world (`Outside`); out goes a `Simulation`, what
`reenact simulate` shows, or the `ReplayResult` of `Runtime.dry_run`. Nothing is called, looked up or kept. Begin to
read in `simulation`; `dry_plan` is a plan whose references lead to nothing yet and what comes of its calls,
and `modes.dry` runs it.
"""
