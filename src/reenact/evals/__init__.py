"""Evaluations that publish: n samples × models × conditions through the journal, and a report that can be checked.

In come a spec, a JSON file, and the files that it names; out come a sealed run, a report with its replay block, its
sidecar and its bundle. Begin with `spec.py`, then `running.py`; `publishing.py` writes, and `sealed.py` checks
what was published.
"""
