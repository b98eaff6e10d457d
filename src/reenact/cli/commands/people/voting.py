"""What `approve` and `deny` do."""

from __future__ import annotations

import asyncio

import typer

from reenact.cli.advice import Advice
from reenact.cli.options import existing_store, open_runtime
from reenact.cli.screens.printing import print_json
from reenact.errors import UsageError
from reenact.runtime.people.decisions import vote


def cast_vote(
    run: str, step: str | None, *, approved: bool, reason: str, who: str | None, store: str | None, as_json: bool
) -> None:
    if not reason:
        raise UsageError("say why, with --reason: it is recorded beside your name")
    existing_store(store).close()
    runtime = open_runtime(store, None)
    row = runtime.store.find_run(run)
    run_id = row.run_id
    step_id = asyncio.run(vote(runtime, run_id, step, approve=approved, reason=reason, who=who))
    decision = "approved" if approved else "denied"
    if as_json:
        print_json({"run_id": run_id, "step_id": step_id, "decision": decision})
    else:
        go_on = Advice(store).after_a_word(run_id, row.kind)
        typer.echo(f"step {step_id} of run {run_id} is {decision}; {go_on}")
