"""`reenact verify-replay`: are the inputs of published reports still the ones that their runs read?"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from reenact.cli.screens.printing import say, say_in_utf8, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reenact.evals.sealed import SealedRuns
    from reenact.provenance.verify.model import Verification


class RawAfterCompat(TyperCommand):
    """With `--compat` anywhere, every other argument is taken as it stands: the original has no options but help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--compat" in args:
            at = args.index("--compat")
            args = ["--compat", "--", *args[:at], *args[at + 1 :]]
        return super().parse_args(ctx, args)


COMMAND_SETTINGS = {"cls": RawAfterCompat}


def verify_replay(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Reports, sidecars, folders or globs.", show_default=False)
    ] = None,
    at_commit: Annotated[
        bool,
        typer.Option("--at-commit", help="Read the inputs as of the recorded commit, and name what changed later."),
    ] = False,
    root: Annotated[Path | None, typer.Option(help="Root of the repository. Default: found above each report.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every field of every report, also of those that hold.")
    ] = False,
    max_bytes: Annotated[int | None, typer.Option(help="Refuse inputs larger than this.", min=1)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Write SARIF 2.1.0.")] = None,
    summary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append markdown, as for $GITHUB_STEP_SUMMARY.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="URL", help="A store that must have the runs behind the reports, sealed as named."
        ),
    ] = None,
    compat: Annotated[
        bool, typer.Option("--compat", help="Print exactly what the original tool prints; takes one report.")
    ] = False,
) -> None:
    """Verify that the inputs of published reports are the ones that their replay blocks name.

    Exit codes: 0 every report holds, 1 an input or a field does not, 2 a sidecar is missing or cannot be used.
    """
    from reenact.cli.screens.counted_bar import CountedBar
    from reenact.errors import UsageError
    from reenact.provenance.safe_paths import MAX_INPUT_BYTES
    from reenact.provenance.verify.verify import verify_reports

    if compat:
        _answer_compatibly(paths or [])
    if not paths:
        raise UsageError("name at least one report, sidecar, folder or glob: reenact verify-replay docs/")
    with CountedBar("verifying") as progress, _runs(store) as runs:
        verification = verify_reports(
            paths,
            at_commit=at_commit,
            root=root,
            strict=strict,
            limit=max_bytes or MAX_INPUT_BYTES,
            progress=progress.update,
            runs=runs,
        )
    _write_files(verification, junit=junit, sarif=sarif, summary=summary)
    _print(verification, as_json=as_json, verbose=verbose)
    raise typer.Exit(verification.exit_code)


def _answer_compatibly(arguments: list[str]) -> None:
    from reenact.provenance.verify.compat import verify_compatibly

    answer = verify_compatibly(arguments)
    say_in_utf8(answer.stdout)
    say_in_utf8(answer.stderr, err=True)
    raise typer.Exit(answer.exit_code)


@contextmanager
def _runs(url: str | None) -> Iterator[SealedRuns]:
    """Looks for the runs of reports beside them, and in a store where one is named."""
    from reenact.cli.options import existing_evidence
    from reenact.evals.sealed import SealedRuns

    if url is None:
        yield SealedRuns()
        return
    with existing_evidence(url) as evidence:
        yield SealedRuns(evidence)


def _write_files(verification: Verification, *, junit: Path | None, sarif: Path | None, summary: Path | None) -> None:
    from reenact import __version__
    from reenact.cli.options import write_text
    from reenact.provenance.verify.report_ci import verification_junit, verification_summary
    from reenact.provenance.verify.report_json import verification_sarif

    write_text(junit, lambda: verification_junit(verification))
    write_text(sarif, lambda: verification_sarif(verification, __version__))
    write_text(summary, lambda: verification_summary(verification), mode="a")


def _print(verification: Verification, *, as_json: bool, verbose: bool) -> None:
    from reenact.provenance.verify.report_json import verification_json
    from reenact.provenance.verify.report_text import text_lines

    if as_json:
        say_json(verification_json(verification))
        return
    for line in text_lines(verification, verbose=verbose):
        say(line)
