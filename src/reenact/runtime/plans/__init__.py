"""Plans: from what a caller hands over to steps that run in order.

In: a plan's file or mapping. Out: a pinned plan, bound to skills, step by step. Begin to read with `prepare.py`
(parsed, checked, pinned once; `pinning.py`), then `steps.py` (a plan as the runtime sees it) and `plan_run.py` (the
loop over its steps, to the seal). `plan_secrets.py` refuses literal secrets, `tool_registries.py` brings the host's
registries.
"""
