"""Verifying published reports: every input that a sidecar names, against the files or git's history.

In come paths of reports, sidecars, folders or globs (`targets`), out comes a verdict for each report (`model`) as text,
JSON, SARIF, JUnit or markdown (`report_*`). `compat` prints what the original tool prints. Begin with `verify`.
"""
