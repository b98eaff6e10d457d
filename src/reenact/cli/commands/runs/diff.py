"""`reenact diff`: two runs side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.commands.runs.shadow import ReportOption, write_report
from reenact.cli.options import JsonOption, StoreOption
from reenact.cli.screens.printing import say


def diff(
    left: Annotated[str, typer.Argument(metavar="A", help="A run, or an exported folder.")],
    right: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    report: ReportOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show two runs side by side, aspect by aspect and value by value.

    Exit codes: 0 they behave the same; 1 they differ; 3 the store or folder cannot be used; 4 one has not ended.
    """
    import msgspec

    from reenact.cli.options import existing_store
    from reenact.cli.screens.printing import one_line, print_json
    from reenact.record.bundle import is_bundle
    from reenact.replay.api import load
    from reenact.replay.compare.counterfactual import both
    from reenact.replay.compare.sides import side_by_side, text_lines
    from reenact.store.open import in_memory

    where = in_memory() if is_bundle(left) and is_bundle(right) else existing_store(store)
    ours, theirs = load(where, left), load(where, right)
    sides = side_by_side(ours, theirs)
    if report is not None:
        write_report(both(ours, theirs), report)
    if as_json:
        print_json({**msgspec.to_builtins(sides), "same": sides.same})
    else:
        for line in text_lines(sides):
            say(one_line(line))
    raise typer.Exit(0 if sides.same else 1)
