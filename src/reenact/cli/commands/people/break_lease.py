"""`reenact break-lease`: take a run from a holder that does not let go of it."""

from __future__ import annotations

from reenact.cli.options import JsonOption, ReasonOption, RunArgument, StoreOption, WhoOption
from reenact.cli.screens.printing import say


def break_lease(
    run: RunArgument,
    reason: ReasonOption = "",
    who: WhoOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Free a run whose holder is stuck, or cannot be reached. Recorded and signed with who and why.

    What the holder writes next is refused. Make sure that it has ended: a call that it has under way is in doubt for
    whoever goes on, and may be sent again. A holder that died is found without this, by `reenact recover`.

    Exit codes: 0 the run is free, 2 it has ended or no reason was given, 3 the store cannot be used.
    """
    from msgspec import structs

    from reenact.cli.advice import Advice
    from reenact.cli.options import existing_store, open_runtime, require_reason
    from reenact.cli.screens.printing import print_json
    from reenact.runtime.people.decisions import break_lease as break_lease_of
    from reenact.store.base import LEASE_MS
    from reenact.store.owner import is_out_of_sight, is_stopped, owner_is_gone, process_of
    from reenact.values.clock import say_ts

    require_reason(reason)
    existing_store(store).close()
    runtime = open_runtime(store, None)
    row = runtime.store.find_run(run)
    broken = break_lease_of(runtime, row.run_id, reason=reason, who=who)
    if as_json:
        told = None if broken is None else structs.asdict(broken)
        print_json({"run_id": row.run_id, "broken": told})
        return
    go_on = Advice(store).after_a_word(runtime, row)
    if broken is None:
        say(f"nobody holds run {row.run_id}; {go_on}")
        return
    sign = say_ts(broken.expires_ms - LEASE_MS)
    say(f"run {row.run_id} was taken from {process_of(broken.owner)}, whose last sign of life was at {sign}; {go_on}")
    if owner_is_gone(broken.owner):
        return
    if is_out_of_sight(broken.owner):
        say("whether that process still runs cannot be seen from here: make sure that it does not", err=True)
    else:
        state = "stopped, and goes on when it is continued" if is_stopped(broken.owner) else "still there"
        say(f"that process is {state}: what it writes to the run is refused, what it sends is not", err=True)
