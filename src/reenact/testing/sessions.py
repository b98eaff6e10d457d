"""Agents in a test: an agent's real code runs over its recorded session, answered from there, the network shut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from reenact.errors import Diverged
from reenact.replay.runtime import Runtime
from reenact.runtime.session.opening import SessionOpening
from reenact.runtime.session.session import Session
from reenact.runtime.session.sync import SyncSession
from reenact.store.encryption import given_key
from reenact.store.open import in_memory
from reenact.testing.network import shut_network
from reenact.testing.traceback import hide_machinery

MakeRuntime = Callable[[object], Runtime]
"""A runtime of the test's skills and secrets, on a store."""


class RecordedSession:
    """What `recorded_session(…)` gives: enter it with `with` or `async with`, and hand the session to the agent.

    `around` prepares the session, and puts things back or keeps the recording when the block has ended.
    """

    def __init__(self, around: AbstractContextManager[SessionOpening], advice: str) -> None:
        self._around = around
        self._advice = advice
        self._leaving = ExitStack()
        self._leaving_async = AsyncExitStack()

    def __enter__(self) -> SyncSession:
        __tracebackhide__ = True
        try:
            with ExitStack() as stack:
                session = stack.enter_context(stack.enter_context(self._around))
                self._leaving = stack.pop_all()
        except Exception as error:
            self._explain(error)
            raise
        return session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        try:
            self._leaving.__exit__(kind, error, trace)
        except Exception as found:
            self._explain(found)
            raise
        self._explain(error)

    async def __aenter__(self) -> Session:
        __tracebackhide__ = True
        try:
            async with AsyncExitStack() as stack:
                session = await stack.enter_async_context(stack.enter_context(self._around))
                self._leaving_async = stack.pop_all()
        except Exception as error:
            self._explain(error)
            raise
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        try:
            await self._leaving_async.__aexit__(kind, error, trace)
        except Exception as found:
            self._explain(found)
            raise
        self._explain(error)

    def _explain(self, error: BaseException | None) -> None:
        """Say what to do about it, and show only the lines that a reader can do something about."""
        if isinstance(error, Diverged):
            error.add_note(self._advice)
        hide_machinery(error)


@contextmanager
def answered(
    target: Path, make_runtime: MakeRuntime, wanted: Mapping[str, object], execute: Collection[str]
) -> Iterator[SessionOpening]:
    """A session that answers from the recording. `execute` names the skills whose code is run all the same."""
    with shut_network():
        yield SessionOpening(make_runtime(in_memory()), replay=target, execute=execute, **wanted)  # type: ignore[arg-type]


@contextmanager
def made(
    make_runtime: MakeRuntime, wanted: Mapping[str, object], name: str, keep: Callable[[str, str], None]
) -> Iterator[SessionOpening]:
    """A real session, which is kept when its block ends well: `keep` gets the store and the run."""
    with TemporaryDirectory(prefix="reenact-recording-") as scratch:
        store = str(Path(scratch) / "record.db")
        runtime = make_runtime(store)
        leave_no_secret(runtime)
        try:
            yield runtime.session(id=name, **wanted)  # type: ignore[arg-type]
            run_id = runtime.store.find_run("last").run_id
        finally:
            runtime.close()
        keep(store, run_id)


def leave_no_secret(runtime: Runtime) -> None:
    """A recording outlives the store that it is made in: without a key of the team's own, nothing is encrypted in it.

    What is like a secret is taken out for good then, and whoever replays needs no key.
    """
    if given_key() is None:
        runtime.store.encryption_file = None
