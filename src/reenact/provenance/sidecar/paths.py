"""The paths of what lies beside a report: its sidecar, and the bundle of its run."""

from __future__ import annotations


def sidecar_path(report: str) -> str:
    """A final `.md`, in lower case only, becomes `.replay.json`; to any other path that suffix is added."""
    return report.removesuffix(".md") + ".replay.json"


def bundle_path(report: str) -> str:
    """The same with `.bundle`: the folder that holds the evidence of the run behind it."""
    return report.removesuffix(".md") + ".bundle"
