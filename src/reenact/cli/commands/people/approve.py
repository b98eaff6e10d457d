"""`reenact approve`: say yes to a call that waits for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.commands.people.people_options import Reason, Who
from reenact.cli.options import JsonOption, RunArgument, StoreOption


def approve(
    run: RunArgument,
    step: Annotated[str | None, typer.Argument(help="Which step, when the run waits about several.")] = None,
    reason: Reason = "",
    who: Who = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Approve a call that waits. `reenact resume` then goes on with the run."""
    from reenact.cli.commands.people.voting import cast_vote

    cast_vote(run, step, approved=True, reason=reason, who=who, store=store, as_json=as_json)
