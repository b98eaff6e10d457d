"""`reenact replay`: run a recording again and compare, aspect by aspect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import (
    GraceOption,
    HostPolicyOption,
    JsonOption,
    SkillsOption,
    StoreOption,
    TargetArgument,
    TrustOption,
)
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.replay.result import ReplayResult
    from reenact.replay.runtime import Runtime
    from reenact.runtime.host_policy import HostPolicy
    from reenact.runtime.listeners import Listener
    from reenact.store.base import Store

BreakersOption = Annotated[
    bool, typer.Option("--allow-breakers", help="Go on although a skill, a policy or the taxonomy changed.")
]
ModeOption = Annotated[
    str | None, typer.Option("--mode", metavar="MODE", help="mock_replay (the default), full_replay or dry_run.")
]
RetryOption = Annotated[
    bool,
    typer.Option("--retry-failed", help="full_replay: make what failed or was not reached; skip what succeeded."),
]
Names = list[str] | None
SkipOption = Annotated[
    Names, typer.Option("--skip", metavar="STEP|read|write", help="full_replay: take the recorded effect.")
]
ExecuteOption = Annotated[
    Names, typer.Option("--execute", metavar="STEP|read", help="full_replay: call it again; may be given again.")
]
CheckOption = Annotated[
    Names, typer.Option("--check", metavar="STEP|read|write", help="full_replay: ask the skill's read-back.")
]


def replay(
    run: TargetArgument,
    mode: ModeOption = None,
    execute: ExecuteOption = None,
    skip: SkipOption = None,
    check: CheckOption = None,
    *,
    retry_failed: RetryOption = False,
    allow_breakers: BreakersOption = False,
    trust_plan: TrustOption = False,
    host_policy: HostPolicyOption = None,
    save: Annotated[bool, typer.Option("--save", help="mock_replay: keep the report in the store.")] = False,
    store: StoreOption = None,
    skills: SkillsOption = None,
    grace: GraceOption = 20.0,
    as_json: JsonOption = False,
) -> None:
    """Run a recorded plan again.

    mock_replay serves every recorded attempt: no network, no sleep, no model, no skill code needed, and nothing is
    written. full_replay calls live, as a new run linked to the original; writes are skipped unless their step is named
    with --execute. --retry-failed is a full_replay that makes what failed, and whatever was never reached. dry_run
    touches nothing and estimates.

    Exit codes: 0 it behaved the same, or what had failed succeeded when it was retried; 1 the runtime differed, nothing
    was compared, what was retried failed again, or something stands in its way; 3 the store or folder cannot be used;
    4 the recorded run has not ended, or the new one waits; 5 the world differed, and the runtime did not.
    """
    from reenact.cli.advice import Advice
    from reenact.cli.interrupting import conduct, drained_if_live, replay_exit_code
    from reenact.cli.options import host_policy as policy_of
    from reenact.cli.options import load_registry
    from reenact.cli.screens.progress import choose_progress
    from reenact.replay.api import replay as replay_run

    mode, progress = mode or ("full_replay" if retry_failed else "mock_replay"), choose_progress(as_json=as_json)
    policy = policy_of(host_policy, trust_plan=trust_plan)
    where = place(store, run, mode, save=save, skills=skills, listeners=(progress,), policy=policy)
    result = conduct(
        lambda: replay_run(
            where,
            run,
            mode=mode,
            registry=load_registry(skills),
            execute=execute or (),
            skip=skip or (),
            check=check or (),
            retry_failed=retry_failed,
            allow_breakers=allow_breakers,
            save=save,
            trust_plan=trust_plan,
        ),
        progress,
        Advice(store, skills or (), host_policy, trust_plan),
        stopping=drained_if_live(where, grace),
    )
    show(result, as_json=as_json)
    raise typer.Exit(replay_exit_code(result, where))


def place(
    store: str | None,
    run: str,
    mode: str,
    *,
    save: bool,
    skills: list[str] | None,
    listeners: tuple[Listener, ...],
    policy: HostPolicy,
) -> Runtime | Store:
    """Where the run lies, and where a new one is written; a folder that is only looked at needs no store."""
    from reenact.cli.options import existing_store, open_runtime
    from reenact.errors import UsageError
    from reenact.record.bundle import is_bundle
    from reenact.store.open import in_memory, open_store

    if run.endswith(".jsonl"):
        raise UsageError(f"{run} is a replay log, which is looked at and not run: `reenact play {run}`")
    if mode == "full_replay":
        if not is_bundle(run):
            existing_store(store).close()
        return open_runtime(store, skills, listeners, policy=policy)
    if is_bundle(run):
        return open_store(store) if save else in_memory()
    return existing_store(store)


def show(result: ReplayResult, *, as_json: bool) -> None:
    from reenact.cli.screens.printing import one_line, print_json
    from reenact.replay.compare.render import comparison_document, text_lines
    from reenact.replay.modes.notes import trace_record

    if as_json:
        document = comparison_document(result)
        document |= {name: value for name, value in trace_record(result.run_id, result).items() if name != "schema"}
        if result.mode in ("full_replay", "fork"):
            document["run_id"] = result.run_id
        print_json(document)
        return
    for line in text_lines(result):
        say(one_line(line))
    if result.mode in ("full_replay", "fork"):
        say(f"  the new run is {result.run_id} ({result.status})")
