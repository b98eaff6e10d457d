"""Data types: plans, artifacts, log entries, journal records, outcomes, skills' declarations.

Frozen structs that decode strictly, with the checks that need nothing but the document itself. No behaviour. Begin
with `plan` and `outcome`; `artifacts` and `records` are what a journal holds.
"""
