"""`reenact backfill`: sidecars for reports that were published without one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.screens.printing import say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reenact.provenance.sidecar.backfill import Backfill

_DEFAULT = Path("docs/evals")


def backfill(
    root: Annotated[
        Path, typer.Option("--root", help="The folder of reports to scan, inside a git repository.")
    ] = _DEFAULT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
    recover_lost: Annotated[
        bool,
        typer.Option(
            "--recover-lost",
            help="Keep what the original's script loses: empty and critique's briefs, models listed flush left, "
            "conditions, the commit of the run; and fail where a named brief is gone.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write sidecars for reports without one, from their markdown and git's history.

    Exit codes: 0 done (or a dry run), 1 a report got no sidecar, 2 usage.
    """
    from reenact.provenance.sidecar.backfill import backfill as run
    from reenact.provenance.verify.report_json import as_json as json_text

    result = run(root, dry_run=dry_run, recover_lost=recover_lost)
    if as_json:
        say_json(json_text(_document(result)))
    else:
        for line in _lines(result):
            say(line)
    raise typer.Exit(result.exit_code)


def _document(result: Backfill) -> dict[str, object]:
    return {
        "dry_run": result.dry_run,
        "scanned": result.scanned,
        "written": result.written,
        "skipped": result.skipped,
        "failed": [failure._asdict() for failure in result.failed],
    }


def _lines(result: Backfill) -> Iterator[str]:
    from reenact.provenance.verify.report_escape import printable
    from reenact.provenance.yaml.javascript import pretty

    verb = "would write" if result.dry_run else "wrote"
    for path in result.written:
        yield f"{verb} {printable(path)}"
    yield ""
    counts = f"scanned={result.scanned} written={len(result.written)} skipped={len(result.skipped)}"
    yield f"backfill-replay: {counts} failed={len(result.failed)}"
    if result.failed:
        yield "failures:"
    for failure in result.failed:
        reason = f"  - {printable(failure.report)}: {printable(failure.reason)}"
        if not failure.issues:
            yield reason
            continue
        # JSON has escaped the line breaks of its strings: each of these lines is one.
        first, *rest = pretty(failure.issues).split("\n")
        yield f"{reason}: {first}"
        yield from (printable(line, 2000) for line in rest)
