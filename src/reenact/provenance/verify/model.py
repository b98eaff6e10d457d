"""The result of a verification: a verdict for each report, from a status for each of its fields."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Literal

from reenact.provenance.git import Commit


class Status(enum.Enum):
    """How one field fared. What a status means for the verdict stands in `LEVELS`."""

    OK = "ok"
    RELOCATED = "relocated"
    NOT_CHECKED = "not checked"
    IGNORED = "ignored"
    ABSENT = "absent"
    UNKNOWN_COMMIT = "unknown commit"
    DRIFTED = "drifted"
    MISSING = "missing"
    ERASED = "erased"
    UNPARSEABLE = "unparseable"
    UNDECIDED = "undecided"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    DIFFERS = "differs"
    INCONSISTENT = "inconsistent"


Level = Literal["ok", "note", "warn", "FAIL"]
Verdict = Literal["holds", "drifted", "not checked"]

LEVELS: dict[Status, Level] = {
    Status.OK: "ok",
    Status.RELOCATED: "ok",
    Status.NOT_CHECKED: "note",
    Status.IGNORED: "warn",
    Status.ABSENT: "warn",
    Status.UNKNOWN_COMMIT: "warn",
}


@dataclass(frozen=True)
class Check:
    """One field of a sidecar. Paths, hashes, names and `changed_by` are foreign text; `detail` may hold some."""

    field: str
    status: Status
    detail: str = ""
    path: str | None = None
    found: str | None = None
    expected: str | None = None
    actual: str | None = None
    changed_by: Commit | None = None

    @property
    def level(self) -> Level:
        return LEVELS.get(self.status, "FAIL")


ProblemKind = Literal["no sidecar", "invalid sidecar", "newer version", "refused"]


@dataclass(frozen=True)
class Problem:
    """Why a report could not be checked at all."""

    kind: ProblemKind
    message: str


@dataclass(frozen=True)
class Report:
    """The verification of one report. `subject` and `sidecar` are paths as the caller would write them."""

    subject: str
    sidecar: str
    facts: dict[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    problem: Problem | None = None

    @property
    def verdict(self) -> Verdict:
        if self.problem is not None:
            return "not checked"
        return "drifted" if any(check.level == "FAIL" for check in self.checks) else "holds"

    @property
    def has_warnings(self) -> bool:
        return any(check.level == "warn" for check in self.checks)


@dataclass(frozen=True)
class Verification:
    """All reports of one call, in the order in which they were named."""

    reports: tuple[Report, ...]
    strict: bool = False

    def count(self, verdict: Verdict) -> int:
        return sum(report.verdict == verdict for report in self.reports)

    @property
    def warned(self) -> int:
        return sum(report.verdict == "holds" and report.has_warnings for report in self.reports)

    @property
    def exit_code(self) -> int:
        """1 when an input or a field does not hold, else 2 when a report could not be checked, else 0."""
        if self.count("drifted") or (self.strict and self.warned):
            return 1
        return 2 if self.count("not checked") else 0
