"""Data types: plans, artifacts, log entries, journal records, outcomes, skills' declarations.

Frozen structs that decode strictly, with the checks that need nothing but the document itself. In come bytes or
documents, out come typed values, or an error that names the place. No behaviour. Begin with `plan` and `outcome`;
`artifacts` and `records` are what a journal holds.
"""
