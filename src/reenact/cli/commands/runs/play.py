"""`reenact play`: a replay log as a film, in the terminal or as one page to mail."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.exits import FAILED
from reenact.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from reenact.trace import ReplayReader, ReplaySummary, VerificationResult

REPLAY, RECEIPT = "REPLAY.jsonl", "RECEIPT.json"
LARGEST = 1 << 32
"""Of a log in a zip."""


def play(
    log: Annotated[
        str,
        typer.Argument(metavar="FILE|DIR|ZIP|RUN", help="A REPLAY.jsonl, a folder or zip with one, or a run."),
    ],
    tool: Annotated[
        list[str] | None, typer.Option("--tool", metavar="NAME", help="Only this tool's calls; may be given again.")
    ] = None,
    failures: Annotated[bool, typer.Option("--failures", help="Only what failed.")] = False,
    speed: Annotated[float, typer.Option("--speed", metavar="X", min=0.01, max=4096, help="Times as fast.")] = 1.0,
    longest_wait: Annotated[
        float, typer.Option("--longest-wait", metavar="SECONDS", min=0, max=3600, help="Between two events.")
    ] = 2.0,
    no_tty: Annotated[bool, typer.Option("--no-tty", help="All at once, as plain lines.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="OUT", help="Write one page that needs nothing else.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option("--receipt", metavar="FILE", help="A RECEIPT.json to compare with.")
    ] = None,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Leave out lines that are damaged, and count them.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a session as its replay log tells it: calls, results, failures, at the speed that it had.

    On a terminal: space pauses, n goes one event on, f to the next failure, + and - change the speed, t chooses a tool,
    e goes to the end, q quits. The whole log is read first; a damaged one is not played unless --lenient is said. Where
    there is a receipt (beside the log in a folder, or with --receipt), it is said whether it fits. Nothing is run.

    Exit codes: 0 shown; 1 the log is damaged, or its receipt says something else; 2 no such log or run; 3 the store or
    a file cannot be used; 130 interrupted.
    """
    with found(log, receipt, store) as (place, beside):
        reader, summary, fits = read(place, beside, lenient=lenient)
        if html is not None:
            write_page(html, log, place, reader, summary, fits)
        if as_json:
            print_document(log, summary, fits)
        else:
            if html is None:
                show(reader, summary, tool or [], failures=failures, speed=speed, longest=longest_wait, plain=no_tty)
            say_ending(summary, fits, html)
    if fits is not None and not fits.success:
        sys.exit(FAILED)


@contextmanager
def found(log: str, receipt: Path | None, store: str | None) -> Iterator[tuple[Path, Path | None]]:
    """Where the log lies, and its receipt if there is one. That of a run is written for the while."""
    from reenact.errors import UsageError
    from reenact.record.bundle import is_bundle

    path = Path(log)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(f"{log} is no plain file, and a log is read twice: write it to one first")
    if log.endswith(".zip"):
        with tempfile.TemporaryDirectory(prefix="reenact-play-") as folder:
            place, beside = of_zip(Path(log), Path(folder))
            yield place, receipt or (beside if beside.is_file() else None)
    elif Path(log).is_file() or log.endswith(".jsonl"):
        yield Path(log), receipt
    elif is_bundle(log):
        place, beside = Path(log) / REPLAY, Path(log) / RECEIPT
        if Path(log).is_dir() and not place.is_file():
            raise UsageError(f"{log} holds no {REPLAY}: export the run once more, or name the log itself")
        yield place, receipt or (beside if beside.is_file() else None)
    else:
        with tempfile.TemporaryDirectory(prefix="reenact-play-") as folder:
            place = of_run(log, store, Path(folder) / "run") / REPLAY
            if not place.is_file():
                raise UsageError(f"run {log} has no replay log: it has no steps, or its values are gone")
            beside = place.with_name(RECEIPT)
            yield place, receipt or (beside if beside.is_file() else None)


def of_zip(path: Path, folder: Path) -> tuple[Path, Path]:
    """The log and the receipt of a zipped bundle, for the while; nothing else of it is unpacked."""
    from contextlib import closing

    from reenact.errors import UnusableZip
    from reenact.verify.files.zipped import files_at
    from reenact.verify.report import Problem

    with closing(files_at(path)) as files:
        for name in (REPLAY, RECEIPT):
            with (folder / name).open("wb") as file:
                fed = files.feed(name, file.write, LARGEST)
            if isinstance(fed, Problem) or (fed is None and name == REPLAY):
                raise UnusableZip(f"{path}: {fed.what if fed else f'it holds no {REPLAY}: export the run once more'}")
            if fed is None:
                (folder / name).unlink()
    return folder / REPLAY, folder / RECEIPT


def of_run(run: str, store: str | None, folder: Path) -> Path:
    """An exported run: `export` makes the log as everybody else gets it."""
    from reenact.cli.options import existing_evidence
    from reenact.record.export import export_evidence

    with existing_evidence(store) as evidence:
        export_evidence(evidence, run, folder)
    return folder


def read(
    place: Path, beside: Path | None, *, lenient: bool
) -> tuple[ReplayReader, ReplaySummary, VerificationResult | None]:
    """The log, read once through; and whether a receipt fits it."""
    from reenact.cli.screens.counted_bar import reading_bar
    from reenact.trace import ReplayReader, SessionReceipt, verify_replay

    reader = ReplayReader.from_file(place, lenient=lenient)
    with reading_bar("reading", place) as progress:
        summary = reader.summary(progress)
    if beside is None:
        return reader, summary, None
    receipt = SessionReceipt.from_file(beside)
    with reading_bar("comparing with the receipt", place) as progress:
        return reader, summary, verify_replay(reader, receipt, progress=progress)


def show(
    reader: ReplayReader,
    summary: ReplaySummary,
    tools: list[str],
    *,
    failures: bool,
    speed: float,
    longest: float,
    plain: bool,
) -> None:
    from reenact.cli.screens.playing import Filter, Player, show_lines
    from reenact.cli.screens.printing import terminal

    wanted = Filter(tools, failures=failures)
    if plain or not sys.stdout.isatty() or terminal().is_dumb_terminal:
        show_lines(reader.events, wanted)
    else:
        Player(wanted, total=summary.events, speed=speed, longest=longest).play(reader.events)


def write_page(
    out: Path, name: str, place: Path, reader: ReplayReader, summary: ReplaySummary, fits: VerificationResult | None
) -> None:
    from reenact.cli.screens.play_page import page
    from reenact.errors import UsageError

    if out.exists() and out.samefile(place):
        raise UsageError(f"{out} is the log itself: name another file for the page")
    whole = page(name, reader.events, summary, fits).encode()
    # A new one is its owner's alone, until they pass it on: it holds what was called with what.
    with open(out, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(whole)


def print_document(name: str, summary: ReplaySummary, fits: VerificationResult | None) -> None:
    from reenact.cli.screens.printing import print_json

    print_json({"log": name, "summary": summary, "receipt": fits})


def say_ending(summary: ReplaySummary, fits: VerificationResult | None, html: Path | None) -> None:
    """What it comes to, in a few lines."""
    from reenact.cli.screens.play_lines import receipt_lines, sums
    from reenact.cli.screens.printing import plural, say

    say(sums(summary))
    if summary.problems:
        found = ", ".join(f"{code} {count}" for code, count in sorted(summary.problems.items()))
        say(f"damaged: {plural(summary.skipped, 'line')} left out ({found})", err=True)
    for line in receipt_lines(fits):
        say(line)
    if html is not None:
        say(f"written to {html}")
