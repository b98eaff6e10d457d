"""`reenact cancel`: end a run that shall not go on."""

from __future__ import annotations

from reenact.cli.options import JsonOption, ReasonOption, RunArgument, StoreOption, WhoOption
from reenact.cli.screens.printing import say


def cancel(
    run: RunArgument,
    reason: ReasonOption = "",
    who: WhoOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a run: it is sealed as it stands and nothing more is sent. One in progress stops before its next call."""
    import asyncio

    from reenact.cli.options import existing_store, open_runtime, require_reason
    from reenact.cli.screens.printing import print_json
    from reenact.runtime.people.decisions import cancel as cancel_run

    require_reason(reason)
    existing_store(store).close()
    runtime = open_runtime(store, None)
    run_id = runtime.store.find_run(run).run_id
    ended = asyncio.run(cancel_run(runtime, run_id, reason=reason, who=who))
    if as_json:
        print_json({"run_id": run_id, "status": "cancelled" if ended else "running", "asked": not ended})
    elif ended:
        say(f"run {run_id} is cancelled and sealed")
    else:
        say(f"run {run_id} is being worked on; it was asked to stop before its next call")
