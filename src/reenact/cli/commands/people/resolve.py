"""`reenact resolve`: a person's word about a call that is in doubt."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.options import (
    HostPolicyOption,
    JsonOption,
    ReasonOption,
    RunArgument,
    SkillsOption,
    StoreOption,
    WhoOption,
)
from reenact.cli.screens.printing import say


def resolve(
    run: RunArgument,
    step: Annotated[str, typer.Argument(help="The step in doubt.")],
    succeeded: Annotated[bool, typer.Option("--succeeded", help="It happened.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="It did not happen, and is given up.")] = False,
    redispatch: Annotated[bool, typer.Option("--redispatch", help="Send it again, with the same key.")] = False,
    output: Annotated[str | None, typer.Option("--output", help="With --succeeded: what it returned, as JSON.")] = None,
    reason: ReasonOption = "",
    who: WhoOption = None,
    store: StoreOption = None,
    skills: SkillsOption = None,
    host_policy: HostPolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide a call in doubt after looking what really happened; recorded with who and why."""
    import asyncio

    from reenact.cli.advice import Advice
    from reenact.cli.options import existing_store, open_runtime, require_reason
    from reenact.cli.screens.printing import print_json
    from reenact.errors import UsageError
    from reenact.runtime.people.decisions import resolve as resolve_call
    from reenact.values.canonical import parse_json

    chosen = [
        name for name, wanted in (("succeeded", succeeded), ("failed", failed), ("redispatch", redispatch)) if wanted
    ]
    if len(chosen) != 1:
        raise UsageError("say one of --succeeded, --failed or --redispatch")
    require_reason(reason)
    if output is not None and not succeeded:
        raise UsageError(f"--output is what a call returned that succeeded; it does not go with --{chosen[0]}")
    value = None if output is None else parse_json(output, what="--output")
    existing_store(store).close()
    runtime = open_runtime(store, skills)
    row = runtime.store.find_run(run)
    run_id = row.run_id
    recorded = asyncio.run(
        resolve_call(runtime, run_id, step, chosen[0], reason=reason, who=who, output=value)  # type: ignore[arg-type]  # one of the three words
    )
    if as_json:
        print_json({"run_id": run_id, "step_id": step, "resolution": chosen[0], "recorded": recorded})
    elif not recorded:
        say(f"step {step} of run {run_id}: left for whoever has the session open, who hears it when the block ends")
    else:
        go_on = Advice(store, skills or (), host_policy).after_a_word(runtime, row)
        output_is = ", its output is null" if succeeded and output is None else ""
        say(f"step {step} of run {run_id} is resolved ({chosen[0]}){output_is}; {go_on}")
