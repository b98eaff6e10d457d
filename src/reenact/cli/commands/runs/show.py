"""`reenact show`: a run as a timeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption, StoreOption, TargetArgument

if TYPE_CHECKING:
    from reenact.record.document_shape import RunDocument
    from reenact.store.base import Store


def show(
    run: TargetArgument,
    values: Annotated[bool, typer.Option("--values", help="Parameters and outputs too.")] = False,
    unseal: Annotated[
        bool,
        typer.Option("--unseal", help="Decrypt what was encrypted, where its key is here."),
    ] = False,
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
    from reenact.record.bundle import is_bundle
    from reenact.record.document import read_bundle_document
    from reenact.store.encryption import KeyFile

    if is_bundle(run):
        if watch:
            raise UsageError("an exported folder does not change: say it without --watch")
        document, keys = read_bundle_document(Path(run), values=values), KeyFile(None)
    else:
        recorded = existing_store(store)
        keys = recorded.encryption_file or KeyFile(None)
        run_id = recorded.find_run(run).run_id
        if watch:
            from reenact.cli.screens.watching import watch_run

            raise typer.Exit(watch_run(recorded, run_id, values=values, as_json=as_json))
        document = store_document(recorded, run_id, store, values=values)
    if unseal:
        from reenact.cli.screens.decrypting import decrypt_all

        document = decrypt_all(document, keys)
    if as_json:
        print_json(document)
    else:
        print_lines(timeline_lines(document))


def store_document(recorded: Store, run_id: str, url: str | None, *, values: bool) -> RunDocument:
    """A run of a store. Of one that has not ended it is said who works on it, or what to do."""
    from reenact.record.document import read_document
    from reenact.store.doctor.runs import Unsettled, look_at_run
    from reenact.values.clock import SystemClock

    interrupted = run_id in recorded.unattended()
    document = read_document(recorded, run_id, values=values)
    asked = [step["step_id"] for step in document["steps"] if step["state"] == "PENDING" and step["vote"] is None]
    sent = [step["step_id"] for step in document["steps"] if step["state"] == "EXECUTING"]
    finding = look_at_run(recorded, run_id, SystemClock(), store=url, unsettled=Unsettled(asked, sent))
    document["interrupted"] = interrupted
    document["next"] = None if finding is None else ": ".join(part for part in (finding.says, finding.do) if part)
    return document
