"""`reenact show`: a run as a timeline."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.options import JsonOption, RunArgument, StoreOption


def show(
    run: RunArgument,
    values: Annotated[bool, typer.Option("--values", help="Parameters and outputs too.")] = False,
    unseal: Annotated[bool, typer.Option("--unseal", help="With REENACT_SEAL_KEY, open what was sealed.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until it ends, or Ctrl-C.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run: each step with its decision, attempts, codes, back-offs, costs and digests, and the seal.

    Values stay out of it unless they are asked for. Watching changes nothing, and stopping it does not stop the run.

    Exit codes: 0 shown, 1 the recording is damaged (`reenact verify` says where), 2 no such run, 3 the store cannot
    be used, 130 interrupted while watching.
    """
    from reenact.cli.options import existing_store
    from reenact.cli.printing import print_json, print_lines
    from reenact.cli.timeline import read_timeline
    from reenact.cli.timeline_lines import timeline_lines

    recorded = existing_store(store)
    row = recorded.find_run(run)
    if watch:
        from reenact.cli.watching import watch_run

        raise typer.Exit(watch_run(recorded, row.run_id, values=values, as_json=as_json))
    timeline = read_timeline(recorded, row, values=values)
    if unseal:
        from reenact.cli.unsealing import open_seals

        timeline = open_seals(timeline)
    if as_json:
        print_json(timeline)
    else:
        print_lines(timeline_lines(timeline))
