"""One run being made, by its parts: journal, plan, source of effects, money, gates, listeners, outputs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Event
from reenact.contracts.references import MISSING
from reenact.errors import ConcurrentExecution
from reenact.journal.fold import TraceFold
from reenact.record.trace import load_trace
from reenact.runtime.call.capability import Mint
from reenact.runtime.drain import Drain
from reenact.runtime.effects.source import AttemptResult, EffectSource
from reenact.runtime.gates.state import Gates
from reenact.runtime.listeners import Listeners, Notice
from reenact.runtime.money import Money
from reenact.runtime.parked import LargeValue, Parked
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.writing.writer import RunWriter
from reenact.store.base import Store
from reenact.store.keys.ballots import CancelRequest, asked_to_cancel
from reenact.values.clock import Clock, parse_ts

log = logging.getLogger("reenact.runs")

P = ParamSpec("P")
T = TypeVar("T")

Scorer = Callable[[StructuredOutcome], float | None]
"""From -1 to +1, or None: the default of the replay log."""
OWN_LIMIT = ""
"""Who cancels a run that has taken as long as it may: nobody's name."""
RECENT_OUTPUTS = 32
LEASE_MARGIN_S = 2.0
CANCEL_POLL_S = 0.5
"""How often a back-off looks whether it is still wanted."""


@dataclass(slots=True)
class Unrecorded:
    """What a run knows and its journal does not say yet."""

    reads_go_on: bool = False
    """Whether steps that only read may go on while the journal cannot be written."""
    why: dict[str, str] = field(default_factory=dict)
    """Of steps that went on like that, by step id: why the journal could not be written."""
    results: dict[str, tuple[int, AttemptResult, tuple[str, ...], str]] = field(default_factory=dict)
    """By trace, results that are not durable yet, with the attempt, the fields that are secret in them and the step:
    what is left in `late_effects` when the lease is lost, or nothing can be appended."""


