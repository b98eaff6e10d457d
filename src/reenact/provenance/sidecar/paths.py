"""The path of a report's sidecar."""

from __future__ import annotations


def sidecar_path(report: str) -> str:
    """A final `.md`, in lower case only, becomes `.replay.json`; to any other path that suffix is added."""
    return report.removesuffix(".md") + ".replay.json"
