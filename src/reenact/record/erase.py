"""Erasing values: the envelopes go, the chain stays whole, and a record says who took them out and why."""

from __future__ import annotations

from collections.abc import Iterator

from reenact.contracts.records import ENDED
from reenact.contracts.whole_plan import COMMIT, named
from reenact.errors import EvidenceError, RunNotFound, UsageError
from reenact.journal.fold import TraceFold
from reenact.journal.lines import Line
from reenact.journal.run_fold import RunFold
from reenact.record.reader import RunReader
from reenact.store.base import Erasing, Store
from reenact.store.erasures import for_good
from reenact.store.owner import owner_name
from reenact.values.clock import Clock, SystemClock


class Named:
    """Which payloads a run's lines name: by trace, and by the run itself."""

    def __init__(self, store: Store, run_id: str) -> None:
        self.by_trace: dict[str, set[str]] = {}
        self.by_run: set[str] = set()
        self.step_of: dict[str, str] = {}
        self.open: set[str] = set()
        self.key_sources: dict[str, str] = {}
        """What the key of a call was made of, by trace: `caller`, `step` or, in older runs, `trace`."""
        self._about: dict[str, set[str]] = {}
        fold = RunFold(run_id)
        fold.on_finish = self._finished
        for body in store.bodies(run_id):
            for line in fold.apply_body(body):
                self._of_run(line)
        for trace in fold.open.values():
            self._finished(trace)
            self.open.add(trace.trace_id)
        for trace_id, found in self._about.items():
            self.by_trace.setdefault(trace_id, set()).update(found)

    def _finished(self, trace: TraceFold) -> None:
        self.by_trace[trace.trace_id] = set(named_by(trace))
        self.step_of[trace.trace_id] = trace.step_id
        self.key_sources[trace.trace_id] = str(trace.meta("idempotency_source"))

    def _of_run(self, line: Line) -> None:
        if line.run is not None and line.run.plan is not None:
            self.by_run.add(line.run.plan)
        if line.event is not None:
            self._said(line.event.trace_id, line.event.data, line.event.reason)
        if line.vote is not None:
            self._said(line.vote.trace_id, line.vote.reason)

    def _said(self, trace_id: str | None, *commitments: str | None) -> None:
        """What was said about a call belongs to it; the rest is the run's."""
        found = {text for text in commitments if text is not None}
        if trace_id is None:
            self.by_run |= found
        else:
            self._about.setdefault(trace_id, set()).update(found)

    def chosen(self, step_id: str | None) -> tuple[set[str], set[str]]:
        """(commitments, traces) to erase; UsageError where a call that has not ended still needs a value."""
        if step_id is None:
            if self.open:
                names = ", ".join(sorted(self.step_of[trace_id] for trace_id in self.open))
                raise UsageError(f"calls of this run have not ended ({names}); end or cancel it first")
            return self.by_run.union(*self.by_trace.values()), set(self.by_trace)
        wanted = {trace_id for trace_id, name in self.step_of.items() if name == step_id}
        if not wanted:
            raise RunNotFound(f"this run has no step {step_id!r}; `reenact show` lists its steps")
        if self.open & wanted:
            raise UsageError(f"step {step_id} has not ended; its values cannot be erased yet")
        found = set().union(*(self.by_trace[trace_id] for trace_id in sorted(wanted)))
        for trace_id in sorted(self.open):
            if found & self.by_trace[trace_id]:
                raise UsageError(f"step {self.step_of[trace_id]}, which has not ended, needs a value of step {step_id}")
        return found, wanted


def named_by(trace: TraceFold) -> Iterator[str]:
    """Every commitment that a trace names."""
    if trace.request is not None:
        yield str(trace.request.proposal.args.get("$commit"))
        if isinstance(key := trace.meta("key"), str):
            yield key
    meta = trace.decision.meta if trace.decision is not None else None
    if isinstance(meta, dict) and isinstance(details := meta.get("details"), str):
        yield details
    for attempt in trace.attempts:
        if attempt.response is not None:
            yield attempt.response
    if trace.effect is not None and isinstance(trace.effect.document_hashes, list):
        yield from (document.hash for document in trace.effect.document_hashes)


def erase(store: Store, run_id: str, step_id: str | None, *, who: str, reason: str, clock: Clock | None = None) -> int:
    """Erase the values of a step, or of a whole run with its plan. Gives how many envelopes are gone.

    A run that has not ended is erased from only while nobody works on it (`LockAcquireFailed`): whoever did would go
    on with values, and with places to store others, that are gone.
    """
    said = for_good(who, reason)
    row = store.find_run(run_id)
    owner = owner_name((clock or SystemClock()).random_bytes(8).hex())
    lease = None if row.status in ENDED else store.acquire(row.run_id, owner)
    try:
        commitments, traces = Named(store, row.run_id).chosen(step_id)
        count = store.erase(
            Erasing(
                run_id=row.run_id,
                commitments=frozenset(commitments),
                traces=frozenset(traces),
                whole=step_id is None,
                who=who,
                reason=said,
            )
        )
    finally:
        if lease is not None:
            store.release(lease)
    store.scrub()
    return count


def keys_that_stay(store: Store, run_id: str, step_id: str | None) -> list[str]:
    """What the keys are made of that whoever holds the database can test guesses against after this erasure.

    `step`: its arguments, until the salt goes with the whole run. `caller`: the caller's own key, as long as the store
    has its secret; the arguments of that call are not in it.
    """
    named = Named(store, run_id)
    found = {named.key_sources[trace] for trace, name in named.step_of.items() if step_id in (None, name)}
    return sorted(found & ({"caller"} if step_id is None else {"caller", "step"}))


def plan_repeats(store: Store, run_id: str) -> bool:
    """Whether a run's plan says itself what a step was called with, as all do but those of today's sessions."""
    try:
        document = RunReader(store, run_id).recorded_plan()
    except EvidenceError:
        return False
    steps = document.get("steps") if isinstance(document, dict) else None
    return isinstance(steps, list) and any(named(step.get("parameters"), COMMIT) is None for step in steps)


def copies_of(store: Store, run_id: str) -> list[str]:
    """Other runs that hold values of this one, because they replayed it."""
    return [row.run_id for row in store.replays(run_id) if row.mode != "mock_replay"]
