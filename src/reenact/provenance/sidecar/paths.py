"""The paths of what lies beside a report: its sidecar, the bundle of its run, its results."""

from __future__ import annotations


def sidecar_path(report: str) -> str:
    """A final `.md`, in lower case only, becomes `.replay.json`; to any other path that suffix is added."""
    return report.removesuffix(".md") + ".replay.json"


def bundle_path(report: str) -> str:
    """The same with `.bundle`: the folder that holds the evidence of the run behind it."""
    return report.removesuffix(".md") + ".bundle"


def results_path(report: str) -> str:
    """The same with `.results.json`: what an evaluation came to, answer by answer."""
    return report.removesuffix(".md") + ".results.json"
