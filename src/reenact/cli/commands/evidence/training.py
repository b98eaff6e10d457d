"""`reenact export --format training`: the calls of runs as lines of JSON, split by session, and a data card."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reenact.cli.exits import FAILED
from reenact.cli.screens.printing import one_line, plural, say

if TYPE_CHECKING:
    from reenact.record.training.dataset import DataSet


def export_training(
    runs: list[str], to: Path, *, every: bool, seed: int, split: str, store: str | None, as_json: bool
) -> None:
    """Exit code 1 where runs were left out because they do not verify."""
    from reenact.cli.options import existing_store
    from reenact.cli.screens.counted_bar import CountedBar
    from reenact.errors import UsageError
    from reenact.record.training.dataset import write_dataset

    if every == bool(runs):
        raise UsageError("name the runs to learn from, or say --all: one of the two")
    with closing(existing_store(store)) as opened, CountedBar("reading runs") as bar:
        found = write_dataset(
            opened, None if every else runs, to, seed=seed, split=parts_of(split), progress=bar.update
        )
    show(found, as_json=as_json)
    for run_id, why in found.broken.items():
        say(f"run {run_id} was left out: {one_line(why)}", err=True)
    if found.broken:
        raise typer.Exit(FAILED)


def parts_of(split: str) -> tuple[int, int, int]:
    from reenact.errors import UsageError
    from reenact.values.bounds import whole_number

    numbers = [whole_number(each.strip()) for each in split.split(",")]
    if len(numbers) != 3 or None in numbers or sum(each or 0 for each in numbers) != 100:
        raise UsageError(f"--split {split}: three whole numbers that come to 100, such as 80,10,10")
    train, validation, test = (each or 0 for each in numbers)
    return train, validation, test


def show(found: DataSet, *, as_json: bool) -> None:
    from reenact.cli.screens.printing import print_json

    if as_json:
        print_json(
            {
                "folder": str(found.folder),
                "seed": found.seed,
                "split": list(found.split),
                "examples": found.examples,
                "parts": {
                    part.name: {
                        "sessions": len(part.sessions),
                        "runs": part.runs,
                        "examples": part.examples,
                        "digest": part.digest,
                    }
                    for part in found.parts.values()
                },
                "runs_left_out": dict(sorted(found.runs_left_out.items())),
                "calls_left_out": dict(sorted(found.calls_left_out.items())),
                "broken": found.broken,
            }
        )
        return
    for part in found.parts.values():
        sessions, examples = plural(len(part.sessions), "session"), plural(part.examples, "example")
        say(f"{found.folder / part.name}.jsonl: {examples} of {sessions}")
    left_out = sum(found.runs_left_out.values())
    if left_out or found.calls_left_out:
        calls = sum(found.calls_left_out.values())
        say(f"left out: {plural(left_out, 'run')} and {plural(calls, 'call')}; CARD.md says why", err=True)
