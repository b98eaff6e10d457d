"""`reenact.Runtime`: the one door to running, going on, sessions and replays. Async inside, a thin synchronous front.

What a replay needs is imported when one is asked for: a program that only runs plans pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from reenact.contracts.records import RunMode
from reenact.record.result import RunResult
from reenact.replay.modes.interrupted import ForkMode, FullReplayMode
from reenact.runtime import conduct, recovery
from reenact.runtime.drain import DRAIN_GRACE_S
from reenact.runtime.effects.coroutines import run_sync
from reenact.runtime.engine import Engine
from reenact.runtime.mode import Mode
from reenact.runtime.plans.accepted import Accepted
from reenact.runtime.plans.prepare import PlanLike, prepare
from reenact.runtime.run import Scorer
from reenact.runtime.session.opening import SessionOpening
from reenact.store.owner import until_known

if TYPE_CHECKING:
    from reenact.replay.modes.changes import Changes
    from reenact.replay.result import GoOn, ReplayResult


class Runtime(Engine):
    """Runs plans and sessions on a store, and runs what it recorded again.

    `skills` are added to the built-in ones. `secrets` are looked up before the environment. `supervisor` is asked
    about every call, besides what a plan names; each has `supervisor_timeout_s` to answer. `listeners` hear every
    notice after it is durable. `unrecorded_reads` lets reads go on while the journal cannot be written, and they
    say so; everything else fails closed. `tool_registries`, files or documents, become part of every plan and
    session: tools of servers are called as what they stand there for, or not at all. `policy` is the ceiling of all
    plans and sessions, a `Policy`, a mapping or a file; without it, the one that is found (`reenact policy`). `scorer`
    gives the utility of an outcome, from -1 to +1, where the skill did not say it (`ctx.utility`). `replay_log` is
    where runs write their replay log as they go: a file `….jsonl` for one run, or a folder. `shadow` is a candidate
    that decides beside each live run and executes nothing: a `reenact.replay.shadow.live.Shadow`.
    """

    modes: ClassVar[Mapping[RunMode, Mode]] = {
        "live": conduct.LiveMode(),
        "full_replay": FullReplayMode(),
        "fork": ForkMode(),
    }

    # -- runs ------------------------------------------------------------------------------------------------------

    def run(self, plan: PlanLike, *, run_id: str | None = None) -> RunResult:
        """Run a plan to its end, or to where it has to stop."""
        return run_sync(self.run_async(plan, run_id=run_id))

    async def run_async(self, plan: PlanLike, *, run_id: str | None = None) -> RunResult:
        return await conduct.start(self, prepare(self, plan), run_id=run_id)

    def resume(self, run_id: str, *, accept_changed: Iterable[str] = (), who: str | None = None) -> RunResult:
        """Go on with a run that was interrupted; a run that has ended is returned as it is.

        `accept_changed` names skills, by id or `id@version`, whose changed declaration it may go on with; that is
        recorded, with who said so.
        """
        return run_sync(self.resume_async(run_id, accept_changed=accept_changed, who=who))

    async def resume_async(
        self, run_id: str, *, accept_changed: Iterable[str] = (), who: str | None = None
    ) -> RunResult:
        async with self.drain_state.limit():
            await until_known(self.store, self.clock, self.store.find_run(run_id).run_id)
        if not accept_changed:
            return await conduct.resume(self, run_id)
        from reenact.runtime.people import whoami

        return await conduct.resume(self, run_id, Accepted(accept_changed, whoami(who)))

    def recover(
        self,
        *,
        jobs: int = recovery.JOBS,
        timeout_s: float = recovery.TIMEOUT_S,
        on_wait: Callable[[float], None] | None = None,
    ) -> list[RunResult]:
        """Go on with every run that nobody is working on, the oldest first; one that cannot go on has an `error`.

        So many `jobs` at once, each in a thread of its own; one that has not ended after `timeout_s` goes on beside the
        next. `on_wait` is told how many seconds it takes until leases of other hosts or containers have lapsed.
        """
        return run_sync(recovery.recover(self, recovery.bounds(jobs, timeout_s, apart=True), on_wait))

    async def recover_async(
        self,
        *,
        jobs: int = recovery.JOBS,
        timeout_s: float = recovery.TIMEOUT_S,
        on_wait: Callable[[float], None] | None = None,
    ) -> list[RunResult]:
        """The same, all in the loop of the caller."""
        return await recovery.recover(self, recovery.bounds(jobs, timeout_s), on_wait)

    def drain(self, *, grace_s: float = DRAIN_GRACE_S, wait: bool = True) -> list[str]:
        """The process is to end: nothing new begins from here on, and every run is given back between two steps.

        Calls in flight have `grace_s` to end. Runs and sessions that were not given back by then are listed: end the
        process, and they are treated as after a crash. Without `wait` it returns at once, as in a signal handler.
        """
        self.drain_state.ask(grace_s)
        return self.drain_state.wait() if wait else []

    async def drain_async(self, *, grace_s: float = DRAIN_GRACE_S) -> list[str]:
        self.drain_state.ask(grace_s)
        return await self.drain_state.wait_async()

    def pinned(self, plan: PlanLike) -> dict[str, object]:
        """The plan's document with everything pinned; a path is read, a mapping is taken as it is."""
        return prepare(self, plan).document

    # -- sessions --------------------------------------------------------------------------------------------------

    def session(
        self,
        *,
        id: str | None = None,  # noqa: A002  # as users say it
        goal: str = "",
        agent_id: str = "agent",
        budget_cents: int | None = None,
        context: Mapping[str, object] | None = None,
        resume: str | None = None,
        interrupted: str = "synthesize",
        duplicate_output: bool = False,
        unrecorded_reads: bool | None = None,
        issue_number: int | None = None,
        policy_version: str | None = None,
        scorer: Scorer | None = None,
        on_divergence: str = "raise",
        accept: Sequence[str] = (),
        accept_changed: Sequence[str] = (),
        replay: str | Path | None = None,
    ) -> SessionOpening:
        """A session for an agent loop: `async with runtime.session(id="order-42") as s`, or plain `with`.

        Run the program again, and a session of that `id` (the agent's own) goes on where it died: what it recorded is
        answered from the record, a call that was open is settled, what is new is made. One that has ended only answers.
        A program that asks for something else gets Diverged before anything is sent; `on_divergence="fork"` goes on as
        a new run instead, and `accept` names the recorded writes that it may leave behind. `accept_changed`
        is as in `resume`. `replay` runs the program
        over a recording, a run of this store or an exported folder: all is answered, and nothing is made.

        `context` takes what a plan's context takes. `resume` goes on with a session of that id; calls that were
        interrupted are ended by an appended result (`interrupted="settle"` drives them to their end instead).
        `duplicate_output` hands a denied duplicate the earlier output. `unrecorded_reads` and `scorer` override the
        runtime's. `issue_number` and `policy_version` are for the replay log.
        """
        return SessionOpening(
            self,
            id=id,
            goal=goal,
            agent_id=agent_id,
            budget_cents=budget_cents,
            context=context,
            resume=resume,
            interrupted=interrupted,
            duplicate_output=duplicate_output,
            unrecorded_reads=unrecorded_reads,
            issue_number=issue_number,
            policy_version=policy_version,
            scorer=scorer,
            on_divergence=on_divergence,
            accept=accept,
            accept_changed=accept_changed,
            replay=replay,
        )

    # -- replays ---------------------------------------------------------------------------------------------------

    def replay(
        self,
        run: str | Path,
        *,
        mode: str = "mock_replay",
        execute: Iterable[str] = (),
        skip: Iterable[str] = (),
        check: Iterable[str] = (),
        retry_failed: bool = False,
        allow_breakers: bool = False,
        save: bool = False,
        trust_plan: bool = False,
    ) -> ReplayResult:
        """Replay a run of this store, or an exported folder: see `reenact.replay.replay_async`."""
        return run_sync(
            self.replay_async(
                run,
                mode=mode,
                execute=execute,
                skip=skip,
                check=check,
                retry_failed=retry_failed,
                allow_breakers=allow_breakers,
                save=save,
                trust_plan=trust_plan,
            )
        )

    async def replay_async(
        self,
        run: str | Path,
        *,
        mode: str = "mock_replay",
        execute: Iterable[str] = (),
        skip: Iterable[str] = (),
        check: Iterable[str] = (),
        retry_failed: bool = False,
        allow_breakers: bool = False,
        save: bool = False,
        trust_plan: bool = False,
    ) -> ReplayResult:
        from reenact.replay.api import replay_async

        return await replay_async(
            self,
            run,
            mode=mode,
            execute=execute,
            skip=skip,
            check=check,
            retry_failed=retry_failed,
            allow_breakers=allow_breakers,
            save=save,
            trust_plan=trust_plan,
        )

    def fork(
        self,
        run: str | Path,
        at: str,
        *,
        changes: Changes | None = None,
        live: bool = False,
        allow_breakers: bool = False,
        trust_plan: bool = False,
    ) -> ReplayResult:
        """A new run with the recorded steps before `at`, going on from there: see `reenact.replay.modes.fork.fork`."""
        return run_sync(
            self.fork_async(run, at, changes=changes, live=live, allow_breakers=allow_breakers, trust_plan=trust_plan)
        )

    async def fork_async(
        self,
        run: str | Path,
        at: str,
        *,
        changes: Changes | None = None,
        live: bool = False,
        allow_breakers: bool = False,
        trust_plan: bool = False,
    ) -> ReplayResult:
        from reenact.replay.api import load
        from reenact.replay.modes.fork import fork

        go_on: GoOn = "live" if live else "mock"
        return await fork(
            self,
            load(self, run),
            at,
            changes=changes,
            go_on=go_on,
            allow_breakers=allow_breakers,
            trust_plan=trust_plan,
        )

    def dry_run(self, plan: PlanLike) -> ReplayResult:
        """What a plan that never ran would cost and touch, and where its budget would stop it. Nothing is touched."""
        return run_sync(self.dry_run_async(plan))

    async def dry_run_async(self, plan: PlanLike) -> ReplayResult:
        from reenact.replay.modes.dry import dry_run_plan

        return await dry_run_plan(prepare(self, plan), self.registry.freeze(), clock=self.clock)
