"""The second verifier over the same kinds: verdicts, exit code, and code and place of the first break."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.second_verifier.both import second
from tests.tampering.campaign import Corpus
from tests.tampering.judging import PLACE

ASPECTS = ("integrity", "completeness", "authenticity", "anchoring")


def differences(corpus: Corpus, folder: Path) -> tuple[int, dict[str, Any]]:
    """(how many bundles, {kind: (what ours says, what the second one says)} where they part)."""
    folder.mkdir(exist_ok=True)
    groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    said = corpus.write(folder)
    for place, each in said.items():
        groups[tuple(each["arguments"])].append(place)
    found = {}
    for arguments, places in groups.items():
        named = [word if word.startswith("--") else str(folder / word) for word in arguments]
        for place, report in zip(places, second([folder / each for each in places], *named), strict=True):
            ours = {name: value for name, value in said[place].items() if name not in ("arguments", "of", "reader")}
            theirs = summed(report, ours["name"])
            if ours != theirs:
                found[ours["name"]] = (ours, theirs)
    return len(said), found


def summed(report: dict[str, Any], name: str) -> dict[str, Any]:
    first = report["first_break"]
    told = {
        "name": name,
        "exit_code": report["exit_code"],
        "verdicts": " ".join(report[aspect] for aspect in ASPECTS),
        "code": None if first is None else first["code"],
    }
    where = {} if first is None else first["where"]
    return told | {part: where[part] for part in PLACE if where.get(part) is not None}
