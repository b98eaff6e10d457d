"""`reenact shadow`: a candidate decides beside a recorded run, and executes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption, SkillsOption, StoreOption, TargetArgument
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.replay.compare.counterfactual import Counterfactual

ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write both sides, call by call: markdown, or JSON for `….json`."),
]


def shadow(
    run: TargetArgument,
    candidate: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="FILE",
            help="The candidate: a plan or fields of its context (.json), the host's policy (.toml), skills (.py).",
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="As for `fork`: steps.STEP.parameters.prompt=…; again."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Another model for every step that asks one.")
    ] = None,
    report: ReportOption = None,
    store: StoreOption = None,
    skills: SkillsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a candidate decide beside a recorded run: both sides' calls, codes, cost and utility, and where they part.

    Nothing is executed. Calls that the recorded run made too have the recorded results; those of others are assumed.

    Exit codes: 0 every call is decided alike; 1 they part; 2 no candidate, or one that cannot be used; 3 the store
    cannot be used; 4 the recorded run has not ended.
    """
    from reenact.cli.options import existing_store, load_registry
    from reenact.cli.stdout import skill_output_to_stderr
    from reenact.record.bundle import is_bundle
    from reenact.replay.api import load
    from reenact.replay.modes.changes import parse_set
    from reenact.replay.shadow.candidate import Wanted, candidate_of
    from reenact.replay.shadow.shadow import shadow as run_shadow
    from reenact.runtime.effects.coroutines import run_sync
    from reenact.store.open import in_memory

    wanted = Wanted(tuple(candidate or ()), dict(parse_set(item) for item in change or ()), model)
    recording = load(in_memory() if is_bundle(run) else existing_store(store), run)
    with skill_output_to_stderr():
        found = run_sync(run_shadow(recording, candidate_of(recording, load_registry(skills), wanted)))
    write_report(found, report)
    show(found, as_json=as_json)
    raise typer.Exit(0 if found.same else 1)


def write_report(found: Counterfactual, report: Path | None) -> None:
    """In the form that its name asks for."""
    from reenact.errors import StoreUnavailable
    from reenact.provenance.sidecar.atomic import write_atomically
    from reenact.replay.compare.counterfactual import as_document, markdown

    if report is None:
        return
    if report.suffix == ".json":
        import msgspec

        data = msgspec.json.format(msgspec.json.encode(as_document(found)), indent=2) + b"\n"
    else:
        data = "\n".join(markdown(found)).encode("utf-8", "replace")
    try:
        write_atomically(report, data)
    except OSError as error:
        raise StoreUnavailable(f"{report}: cannot be written: {error.strerror}") from None


def show(found: Counterfactual, *, as_json: bool) -> None:
    from reenact.cli.screens.printing import one_line, print_json
    from reenact.replay.compare.counterfactual import as_document, text_lines

    if as_json:
        print_json(as_document(found))
        return
    for line in text_lines(found):
        say(one_line(line))
