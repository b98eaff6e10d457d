"""What the records of a call say of each other: attempts against their effect, a run's conduct against its own rules.

In come records of one trace, in order; out come problems. `attempts` adds up what an effect must repeat, `rules` holds
codes, retries, amounts and times against facts, policy and budget, and `foreign` is a whole trace that another runtime
wrote. Begin with `attempts`.
"""
