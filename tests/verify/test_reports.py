"""What is printed: verdicts apart, the first break with its place; and the same as JSON."""

from __future__ import annotations

import ast
import json

import msgspec
from tools.vectors.pieces import b64, kid_of, public_bytes
from tools.vectors.scenarios import three_steps

import reenact.verify
from reenact.verify import CODES, Finding, Report, Where, human, verify_lines
from reenact.verify.report import Counts, Findings, Problem, shown
from tests.conftest import ROOT
from tests.verify.test_tampering import Kept

RUN = three_steps()
KID = kid_of(RUN.key)
ONLY = f"capabilities only, by the folder's own key {KID}, which nobody vouched for; results are nobody's word"
KEYS = {kid_of(RUN.key): b64(public_bytes(RUN.key))}


def test_a_run_that_holds_is_told_in_seven_lines() -> None:
    assert human(verify_lines(RUN.bodies, Kept(RUN), keys=KEYS)) == [
        "run           019b76da-a800-7000-8000-000000000001 (completed)",
        "integrity     holds   every digest and link recomputes",
        "completeness  holds   the seal's counts and roots are those of the lines",
        f"authenticity  absent  {ONLY}",
        "anchoring     absent  no outside witness",
        f"seal          {json.loads(RUN.bodies[-1].splitlines()[-1])['seal']['seal_digest']}",
        "read          6 commits, 3 traces, 5 attempts, 11 of 11 payloads",
    ]


def test_the_first_break_is_told_with_its_place_and_both_sides() -> None:
    bodies = list(RUN.bodies)
    bodies[1] = bodies[1].replace(b'"code":"ERR_HTTP_503"', b'"code":"ERR_HTTP_500"')
    printed = human(verify_lines(bodies, Kept(RUN), keys=KEYS))
    offset = len(bodies[0]) + bodies[1].index(b"\n") + 1
    place = f"commit 2, line 7, byte {offset}, trace 019b76da-a800-7000-8000-000000001000, step fetch"
    assert f"first break   journal.jsonl, {place}" in printed
    at = printed.index(f"first break   journal.jsonl, {place}")
    assert printed[at + 1] == "              ATTEMPT_DIGEST: the digest of an attempt"
    assert printed[at + 2].startswith("              expected ")
    assert printed[at + 3].startswith("              got      ")
    assert "more finding" in printed[-1]


def test_a_report_is_json_and_reads_back() -> None:
    report = verify_lines(RUN.bodies[:-1], Kept(RUN), keys=KEYS)
    data = msgspec.json.encode(report)
    assert msgspec.json.decode(data, type=Report) == report
    plain = json.loads(data)
    assert (plain["integrity"], plain["completeness"], plain["first_break"]) == ("holds", "open", None)
    assert plain["counts"]["commits"] == len(RUN.bodies) - 1


def verdict(**verdicts: str) -> Report:
    base = verify_lines(RUN.bodies, Kept(RUN), keys=KEYS)
    return msgspec.structs.replace(base, **verdicts)


def test_exit_codes_follow_the_verdicts_and_never_fold_them() -> None:
    assert verdict().exit_code == 0
    assert verdict(authenticity="absent").exit_code == 0
    assert verdict(completeness="open").exit_code == 4
    for aspect in ("integrity", "completeness", "authenticity"):
        assert verdict(**{aspect: "broken"}).exit_code == 1
    assert verdict(integrity="broken", completeness="open").exit_code == 1


def test_findings_beyond_a_hundred_are_counted_and_not_kept() -> None:
    findings = Findings()
    for _ in range(250):
        findings.add(Problem("LINE_NOT_CANONICAL", "x"), Where())
    assert (len(findings.kept), findings.total) == (100, 250)


def test_shown_keeps_words_and_nothing_that_acts() -> None:
    assert shown("Grüße, 世界") == "Grüße, 世界"
    assert shown("a\tb\x1b[0m\u202e\udcff") == "a\\tb\\x1b[0m\\u202e\\udcff"
    assert len(shown("x" * 1000)) == 161


def test_every_code_that_the_verifier_can_report_is_listed_and_every_listed_one_is_used() -> None:
    used = set()
    for path in sorted((ROOT / "src" / "reenact" / "verify").rglob("*.py")):
        if path.name == "report.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in CODES:
                used.add(node.value)
            name = getattr(getattr(node, "func", None), "id", "")
            if name in ("Problem", "first_difference") and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
                assert node.args[0].value in CODES  # type: ignore[attr-defined]
    assert used == set(CODES)


def test_the_steps_in_the_docstring_are_the_steps_in_the_code() -> None:
    text = reenact.verify.__doc__ or ""
    assert [line.split(".")[0] for line in text.splitlines() if line[:1].isdigit()] == list("12345678")
    code = "".join(
        (ROOT / "src" / "reenact" / "verify" / f"{name}.py").read_text(encoding="utf-8")
        for name in ("journal", "verifier", "traces")
    )
    for step in ("Step 1", "Step 2", "Steps 3 to 5", "Step 3.1", "Step 3.2", "Step 3.3", "Step 3.4", "Step 4:"):
        assert step in code, step
    for step in (
        "Step 4.1",
        "Step 4.2",
        "Step 4.3",
        "Step 4.4",
        "Step 4.5",
        "Step 4.6",
        "Step 4.7",
        "Step 5",
        "Step 6",
        "Step 7",
    ):
        assert step in code, step


def test_public_types_say_what_they_hold() -> None:
    finding = Finding(code="LINE_NOT_CANONICAL", breaks="integrity", what="x", expected=None, got=None, where=Where())
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding
    assert Counts().payloads == 0
