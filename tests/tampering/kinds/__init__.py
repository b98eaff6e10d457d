"""Named kinds of tampering with bundles: what each does, in one table. In come whole bundles, out come changed ones.

`kind.py` says what a kind is; each other file is about one part of the evidence. Begin with `files.py`.
"""

from __future__ import annotations

from tests.tampering.kinds import (
    contradictions,
    erasures,
    files,
    forgeries,
    keys,
    lines,
    log,
    manifests,
    mixing,
    notes,
    ordering,
    payloads,
    rules,
    shapes,
    signed,
)
from tests.tampering.kinds.kind import Kind

MODULES = (
    files,
    manifests,
    lines,
    shapes,
    payloads,
    erasures,
    forgeries,
    contradictions,
    rules,
    signed,
    ordering,
    notes,
    keys,
    log,
    mixing,
)


def all_kinds() -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for module in MODULES:
        for kind in module.kinds():
            assert kind.name not in found, kind.name
            found[kind.name] = kind
    return found
