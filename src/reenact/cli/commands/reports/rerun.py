"""`reenact rerun`: a report's recorded command again, in a work tree at its recorded commit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.screens.printing import say, say_json

if TYPE_CHECKING:
    from reenact.provenance.capture.rerun import Recorded


def rerun(
    report: Annotated[str, typer.Argument(help="The report, or its sidecar.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run without asking.")] = False,
    into: Annotated[
        Path | None, typer.Option(help="Where to make the work tree. Default: a temporary folder.", metavar="DIR")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the work tree after the run.")] = False,
    root: Annotated[Path | None, typer.Option(help="Root of the repository. Default: found above the report.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document; talk on stderr.")] = False,
) -> None:
    """Run a report's recorded command again, in a git work tree at its recorded commit.

    It shows the command first and asks; until then no file is checked out and nothing of the repository runs. The work
    tree is kept for its results, unless --remove.

    Exit codes: 0 the command ended with 0, 1 it did not, 2 nothing to run, 4 not agreed to.
    """
    from reenact.provenance.capture.rerun import Checkout, load_recorded, run_recorded

    recorded = load_recorded(report, root)
    with Checkout(recorded, into) as checkout:
        arguments = checkout.localized(recorded)
        _show(report, recorded, arguments, checkout.root)
        if not yes and not _agreed():
            _say("not run; the work tree is removed")
            raise typer.Exit(4)
        checkout.check_out()
        code = run_recorded(arguments, checkout.root, output=sys.stderr if as_json else None)
        checkout.keep = not remove
        _say(f"the command ended with exit code {code}")
        if checkout.keep:
            _say(f"its work tree is kept; remove it with: git worktree remove --force {checkout.place}")
        if as_json:
            _print_json(recorded, arguments, checkout.place if checkout.keep else None, code)
    raise typer.Exit(0 if code == 0 else 1)


def _show(report: str, recorded: Recorded, arguments: list[str], place: Path) -> None:
    from reenact.provenance.capture.rerun import shown_command
    from reenact.provenance.verify.report_escape import printable
    from reenact.provenance.verify.report_text import check_lines
    from reenact.provenance.verify.verify import Verifier

    _say(f"report {printable(report)}")
    _say(f"commit {recorded.commit}, goes to {place}")
    with Verifier(at_commit=True, root=recorded.root) as verifier:
        for check in verifier.verify(report).checks:
            if check.path:
                for line in check_lines(check):
                    _say(line)
    for warning in recorded.warnings:
        _say(f"  warn  {warning}")
    _say(f"recorded command: {shown_command(recorded.argv)}")
    if list(recorded.argv) != arguments:
        _say(f"runs here as:     {shown_command(arguments)}")


def _agreed() -> bool:
    """A clear yes; silence, an end of input and everything else is a no."""
    say("Run this command now? [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _say(line: str) -> None:
    say(line, err=True)


def _print_json(recorded: Recorded, arguments: list[str], place: Path | None, code: int) -> None:
    from reenact.provenance.verify.report_json import as_json

    document = {
        "commit": recorded.commit,
        "recorded": list(recorded.argv),
        "command": arguments,
        "worktree": None if place is None else str(place),
        "exit_code": code,
    }
    say_json(as_json(document))
