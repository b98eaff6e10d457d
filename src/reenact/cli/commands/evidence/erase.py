"""`reenact erase`: take values out of a store; the chain stays whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from reenact.cli.options import JsonOption, ReasonOption, RunArgument, StoreOption, WhoOption
from reenact.cli.screens.printing import say

KEYS_STAY = {
    "step": "its idempotency key stays: whoever holds the database can test guesses of its arguments until the run is "
    "erased",
    "caller": "the idempotency key that a caller gave stays as a keyed hash: whoever holds the database can test "
    "guesses of that key, also when the run is erased",
}


def erase(
    run: RunArgument,
    step: Annotated[str | None, typer.Argument(help="The step whose values go; without one, the whole run's.")] = None,
    reason: ReasonOption = "",
    who: WhoOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Erase the arguments, outputs and responses of a step, or of a run with its plan. This cannot be undone.

    What the plan itself says goes with the whole run only; a session's says nothing of its calls' arguments. Your name
    and reason stay, and so do step ids and parameters that a skill declares public. Idempotency keys stay, as keyed
    hashes: what guesses of whoever holds the database they confirm is said.

    Exit codes: 0 erased, 2 not possible yet or not confirmed, 3 the store cannot be used.
    """
    import asyncio

    from reenact.cli.options import existing_store, require_reason
    from reenact.cli.screens.printing import plural, print_json
    from reenact.errors import UsageError
    from reenact.record.erase import copies_of, keys_that_stay, plan_repeats
    from reenact.record.erase import erase as erase_values
    from reenact.runtime.people.votes import whoami
    from reenact.store.owner import until_known
    from reenact.values.clock import SystemClock

    require_reason(reason)
    opened = existing_store(store, to_write=True)
    run_id = opened.find_run(run).run_id
    about = f"step {step} of run {run_id}" if step else f"run {run_id} with its plan"
    if not yes and not typer.confirm(f"Erase every value of {about}? This cannot be undone."):
        raise UsageError("nothing was erased")
    archives = opened.archives(run_id)
    asyncio.run(until_known(opened, SystemClock(), run_id))
    count = erase_values(opened, run_id, step, who=whoami(who), reason=reason)
    lying = [each.place for each in archives if each.values]
    copies, keys = copies_of(opened, run_id), keys_that_stay(opened, run_id, step)
    if as_json:
        print_json(
            {
                "run_id": run_id,
                "step_id": step,
                "erased": count,
                "keys_stay": keys,
                "copies_in": copies,
                "archives": lying,
                **({} if opened.leftovers is None else {"leftovers": opened.leftovers}),
            }
        )
        return
    say(f"{plural(count, 'value')} of {about} erased; `reenact verify {run_id}` says that the chain is whole")
    if step is not None and plan_repeats(opened, run_id):
        say(f"the plan still says what it says: `reenact erase {run_id}` without a step erases it too")
    for line in what_stays(keys, lying, copies, opened.leftovers):
        say(line)


def what_stays(keys: list[str], archives: list[str], copies: list[str], leftovers: str | None) -> Iterator[str]:
    """Whatever may still tell what the values were."""
    yield from (KEYS_STAY[source] for source in keys)
    for place in archives:
        yield f"a copy lies in the archive {place}: whoever keeps it has to destroy it; it is not restored any more"
    for copy in copies:
        yield f"run {copy} replayed this one and holds values of its own: erase it too"
    if leftovers is not None:
        yield leftovers
