"""`# reenact: ignore[RN101] why it is right here`: a finding may be silenced, with a reason, and only if it is there.

A comment speaks for the lines of the expression that it stands on; alone on its line, for the statement below it.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from reenact.lint.findings import RULES, Finding

_COMMENT: Final = re.compile(r"#\s*reenact:\s*(?P<what>.*)")
_IGNORE: Final = re.compile(r"ignore\s*\[(?P<rules>[^\]]*)\]\s*[:\-–—]*\s*(?P<reason>.*)")
_HOW: Final = "write `# reenact: ignore[RN101] why it is right here`"


@dataclass(slots=True)
class Suppression:
    """One comment: the rules that it names, the line that it speaks for, and which of its rules were needed."""

    line: int
    speaks_for: int
    rules: tuple[str, ...]
    used: set[str] = field(default_factory=set)


def silence(findings: Iterable[Finding], text: str, shown: str) -> list[Finding]:
    """The findings that no comment of this file silences, and those about the comments themselves."""
    suppressions, said = _read_comments(text, shown) if "reenact:" in text else ([], [])
    by_line: dict[int, list[Suppression]] = {}
    for one in suppressions:
        by_line.setdefault(one.speaks_for, []).append(one)
    for finding in findings:
        lines = range(finding.place.line, finding.place.end_line + 1)
        matching = [one for line in lines for one in by_line.get(line, ()) if finding.rule in one.rules]
        for one in matching:
            one.used.add(finding.rule)
        if not matching:
            said.append(finding)
    for one in suppressions:
        unused = [rule for rule in one.rules if rule in RULES and rule not in one.used]
        if unused:
            message = f"nothing to ignore here for {', '.join(unused)}; remove it from the comment"
            said.append(Finding.about_line(shown, one.line, "RN004", message))
    return said


def _read_comments(text: str, shown: str) -> tuple[list[Suppression], list[Finding]]:
    """The suppressions of a file, and what is wrong with those that are not in force."""
    suppressions: list[Suppression] = []
    problems: list[Finding] = []
    for line, speaks_for, said in _comments(text):
        parsed = _IGNORE.match(said)
        rules = () if parsed is None else tuple(rule.strip() for rule in parsed["rules"].split(",") if rule.strip())
        if parsed is None or not rules:
            problems.append(Finding.about_line(shown, line, "RN002", f"the comment names no rule; {_HOW}"))
        elif not parsed["reason"].partition("#")[0].strip(" .-"):
            problems.append(Finding.about_line(shown, line, "RN002", f"the comment gives no reason; {_HOW}"))
        else:
            suppressions.append(Suppression(line, speaks_for, rules))
        for rule in rules:
            if rule not in RULES or rule.startswith("RN0"):
                message = f"there is no rule {rule!a} to ignore; `reenact lint --rules` lists them"
                problems.append(Finding.about_line(shown, line, "RN003", message))
    return suppressions, problems


def _comments(text: str) -> list[tuple[int, int, str]]:
    """Each comment to lint: its line, the one it speaks for (the next with code, if it stands alone), what it says."""
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    found: list[tuple[int, int, str]] = []
    next_code = 0
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    for token in reversed(tokens):
        if token.type not in silent:
            next_code = token.start[0]
        elif said := _COMMENT.match(token.string):
            line, column = token.start
            alone = not token.line[:column].strip()
            found.append((line, next_code if alone and next_code else line, said["what"]))
    return found[::-1]
