"""`reenact export`: a run's evidence as a folder that anybody can check."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.exits import FAILED
from reenact.cli.options import JsonOption, StoreOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.record.export import Exported
    from reenact.store.evidence import Evidence


SPLIT = "80,10,10"


class Payloads(StrEnum):
    """What of the values goes along."""

    full = "full"
    none = "none"


class Format(StrEnum):
    """What is written."""

    bundle = "bundle"
    training = "training"


def export(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN…", help="A run (id, beginning of one, `last`); several for training data."),
    ] = None,
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new or empty folder.")],
    payloads: Annotated[
        Payloads, typer.Option("--payloads", help="Values along with the evidence, or their digests alone.")
    ] = Payloads.full,
    form: Annotated[
        Format, typer.Option("--format", help="Evidence, or the calls of runs as training data.")
    ] = Format.bundle,
    every: Annotated[bool, typer.Option("--all", help="Training data: of all sealed runs of the store.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Training data: what the split by session is drawn with.")] = 0,
    split: Annotated[
        str, typer.Option("--split", help="Training data: train, validation and test, of a hundred.")
    ] = SPLIT,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run's evidence to a folder: journal, seal, plan, values, keys, and a manifest over all of them.

    `reenact verify DIR` checks it, on any machine and without this store. With --format training, the calls of runs
    as lines of JSON, split by session, and a data card.

    Exit codes: 0 written; 1 the recording is broken: what can be read of it is written and said to be so; 2 no such
    run, or a folder that is not empty; 3 the store or the folder cannot be used.
    """
    from reenact.cli.options import existing_evidence
    from reenact.record.export import export_evidence

    refuse_of_other_form(form, payloads, seed=seed, split=split)
    if form is Format.training:
        from reenact.cli.commands.evidence.training import export_training

        export_training(runs or [], to, every=every, seed=seed, split=split, store=store, as_json=as_json)
        return
    with existing_evidence(store) as evidence:
        exported = export_evidence(evidence, one_run(runs or [], every=every), to, payloads=payloads.value)
        broken = what_is_broken(evidence, exported.run_id)
    show(exported, payloads, broken, as_json=as_json)
    if broken is not None:
        raise typer.Exit(FAILED)


def refuse_of_other_form(form: Format, payloads: Payloads, *, seed: int, split: str) -> None:
    """Nobody takes values for left out that were written, or a split for made."""
    from reenact.errors import UsageError

    if form is Format.training and payloads is Payloads.none:
        raise UsageError("--payloads none: training data is made of values; what was erased is left out of it")
    if form is Format.bundle and (seed != 0 or split != SPLIT):
        raise UsageError("--seed and --split are of training data: say --format training")


def one_run(runs: list[str], *, every: bool) -> str:
    """Evidence is that of one run."""
    from reenact.errors import UsageError

    if every or len(runs) != 1:
        raise UsageError("name one run, and its evidence is written; several, or --all, go with --format training")
    return runs[0]


def what_is_broken(evidence: Evidence, run_id: str) -> str | None:
    """What `verify` says first of the run where it lies; None where it breaks nowhere."""
    from reenact.store.checks.verification import verify_evidence

    verified = verify_evidence(evidence, run_id)
    first = verified.report.first_break
    if first is not None:
        return f"{first.code}: {first.what}"
    if verified.differences:
        other = verified.differences[0]
        return f"{other.table}, {other.row}: {other.what}"
    return None


def show(exported: Exported, mode: Payloads, broken: str | None, *, as_json: bool) -> None:
    from reenact.cli.screens.printing import one_line, print_json
    from reenact.errors import DamagedRecord

    if as_json:
        print_json(
            {
                "run_id": exported.run_id,
                "folder": str(exported.folder),
                "sealed": exported.sealed,
                "commits": exported.commits,
                "payloads": mode.value,
                "payloads_written": exported.payloads,
                "erased": exported.erased,
                "lost": exported.lost,
                "parents": list(exported.parents),
                "broken": broken,
            }
        )
    else:
        show_lines(exported, mode)
    if broken is not None:
        say(
            f"error: what was written is not sound, as `reenact verify {exported.run_id}` says: {one_line(broken)} "
            f"[{DamagedRecord.code}]",
            err=True,
        )


def show_lines(exported: Exported, mode: Payloads) -> None:
    from reenact.cli.screens.printing import plural

    values = plural(exported.payloads, "payload") if mode is Payloads.full else "no payloads"
    say(f"{exported.folder}: run {exported.run_id}, {plural(exported.commits, 'commit')}, {values}")
    if exported.parents:
        say(f"with {plural(len(exported.parents), 'run')} that it continues: {', '.join(exported.parents)}")
    if not exported.sealed:
        say("the run has no seal yet: a verifier will call it open", err=True)
    if exported.lost:
        say(f"{plural(exported.lost, 'payload')} lost: see `reenact verify {exported.run_id}`", err=True)
