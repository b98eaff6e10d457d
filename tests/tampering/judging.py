"""What the verifier says of a kind of tampering, and what it must say: `expected.json`, read and written here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from reenact.verify import Report
from tests.tampering.evidence import whole
from tests.tampering.kinds.kind import Kind
from tests.tampering.reading import exit_code, judge

EXPECTED = Path(__file__).with_name("expected.json")
PLACE = ("file", "line", "commit", "step_id")
Told = dict[str, Any]

NOBODY_FINDS: dict[str, str] = {
    "seal.note taken away": "a copy for other programs; what it says stands in notes.jsonl",
    "REPLAY.jsonl taken away": "made from the journal, and can be made again",
    "RECEIPT.json taken away": "made from the journal, and can be made again",
    "seal.tlog-proof taken away": "found by whoever kept a checkpoint or knows a witness, as absent",
    "the run that is continued taken away": "older bundles came without; the run record names it",
    "an open run of which the last commit is gone": "it is open before and after; the store's own head tells",
    "a head signed by a stranger alone: who kept a checkpoint": "the seal is in the head that he kept, which is enough",
}
"""Changes that no verdict shows, and why that is as it must be."""


def verdicts(report: Report) -> tuple[str, ...]:
    return (report.integrity, report.completeness, report.authenticity, report.anchoring)


@cache
def untouched(of: str, reader: str) -> Report:
    return judge(Kind("", of, dict, reader), whole(of))


def told(kind: Kind) -> Told:
    """Verdicts, and code and place of the first break."""
    return summed(judge(kind, kind.change(whole(kind.of))), kind)


def summed(report: Report, kind: Kind) -> Told:
    first = report.first_break
    said: Told = {
        "of": kind.of,
        "reader": kind.reader,
        "exit_code": exit_code(report, kind.reader),
        "verdicts": " ".join(verdicts(report)),
        "code": None if first is None else first.code,
    }
    if first is not None:
        place = {name: getattr(first.where, name) for name in PLACE}
        said |= {name: value for name, value in place.items() if value is not None}
    return said


def is_found(kind: Kind, said: Told) -> bool:
    """Broken, or at least not what is said of the evidence as it was."""
    as_it_was = " ".join(verdicts(untouched(kind.of, kind.reader)))
    return said["code"] is not None or said["verdicts"] != as_it_was


def expected() -> dict[str, Told]:
    found: dict[str, Told] = msgspec.json.decode(EXPECTED.read_bytes())
    return found


def write_expected(all_told: dict[str, Told]) -> None:
    EXPECTED.write_text(as_lines(all_told), encoding="utf-8")


def as_lines(all_told: Mapping[str, object]) -> str:
    """One kind a line, to be read and compared."""
    encoded = (msgspec.json.encode({name: said})[1:-1].decode() for name, said in all_told.items())
    return "{\n" + ",\n".join(encoded) + "\n}\n"
