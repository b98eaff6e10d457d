"""Ctrl-C and SIGTERM: whatever a command runs stops cleanly, and says how to go on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

import typer

from reenact.cli.exits import DONE, INTERRUPTED, exit_code
from reenact.cli.screens.printing import say
from reenact.cli.stdout import skill_output_to_stderr
from reenact.errors import Draining

if TYPE_CHECKING:
    from reenact.cli.advice import Advice
    from reenact.cli.screens.progress import PlainProgress
    from reenact.record.result import RunResult
    from reenact.replay.result import ReplayResult
    from reenact.replay.runtime import Runtime
    from reenact.store.base import Store

T = TypeVar("T")


def conduct(
    work: Callable[[], T],
    progress: PlainProgress,
    advice: Advice,
    *,
    known_run: str | None = None,
    stopping: AbstractContextManager[None] | None = None,
) -> T:
    """The result of `work`. Interrupted, nothing that is recorded is lost: it exits 130 with the command to go on.

    `stopping` hears what else may stop it, as `drained` does.
    """
    try:
        with skill_output_to_stderr(), progress, stopping or nullcontext():
            return work()
    except KeyboardInterrupt:
        say(f"interrupted; {how_to_go_on(progress, advice, known_run)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Draining:
        say(f"stopped by SIGTERM; {how_to_go_on(progress, advice, known_run)}", err=True)
        raise typer.Exit(DONE) from None


def how_to_go_on(progress: PlainProgress, advice: Advice, known_run: str | None) -> str:
    run_id = progress.run_id or known_run
    return "nothing was started" if run_id is None else f"go on with: {advice.go_on(run_id)}"


@contextmanager
def drained(runtime: Runtime, grace_s: float) -> Iterator[None]:
    """The first SIGTERM drains the runtime; another one, or Ctrl-C after it, ends the process as `kill` would."""

    def ends(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # the first process of a container does not hear its own signal

    def drains(_number: int, _frame: object) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, ends)
        runtime.drain(grace_s=grace_s, wait=False)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, drains)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def drained_if_live(where: Runtime | Store, grace_s: float) -> AbstractContextManager[None]:
    """`drained`, of a runtime; from a store alone nothing is called."""
    from reenact.replay.runtime import Runtime

    return drained(where, grace_s) if isinstance(where, Runtime) else nullcontext()


def exit_code_of(result: RunResult, runtime: Runtime) -> int:
    """A run that was given back between two steps is done here; one whose call did not end in time is open."""
    return DONE if is_given_back(result, runtime) else exit_code(result.status)


def replay_exit_code(result: ReplayResult, where: Runtime | Store) -> int:
    """The same of a replay that calls live; one that does not has only a store."""
    from reenact.replay.runtime import Runtime

    if result.status == "running" and isinstance(where, Runtime):
        return exit_code_of(result, where)
    return result.exit_code


def is_given_back(result: RunResult, runtime: Runtime) -> bool:
    drain = runtime.drain_state
    return drain.asked and result.status == "running" and result.run_id not in drain.late