class Run:
    """Everything that driving a call needs. One executor at a time writes to a run; calls of a session share it."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        journal: RunWriter,
        plan: RunPlan,
        source: EffectSource,
        money: Money,
        gates: Gates,
        listeners: Listeners,
        mint: Mint,
        original_run_id: str,
        unrecorded: Unrecorded,
        max_redispatches: int,
        drain: Drain,
        scorer: Scorer | None = None,
    ) -> None:
        self.run_id: str = journal.fold.run_id
        record = journal.fold.record
        key_run = None if record is None else record.key_run
        self.key_run = key_run if isinstance(key_run, str) else None
        """The run whose id stands in the keys of its steps; None in one that keeps the keys of before."""
        self.sends_anew = record is not None and record.mode in ("full_replay", "fork")
        """Under keys of its own, whatever they are made of."""
        self.original_run_id = original_run_id
        """The run whose id seeds jitter: a replay's is its original."""
        self.store = store
        self.clock = clock
        self.journal = journal
        self.plan = plan
        self.source = source
        self.money = money
        self.gates = gates
        self.listeners = listeners
        self.mint = mint
        self.outputs = Outputs(store, journal, plan)
        self.unrecorded = unrecorded
        self.max_redispatches = max_redispatches
        """In one call so many may die before a person is asked; its skill may say otherwise."""
        self.drain = drain
        self.scorer = scorer
        """Says what a call was worth, where its skill does not."""
        self.in_doubt = {trace.trace_id for trace in journal.fold.open.values() if trace.state == "EXECUTING"}
        """Traces whose last dispatch may or may not have taken effect."""
        self.found_open = frozenset(self.in_doubt)
        """Those of them that an earlier process left in EXECUTING."""
        self.read_from: str | None = None
        """Of a run that goes on: what its state was brought back from."""
        self.forbidden: str | None = None
        """Of a run that goes on: why the host's policy of today does not let it call anything."""
        limit = plan.plan.context.time_limit_ms
        served = limit is None or source.is_served_whole()
        self._ends_ms = None if served or record is None else parse_ts(record.started_at) + (limit or 0)
        """When its own time limit ends it, counted from its first start."""
        self._over: CancelRequest | None = None
        self._asked: tuple[str | None, CancelRequest | None] = (None, None)
        """The last note that asked for its end, and what it says where it is believed."""

    def hold_forbidden(self) -> None:
        """The policy of today holds for what is still to be called, whatever the run was begun with."""
        if self.forbidden is not None and not self.source.is_served_whole() and self.cancel_note is None:
            raise Parked("held", self.forbidden)

    def keep_lease(self) -> None:
        """Right before a dispatch: the store is there, and the lease must hold.

        Heartbeats renew it; one that was missed is made up for.
        """
        self.store.watch()
        lease = self.journal.lease
        if lease is None or self.clock.monotonic() < lease.until - LEASE_MARGIN_S:
            return
        kept = self.store.renew([lease])
        if not kept:
            raise ConcurrentExecution(f"run {self.run_id}: its lease ran out and another executor took over")
        self.journal.lease = kept[0]

    # -- cancelling ------------------------------------------------------------------------------------------------

    @property
    def cancel_note(self) -> CancelRequest | None:
        """Who asked for this run to be cancelled and why, once a commit has told, or that its own limit has ended it.

        None where no key of ours says so.
        """
        lease = self.journal.lease
        return self._over if lease is None or lease.cancel is None else self._believed(lease.cancel) or self._over

    def stopping(self) -> CancelRequest | None:
        """`cancel_note`, asked before anything is begun: a run that has taken as long as it may ends there."""
        if self._ends_ms is not None and self._over is None and self.clock.now_ms() >= self._ends_ms:
            reason = f"its time limit of {self.plan.plan.context.time_limit_ms} ms was over"
            self._over = CancelRequest(reason=reason, ts=self.clock.timestamp(), who=OWN_LIMIT)
        return self.cancel_note

    def _believed(self, note: str) -> CancelRequest | None:
        """Each is looked at once, and told of where it is ignored."""
        if note != self._asked[0]:
            found = asked_to_cancel(self.store, self.run_id, note)
            self._asked = (note, None if isinstance(found, str) else found)
            if isinstance(found, str):
                log.warning("run %s: a request to cancel it was ignored: %s", self.run_id, found)
                message = f"a request to cancel it was ignored: {found}"
                self.listeners.tell_now(Notice(kind="cancel_ignored", run_id=self.run_id, message=message))
        return self._asked[1]

    def is_cancelled(self) -> bool:
        """Whether somebody asked for this run to be cancelled, by what the store says now."""
        lease = self.journal.lease
        if lease is not None and self.cancel_note is None:
            note = self.store.cancel_request(self.run_id)
            if note != lease.cancel:
                self.journal.lease = replace(lease, cancel=note)
        return self.stopping() is not None

    def note_cancel_request(self, asked: CancelRequest) -> None:
        """Stage what somebody else asked for, or its own limit, as an event of the run."""
        own = asked.who == OWN_LIMIT
        said = {"time_limit_ms": self.plan.plan.context.time_limit_ms} if own else {}
        self.note_cancel(asked.reason, None if own else asked.who, **said)

    def note_cancel(self, reason: str, who: str | None, **more: object) -> None:
        """Stage that the run was cancelled, as an event: why, and by whom; nobody where its own limit did."""
        data, ts = self.journal.book.put({"reason": reason, **more})[0], self.clock.timestamp()
        self.journal.event(Event(data=data, reason=None, trace_id=None, ts=ts, type="cancel", who=who))

    @staticmethod
    async def searched(make: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """What `make` gives once each of its large values was searched for secrets; it is asked again after each."""
        while True:
            try:
                return make(*args, **options)
            except LargeValue as large:
                await large.search()

    async def sleep_until_cancelled(self, seconds: float) -> bool:
        """Sleep, but not through a request to cancel: True when there is one."""
        if seconds <= CANCEL_POLL_S:
            await self.clock.sleep(seconds)
            return self.is_cancelled()
        sleeping = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            while not (await asyncio.wait([sleeping], timeout=CANCEL_POLL_S))[0]:
                if self.is_cancelled():
                    return True
            await sleeping
        finally:
            sleeping.cancel()
        return self.is_cancelled()


class Outputs:
    """What earlier steps returned, for `{{step.path}}`: a few commitments are remembered, the others read."""

    def __init__(self, store: Store, journal: RunWriter, plan: RunPlan) -> None:
        self._store = store
        self._journal = journal
        self._plan = plan
        self._recent: dict[str, str | None] = {}

    def remember(self, step_id: str, commitment: str | None) -> None:
        recent = self._recent
        recent[step_id] = commitment
        if len(recent) > RECENT_OUTPUTS:
            del recent[next(iter(recent))]

    def of(self, step_id: str) -> object:
        """The output of an earlier step; MISSING when it has none, did not succeed, or was erased."""
        near = None
        if step_id in self._recent:
            commitment = self._recent[step_id]
        else:
            commitment, near = self._recorded(step_id)
        if commitment is None:
            return MISSING
        try:
            return self._journal.book.get(commitment, near=near)
        except LookupError:
            return MISSING

    def _recorded(self, step_id: str) -> tuple[str | None, int | None]:
        row = self._store.trace_at(self._journal.fold.run_id, self._plan.index[step_id])
        if row is None:
            return None, None
        trace, commits = load_trace(self._store, row)
        return succeeded_output(trace), commits.get("tool_effect")


def succeeded_output(trace: TraceFold) -> str | None:
    if trace.state != "COMPLETED" or trace.effect is None:
        return None
    return trace.effect.commitment("/output")
