"""`reenact show`: a run as a timeline."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.options import JsonOption, RunArgument, StoreOption


def show(
    run: RunArgument,
    values: Annotated[bool, typer.Option("--values", help="Parameters and outputs too.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run: each step with its decision, attempts, codes, back-offs, costs and digests, and the seal.

    Values stay out of it unless they are asked for.

    Exit codes: 0 shown, 1 the recording is damaged (`reenact verify` says where), 2 no such run, 3 the store cannot
    be used.
    """
    from reenact.cli.options import existing_store
    from reenact.cli.printing import print_json, print_lines
    from reenact.cli.timeline import read_timeline
    from reenact.cli.timeline_lines import timeline_lines

    recorded = existing_store(store)
    timeline = read_timeline(recorded, recorded.find_run(run), values=values)
    if as_json:
        print_json(timeline)
    else:
        print_lines(timeline_lines(timeline))
