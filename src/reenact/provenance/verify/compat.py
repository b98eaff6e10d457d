"""`verify-replay` as the original tool speaks: its lines, its exit codes, its way of finding the root.

It differs in three things. A parser's wording of an error is ours, so that nothing of a file is printed. Control
characters are escaped, so that no sidecar can forge a line. And nothing outside the root is opened: what lies there
is reported as not found.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Final, NamedTuple

from reenact.errors import HashingError, SidecarError
from reenact.provenance.hashing import decode, hash_raw_decoded
from reenact.provenance.root import find_foreign_root
from reenact.provenance.safe_paths import FileRefused, Refusal, components, read_beneath
from reenact.provenance.sidecar.paths import sidecar_path
from reenact.provenance.sidecar.shape import Findings
from reenact.provenance.sidecar.sidecar import V1_SHAPE, InputRef, Sidecar, parse_sidecar
from reenact.provenance.verify.inputs import Hashes
from reenact.provenance.verify.report_escape import printable
from reenact.provenance.verify.verify import MAX_SIDECAR_BYTES, read_near
from reenact.provenance.yaml.javascript import JsonSyntaxError, parse_json, pretty

_MAX_LINE: Final = 20_000
_USAGE: Final = "usage: ahd verify-replay <report.md | report.replay.json>"
_HELP: Final = (
    "ahd verify-replay · check that a published report's named inputs still hash to the recorded values.\n"
    f"{_USAGE}\n"
    "  Reads the .replay.json sidecar emitted alongside every report, re-hashes the token + brief on disk, reports "
    "drift. A passing check means the inputs you can read in the repo today are the inputs the run was given; a "
    "failure means someone edited the token or brief after publication and the recorded numbers no longer correspond "
    "to a runnable state.\n"
)


class Answer(NamedTuple):
    exit_code: int
    stdout: str = ""
    stderr: str = ""


class _Outcome(NamedTuple):
    """One input: `reason` is empty when it holds."""

    field: str
    expected: str
    actual: str | None
    reason: str


def verify_compatibly(arguments: list[str]) -> Answer:
    """What the original prints for these arguments. Only the first one counts, whatever it looks like."""
    if "--help" in arguments or "-h" in arguments:
        return Answer(0, _HELP)
    if not arguments:
        return Answer(2, stderr=f"{_USAGE}\n")
    report = arguments[0]
    path = report if report.endswith(".replay.json") else sidecar_path(report)
    root = find_foreign_root(report)
    try:
        sidecar = _load(path, root)
    except SidecarError as error:
        return Answer(2, stderr=f"{error}\n")
    outcomes = [_check_token(sidecar.token, root)]
    if sidecar.brief is not None:
        outcomes.append(_check_brief(sidecar.brief, root))
    drifted = any(outcome.reason for outcome in outcomes)
    lines = [*_head(report, path, sidecar), "", *(line for outcome in outcomes for line in _lines(outcome)), ""]
    lines.append("verdict: drift detected" if drifted else "verdict: replay inputs intact")
    return Answer(int(drifted), "".join(f"{printable(line, _MAX_LINE)}\n" for line in lines))


def _load(path: str, root: Path) -> Sidecar:
    shown = printable(path, _MAX_LINE)
    try:
        text = decode(read_near(Path(path), Path(os.path.realpath(root)), MAX_SIDECAR_BYTES))
    except FileRefused as refused:
        if refused.refusal is not Refusal.MISSING:
            raise SidecarError(_system_words(refused, shown)) from None
        raise SidecarError(
            f"No replay sidecar found at {shown}. Re-run the report-producing command at v0.10+, which emits the "
            "sidecar alongside the markdown, or pass the sidecar path directly."
        ) from None
    try:
        value = parse_json(text)
    except JsonSyntaxError as error:
        raise SidecarError(f"Replay sidecar at {shown} is {error}") from None
    findings = Findings()
    V1_SHAPE(value, (), findings)
    if findings.issues:
        issues = _printable_lines(pretty(findings.issues))
        raise SidecarError(f"Replay sidecar at {shown} does not validate against ReplaySchema:\n{issues}")
    sidecar = parse_sidecar(text)
    assert isinstance(sidecar, Sidecar)
    return sidecar


def _printable_lines(text: str) -> str:
    """JSON has escaped the line breaks of its strings; what is left of control characters is escaped here."""
    return "\n".join(printable(line, _MAX_LINE) for line in text.split("\n"))


def _head(report: str, path: str, sidecar: Sidecar) -> list[str]:
    lines = [
        f"ahd verify-replay · {report}",
        f"replay: {path}",
        f"  kind: {sidecar.kind}",
        f"  ahd_version: {sidecar.ahd_version}",
    ]
    if sidecar.ahd_commit:
        lines.append(f"  ahd_commit: {sidecar.ahd_commit}{' (dirty)' if sidecar.git_dirty else ''}")
    return [*lines, f"  invoked_at: {sidecar.invoked_at}"]


def _lines(outcome: _Outcome) -> list[str]:
    if not outcome.reason:
        return [f"  ok    {outcome.field} hash matches"]
    return [
        f"  FAIL  {outcome.field}: {outcome.reason}",
        f"        expected {outcome.expected}",
        f"        actual   {outcome.actual or '<none>'}",
    ]


def _check_token(token: InputRef, root: Path) -> _Outcome:
    place = _resolved(root, token.path)
    try:
        actual = Hashes().structured(_read(root, place))
    except FileRefused as refused:
        return _unread("token", token, place, refused, "failed to parse token")
    except HashingError as error:
        return _Outcome("token", token.hash, None, f"failed to parse token at {place}: {error}")
    changed = "token contents have changed since the run; re-hash differs"
    return _Outcome("token", token.hash, actual, "" if actual == token.hash else changed)


def _check_brief(brief: InputRef, root: Path) -> _Outcome:
    place = _resolved(root, brief.path)
    try:
        data = _read(root, place)
    except FileRefused as refused:
        return _unread("brief", brief, place, refused, "failed to read brief")
    if hash_raw_decoded(data) == brief.hash:
        return _Outcome("brief", brief.hash, brief.hash, "")
    try:
        actual = Hashes().structured(data)
    except HashingError as error:
        reason = f"brief is not valid YAML and the raw-bytes hash does not match: {error}"
        return _Outcome("brief", brief.hash, None, reason)
    changed = "brief contents have changed since the run (neither raw-bytes nor canonical-YAML hash matches)"
    return _Outcome("brief", brief.hash, actual, "" if actual == brief.hash else changed)


def _resolved(root: Path, path: str) -> str:
    """Where a recorded path leads from the root, lexically."""
    return "/" + posixpath.normpath(posixpath.join(root.as_posix(), path)).lstrip("/")


def _read(root: Path, place: str) -> bytes:
    top = root.as_posix().rstrip("/")
    if place != top and not place.startswith(f"{top}/"):
        raise FileRefused(Refusal.OUTSIDE, "outside the root")
    below = place.removeprefix(top).strip("/")
    return read_beneath(Path(os.path.realpath(root)), components(below) if below else ())


def _unread(field: str, recorded: InputRef, place: str, refused: FileRefused, attempt: str) -> _Outcome:
    if refused.refusal in (Refusal.MISSING, Refusal.OUTSIDE):
        return _Outcome(field, recorded.hash, None, f"{field} file not found at {place}")
    return _Outcome(field, recorded.hash, None, f"{attempt} at {place}: {_system_words(refused, place)}")


def _system_words(refused: FileRefused, place: str) -> str:
    if refused.refusal is Refusal.FOLDER:
        return "EISDIR: illegal operation on a directory, read"
    if refused.refusal is Refusal.UNREADABLE:
        return f"EACCES: permission denied, open '{place}'"
    return str(refused)
