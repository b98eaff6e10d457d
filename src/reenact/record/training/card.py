"""The data card: what is in a data set, what was left out, and how to make it again. It tells no time of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex
from reenact.version import __version__

if TYPE_CHECKING:
    from reenact.record.training.dataset import DataSet

MOST_LISTED: Final = 100


def card(found: DataSet) -> Iterator[str]:
    runs = sum(part.runs for part in found.parts.values())
    seals = sha256_hex(canonicalize([list(pair) for pair in found.seals]))
    yield "# Data card"
    yield ""
    yield (
        f"{found.examples} tool calls of {runs} sealed runs, recorded by Reenact: at which step, for which goal, which "
        "tool was called with what, and what the call was worth. Format: `docs/reference/training_data.md`."
    )
    yield ""
    yield f"- made by reenact {__version__}, seed {found.seed}, split {'/'.join(map(str, found.split))} by session"
    yield f"- calls from {found.first or 'never'} to {found.last or 'never'}"
    yield f"- runs and their seals, listed below: sha256:{seals}"
    yield ""
    yield "| file | sessions | runs | examples | succeeded | repeated | with redacted values | digest |"
    yield "|---|---|---|---|---|---|---|---|"
    for part in found.parts.values():
        counts = [len(part.sessions), part.runs, part.examples, part.good, part.repeated, part.hidden]
        yield f"| `{part.name}.jsonl` | {' | '.join(map(str, counts))} | {part.digest} |"
    yield ""
    yield "A session is in one file alone. A repeated call is one that its run made before with the same parameters."
    yield ""
    yield "## Tools"
    yield ""
    yield from counted(found.tools, "none")
    yield ""
    yield "## What was left out"
    yield ""
    yield from counted(found.runs_left_out, None, "runs: ")
    yield from counted(found.calls_left_out, None, "calls: ")
    if not found.runs_left_out and not found.calls_left_out:
        yield "- nothing"
    yield ""
    yield (
        'What redaction took out when the runs were recorded stands as `{"$redacted": true}`, and was never in the '
        "journal in the clear. What looked harmless then was kept: goals and parameters are what people and models "
        "wrote, so read before you publish."
    )
    yield ""
    yield "## Runs"
    yield ""
    for run_id, seal in found.seals[:MOST_LISTED]:
        yield f"- {run_id} sealed {seal}"
    if len(found.seals) > MOST_LISTED:
        yield f"- and {len(found.seals) - MOST_LISTED} more"
    yield ""


def counted(counts: Counter[str], nothing: str | None, before: str = "") -> Iterator[str]:
    """Names and how often, the names in their order."""
    for name in sorted(counts)[:MOST_LISTED]:
        yield f"- {before}{plain(name)}: {counts[name]}"
    if len(counts) > MOST_LISTED:
        yield f"- {before}and {len(counts) - MOST_LISTED} more"
    if not counts and nothing is not None:
        yield f"- {nothing}"


def plain(name: str) -> str:
    """A tool's name is what somebody made up."""
    return "".join(char if char.isalnum() or char in "_.-@: " else "?" for char in name)
