"""A replay log as one page to mail: it opens from disk, loads nothing, and runs no script but its own.

Whatever the log says is text: control characters are spelled out, and everything is escaped. Should that fail once, the
policy in the page's head lets no other script or style run than the two whose digests it names, and nothing be loaded
or sent.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple

from reenact.cli.screens.play_lines import Tools, is_failure, receipt_lines, result, sentence, sums, time_of, value
from reenact.cli.screens.printing import one_line
from reenact.errors import CanonicalizationError
from reenact.trace.cutting import command_output
from reenact.trace.events import ReplayEvent, ToolCall, ToolResult, parse_time
from reenact.trace.hashing import canonical
from reenact.trace.reader import ReplaySummary
from reenact.trace.verifying import VerificationResult

MOST_EVENTS: Final = 20_000
MOST_TOOLS: Final = 40
"""Rows of the picture; what comes after them shares one."""
OTHERS: Final = "other tools"
WIDTH, LEFT, ROW = 1000, 180, 18

STYLE: Final = """
body{font:14px/1.4 system-ui,sans-serif;margin:1.5rem;color:#1b1b1b;background:#fff}
h1{font-size:1.2rem}
pre,.mono,td{font-family:ui-monospace,monospace;font-size:12px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0;max-height:30rem;overflow:auto}
table{border-collapse:collapse;width:100%}
td{padding:.15rem .5rem;vertical-align:top;border-bottom:1px solid #e5e5e5;overflow-wrap:anywhere}
tr.bad td{background:#fdecea}
.bad{color:#a3180b}
td.t{white-space:nowrap;color:#666}
svg{width:100%;height:auto;border:1px solid #e5e5e5;margin:1rem 0}
svg text{font:11px ui-monospace,monospace}
rect{fill:#3b7dd8}
rect.bad{fill:#d8483b}
[hidden]{display:none}
"""

SCRIPT: Final = """
"use strict";
const tool = document.getElementById("tool");
const failures = document.getElementById("failures");
const text = document.getElementById("text");
const rows = Array.from(document.querySelectorAll("tr[data-row]"));
function choose() {
  const words = text.value.toLowerCase();
  for (const row of rows) {
    const other = tool.value !== "" && row.hasAttribute("data-tool") && row.getAttribute("data-tool") !== tool.value;
    const fine = failures.checked && !row.classList.contains("bad");
    const without = words !== "" && !row.textContent.toLowerCase().includes(words);
    row.hidden = other || fine || without;
  }
}
for (const control of [tool, failures, text]) control.addEventListener("input", choose);
document.getElementById("controls").hidden = false;
"""


def source(content: str) -> str:
    """How a policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(sha256(content.encode()).digest()).decode()}'"


POLICY: Final = (
    f"default-src 'none'; script-src {source(SCRIPT)}; style-src {source(STYLE)}; base-uri 'none'; form-action 'none'"
)


def escaped(text: str) -> str:
    """Foreign text, to stand between tags or in a quoted attribute; its lines stay lines."""
    return html.escape("\n".join(map(one_line, text.split("\n"))), quote=True)


class Bar(NamedTuple):
    """A call in the picture: when it began, and for how long it went on, in milliseconds."""

    tool: str
    began: float
    took: int
    is_bad: bool
    name: str


def page(name: str, events: Iterable[ReplayEvent], summary: ReplaySummary, fits: VerificationResult | None) -> str:
    """The whole page. Of a log with very many events it holds the first ones, and says so."""
    rows: list[str] = []
    drawn = Picture()
    known = Tools()
    for number, event in enumerate(events):
        if number == MOST_EVENTS:
            rows.append(f"<tr><td></td><td></td><td>and {summary.events - number} more events</td></tr>")
            break
        tool = known.of(event)
        drawn.add(event, tool)
        rows.append(row(event, tool))
    told = [sums(summary), f"SHA-256 of the log: {summary.replay_hash}", *receipt_lines(fits)]
    failed = fits is not None and not fits.success
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="referrer" content="no-referrer">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escaped(name)}</title><style>{STYLE}</style></head><body>",
            f"<h1>{escaped(name)}</h1>",
            *(f'<p class="{"bad" if failed and number > 1 else "sum"}">{escaped(line)}</p>'
              for number, line in enumerate(told)),
            drawn.svg(),
            controls(drawn.tools),
            "<table>", *rows, "</table>",
            f"<script>{SCRIPT}</script></body></html>\n",
        ]
    )  # fmt: skip


def controls(tools: Iterable[str]) -> str:
    """Hidden until the script runs: without it everything is shown."""
    options = "".join(f'<option value="{escaped(tool)}">{escaped(tool)}</option>' for tool in tools)
    return (
        '<p id="controls" hidden>'
        f'<label>tool <select id="tool"><option value="">all</option>{options}</select></label> '
        '<label><input type="checkbox" id="failures"> failures only</label> '
        '<label>text <input type="text" id="text"></label></p>'
    )


def row(event: ReplayEvent, tool: str | None) -> str:
    marked = ' class="bad"' if is_failure(event) else ""
    of = "" if tool is None else f' data-tool="{escaped(tool)}"'
    time, kind, detail = cells(event, tool)
    when = f'<td class="t">{escaped(time)}</td>'
    return f'<tr data-row="1"{marked}{of}>{when}<td>{escaped(kind)}</td><td>{detail}</td></tr>\n'


def cells(event: ReplayEvent, tool: str | None) -> tuple[str, str, str]:
    time = time_of(event) or ""
    if isinstance(event, ToolCall):
        head = f"{escaped(event.step_id)} {escaped(event.id)}"
        return time, event.tool, f"{head}{details(value(event.params), text_of(event.params))}"
    if isinstance(event, ToolResult):
        shown = f"{escaped(result(event))}{details('output hash', event.output_hash)}"
        return time, tool or event.id, shown
    return time, type(event).__name__, escaped(sentence(event))


def details(head: str, whole: str) -> str:
    return f"<details><summary>{escaped(head)}</summary><pre>{escaped(command_output(whole))}</pre></details>"


def text_of(found: object) -> str:
    import msgspec

    try:
        return msgspec.json.format(canonical(found), indent=2).decode()
    except CanonicalizationError:
        return repr(found)


class Picture:
    """Calls over time, a row for each tool."""

    def __init__(self) -> None:
        self.tools: dict[str, None] = {}
        self._bars: list[Bar] = []
        self._open: dict[str, tuple[str, datetime]] = {}

    def add(self, event: ReplayEvent, tool: str | None) -> None:
        if isinstance(event, ToolCall):
            self.tools.setdefault(event.tool)
            self._open[event.id] = event.tool, parse_time(event.t)
        elif isinstance(event, ToolResult) and tool is not None and event.id in self._open:
            named, began = self._open.pop(event.id)
            self._bars.append(Bar(named, began.timestamp() * 1000, event.latency_ms, is_failure(event), event.id))

    def svg(self) -> str:
        rows = [*list(self.tools)[:MOST_TOOLS], *([OTHERS] if len(self.tools) > MOST_TOOLS else [])]
        height = ROW * len(rows) + 24
        inner = "".join([*self._labels(rows), *self._rects(rows)])
        return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="calls over time">{inner}</svg>'

    def _labels(self, rows: list[str]) -> Iterator[str]:
        for number, tool in enumerate(rows):
            short = tool if len(tool) <= 24 else f"{tool[:23]}…"
            yield f'<text x="4" y="{ROW * number + 14}">{escaped(short)}</text>'

    def _rects(self, rows: list[str]) -> Iterator[str]:
        if not self._bars:
            return
        first = min(bar.began for bar in self._bars)
        whole = max(bar.began + bar.took for bar in self._bars) - first or 1
        scale = (WIDTH - LEFT - 8) / whole
        for bar in self._bars:
            number = rows.index(bar.tool) if bar.tool in rows else len(rows) - 1
            at = f'x="{LEFT + (bar.began - first) * scale:.2f}" y="{ROW * number + 4}"'
            size = f'width="{max(2.0, bar.took * scale):.2f}" height="{ROW - 6}"'
            title = f"<title>{escaped(f'{bar.tool} {bar.name}: {bar.took} ms')}</title>"
            yield f'<rect {at} {size} class="{"bad" if bar.is_bad else "good"}">{title}</rect>'
        yield f'<text x="{LEFT}" y="{ROW * len(rows) + 16}">{whole / 1000:.3f} s in all</text>'
