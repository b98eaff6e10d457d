"""`reenact show`: a run as a timeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reenact.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from reenact.store.base import Store

Document = dict[str, Any]


def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN|DIR", help="A run (id, beginning of one, `last`), or an exported folder.")
    ],
    values: Annotated[bool, typer.Option("--values", help="Parameters and outputs too.")] = False,
    unseal: Annotated[bool, typer.Option("--unseal", help="With REENACT_SEAL_KEY, open what was sealed.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until it ends, or Ctrl-C.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run: each step with its decision, attempts, codes, back-offs, costs and digests, and the seal.

    Values stay out of it unless they are asked for. Watching changes nothing, and stopping it does not stop the run.
    An exported folder is verified first, and shown if nothing in it is broken.

    Exit codes: 0 shown, 1 the recording is damaged (`reenact verify` says where), 2 no such run, 3 the store or the
    folder cannot be used, 130 interrupted while watching.
    """
    from reenact.cli.options import existing_store
    from reenact.cli.screens.printing import print_json, print_lines
    from reenact.cli.screens.timeline_lines import timeline_lines
    from reenact.errors import UsageError
    from reenact.replay.api import is_folder

    if is_folder(run):
        if watch:
            raise UsageError("an exported folder does not change: say it without --watch")
        timeline = folder_document(Path(run), values=values)
    else:
        recorded = existing_store(store)
        run_id = recorded.find_run(run).run_id
        if watch:
            from reenact.cli.screens.watching import watch_run

            raise typer.Exit(watch_run(recorded, run_id, values=values, as_json=as_json))
        timeline = store_document(recorded, run_id, store, values=values)
    if unseal:
        from reenact.cli.screens.decrypting import decrypt_all

        timeline = decrypt_all(timeline)
    if as_json:
        print_json(timeline)
    else:
        print_lines(timeline_lines(timeline))


def store_document(recorded: Store, run_id: str, url: str | None, *, values: bool) -> Document:
    """A run of a store. Of one that has not ended it is said who works on it, or what to do."""
    from reenact.record.document import read_timeline
    from reenact.store.doctor.runs import look_at_run
    from reenact.values.clock import SystemDoor

    interrupted = run_id in recorded.unattended()
    document = read_timeline(recorded, recorded.find_run(run_id), values=values)
    finding = look_at_run(recorded, run_id, SystemDoor(), store=url)
    document["interrupted"] = interrupted
    document["next"] = None if finding is None else ": ".join(part for part in (finding.says, finding.do) if part)
    return document


def folder_document(folder: Path, *, values: bool) -> Document:
    """The run of an exported folder, under the names that its plan has, where that came along."""
    from reenact.record.bundle import read_bundle
    from reenact.record.document import read_timeline
    from reenact.values.canonical import parse_json

    recorded, report = read_bundle(folder, wish="shown")
    row = recorded.find_run(str(report.run_id))
    document = read_timeline(recorded, row, values=values)
    plan = folder / "plan.json"
    names = parse_json(plan.read_bytes(), what=str(plan)) if plan.is_file() else {}
    if isinstance(names, dict):
        document |= {name: names[name] for name in ("plan_id", "agent_id") if name in names}
    if document["seal"] is None:
        document["status"] = "open"
    return document
