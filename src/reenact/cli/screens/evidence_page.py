"""A verification as a page to open or mail, and as markdown: self-contained, and whatever was recorded stays text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING

from reenact.cli.screens.evidence_words import QUESTIONS
from reenact.provenance.verify.report_escape import in_markdown, in_markup

if TYPE_CHECKING:
    from reenact.cli.screens.evidence_words import Evidence

MOST_ROWS = 2000
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; padding: .3rem .6rem;
border-bottom: 1px solid #ddd; overflow-wrap: anywhere; } code { font-size: .9em; } .holds { color: #106b21; }
.broken, .contradicted { color: #b00020; } .open, .absent { color: #7a5200; } .small { color: #555; font-size: .9em; }
"""
HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{HASH}'; base-uri 'none'; form-action 'none'"


def html_page(evidence: Evidence) -> str:
    """One page without scripts, which loads nothing."""
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="viewport" content="width=device-width">\n'
        f"<title>{in_markup(evidence.headline)}</title>\n<style>{STYLE}</style></head><body>\n"
    )
    parts = [
        f"<h1>{in_markup(evidence.headline)}</h1>",
        _rows("", ((name, value) for name, value in evidence.facts)),
        "<h2>What is proven, and what is not</h2>",
        *_claims(evidence),
        "<h2>What these records cannot say</h2>",
        _list([*evidence.not_proven, *evidence.report.notes]),
        *_findings(evidence),
        "<h2>What happened</h2>",
        _timeline(evidence),
    ]
    return head + "\n".join(parts) + "\n</body></html>\n"


def _claims(evidence: Evidence) -> Iterable[str]:
    for claim in evidence.claims:
        yield (
            f'<h3>{in_markup(QUESTIONS[claim.aspect])} <span class="{in_markup(claim.verdict)}">'
            f"{in_markup(claim.aspect)} {in_markup(claim.verdict)}: {claim.standing}</span></h3>\n"
            f'<p>{in_markup(claim.sentence)}</p>\n<p class="small">{in_markup(claim.rests_on)}</p>'
        )


def _findings(evidence: Evidence) -> Iterable[str]:
    found = list(evidence.findings)
    if not found:
        return
    yield "<h2>Findings</h2>"
    yield _rows(
        "<tr><th>code<th>where<th>what<th>expected<th>got</tr>\n",
        ((each.code, each.where, each.what, each.expected or "", each.got or "") for each in found),
    )
    if evidence.more_findings > 0:
        yield f"<p>and {evidence.more_findings} more</p>"


def _timeline(evidence: Evidence) -> str:
    if evidence.run is None:
        return "<p>Not shown: what cannot be relied on is not retold.</p>"
    moments = evidence.timeline
    head = "<tr><th>when<th>what<th>how it went<th></tr>\n"
    table = _rows(head, ((each.ts, each.what, each.how, each.detail) for each in moments[:MOST_ROWS]))
    more = len(moments) - MOST_ROWS
    return table + (f"\n<p>and {more} more: `reenact show` lists them</p>" if more > 0 else "")


def _rows(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    body = "".join("<tr>" + "".join(f"<td>{in_markup(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table>\n{head}{body}</table>"


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{in_markup(item)}</li>\n" for item in items) + "</ul>"


def markdown_page(evidence: Evidence) -> str:
    """The same in markdown; foreign text is inert in it."""
    lines = [f"# {in_markdown(evidence.headline)}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {in_markdown(value)} |" for name, value in evidence.facts]
    lines += ["", "## What is proven, and what is not", ""]
    for claim in evidence.claims:
        lines += [f"**{QUESTIONS[claim.aspect]}** {claim.aspect} *{in_markdown(claim.verdict)}*: {claim.standing}."]
        lines += [f"{in_markdown(claim.sentence)} ({in_markdown(claim.rests_on)})", ""]
    lines += ["## What these records cannot say", ""]
    lines += [f"- {in_markdown(item)}" for item in (*evidence.not_proven, *evidence.report.notes)]
    found = list(evidence.findings)
    if found:
        lines += ["", "## Findings", "", "| code | where | what | expected | got |", "|---|---|---|---|---|"]
        lines += [_row(each.code, each.where, each.what, each.expected or "", each.got or "") for each in found]
    lines += ["", "## What happened", ""]
    if evidence.run is None:
        lines += ["Not shown: what cannot be relied on is not retold."]
    else:
        moments = evidence.timeline
        lines += ["| when | what | how it went | |", "|---|---|---|---|"]
        lines += [_row(each.ts, each.what, each.how, each.detail) for each in moments[:MOST_ROWS]]
        if len(moments) > MOST_ROWS:
            lines += ["", f"and {len(moments) - MOST_ROWS} more"]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(in_markdown(cell) for cell in cells) + " |"
