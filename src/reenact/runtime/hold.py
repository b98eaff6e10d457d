"""How a run is held while somebody works on it: its lease kept by heartbeats, and given back."""

from __future__ import annotations

from types import TracebackType

from reenact.contracts.records import RunStatus
from reenact.errors import ConcurrentExecution, StoreError, StoreGone
from reenact.runtime.call.doubt import keep_late
from reenact.runtime.listeners import Notice
from reenact.runtime.run import Run
from reenact.runtime.writing.committer import Committer
from reenact.store.base import Lease
from reenact.store.heartbeat import Heartbeat

MOST_NAMES = 50
NOT_THERE = "STORE_CONNECTION_LOST"
"""The code of a server that was tried for long enough."""


class Hold:
    """One run in this executor's hands: `async with engine.held(run) as hold`.

    The block says how it leaves the run: `status`, and `reason` where it stops without an end.
    """

    def __init__(self, run: Run, heartbeat: Heartbeat, committer: Committer, held: set[str]) -> None:
        self.run = run
        self._held = held
        self._heartbeat = heartbeat
        self._committer = committer
        self.status: RunStatus | None = None
        self.reason: str | None = None

    async def __aenter__(self) -> Hold:
        run = self.run
        try:
            self._heartbeat.keep(run.run_id, lambda: run.journal.lease)
        except StoreError:
            if run.journal.lease is not None:
                await self._give_back(run, run.journal.lease)
            raise
        self._held.add(run.run_id)
        self._committer.driven.add(run.run_id)
        return self

    def leave(self, status: RunStatus | None, reason: str | None = None) -> None:
        self.status, self.reason = status, reason

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run, is_there = self.run, True
        try:
            if isinstance(error, ConcurrentExecution):
                keep_late(run)  # for whoever holds the lease now
            elif isinstance(error, StoreError) and run.unrecorded.results:
                is_there = leave(run, error)
        finally:
            self._committer.driven.discard(run.run_id)
            self._heartbeat.drop(run.run_id)
            try:
                if run.journal.lease is not None and is_there:
                    await self._give_back(run, run.journal.lease)
            finally:
                self._held.discard(run.run_id)
        if self.reason is not None and self.status in ("waiting", "held"):
            run.listeners.tell_now(
                Notice(kind="run_parked", run_id=run.run_id, status=self.status, message=self.reason)
            )

    async def _give_back(self, run: Run, lease: Lease) -> None:
        try:
            await self._committer.release(lease, self.status)
        except StoreGone as gone:
            raise StoreGone(f"{gone}. {what_is_lost(run)}") from gone


def leave(run: Run, error: StoreError) -> bool:
    """What could not be recorded is left for whoever goes on with the run, or the error says what was done. Whether
    there is any use in asking the store for more."""
    if isinstance(error, StoreGone) or keep_late(run) == len(run.unrecorded.results):
        return True
    error.args = (f"{error}. {what_is_lost(run)}",)
    return error.code != NOT_THERE


def what_is_lost(run: Run) -> str:
    """Of a run whose store is gone: what was done, and is not on record."""
    try:
        results = run.unrecorded.results
        unkept = run.store.unkept(run.run_id, list(results))
        steps = [results[step][3] if step in results else step for step in unkept]
    except StoreError as error:
        return f"Run {run.run_id}: what is on record of it cannot be told ({error})"
    if not steps:
        return f"Run {run.run_id}: all that was done is on record"
    more = f" and {len(steps) - MOST_NAMES} more" if len(steps) > MOST_NAMES else ""
    return f"Run {run.run_id}: done, and not on record: {', '.join(steps[:MOST_NAMES])}{more}"
