"""One run being made: its journal, its plan, and where its effects come from."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.plan import Context
from reenact.contracts.records import RunStatus
from reenact.contracts.references import MISSING
from reenact.errors import ConcurrentExecution, PlanError
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.policy.budget import NOTHING, BudgetPolicy, Spent, budget_policy
from reenact.policy.cost import PriceTable
from reenact.record.trace import load_trace
from reenact.runtime.call.capability import Mint
from reenact.runtime.effects.source import AttemptResult, EffectSource
from reenact.runtime.gates import external
from reenact.runtime.gates.duplicate import DuplicateGate
from reenact.runtime.gates.supervisor import LONGEST_ANSWER_S, SupervisorFunction
from reenact.runtime.money import Ledger
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.writing.payloads import PayloadBook
from reenact.runtime.writing.writer import RunWriter
from reenact.store.base import Store
from reenact.values.clock import Door

log = logging.getLogger("reenact.listeners")

RECENT_OUTPUTS = 32
LEASE_MARGIN_MS = 2_000
CANCEL_POLL_S = 0.5
"""How often a back-off looks whether it is still wanted."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is durable now. Listeners get it after its commit, never before."""

    kind: str
    """run_started, recovered, unrecorded, step_started, redispatch, attempt, budget_alert, step_ended, run_parked,
    run_ended, progress"""
    run_id: str
    step_id: str | None = None
    step_index: int | None = None
    attempt: int | None = None
    code: str | None = None
    backoff_ms: int | None = None
    status: str | None = None
    outcome: StructuredOutcome | None = None
    message: str | None = None
    skill_id: str | None = None
    tool_call_id: str | None = None
    steps: int | None = None
    """How many a plan has, when its run starts or goes on. Nobody knows that of a session."""
    mode: str = "live"
    """A replay's facts carry its mode: what counts production leaves them out."""


Listener = Callable[[Fact], None]


class Parked(Exception):  # not an error: the run stops here and can go on later
    """The run stops without an end: it waits for a person, or is held."""

    def __init__(self, status: RunStatus, reason: str) -> None:
        super().__init__(reason)
        self.status: RunStatus = status


class Execution:
    """Everything that driving a trace needs. One at a time writes to a run; calls of a session share it."""

    def __init__(
        self,
        *,
        store: Store,
        door: Door,
        plan: RunPlan,
        writer: RunWriter,
        source: EffectSource,
        mint: Mint,
        original_run_id: str,
        named_supervisor: Callable[[], SupervisorFunction | None] = lambda: None,
        host_supervisor: SupervisorFunction | None = None,
        supervisor_limit_s: float = LONGEST_ANSWER_S,
        listeners: tuple[Listener, ...] = (),
        unrecorded_reads: bool = False,
    ) -> None:
        self.store = store
        self.door = door
        self.plan = plan
        self.writer = writer
        self.source = source
        self.mint = mint
        self.original_run_id = original_run_id
        self._named_supervisor = named_supervisor
        self.host_supervisor = host_supervisor
        """The host's own: asked about every call, whatever the plan names."""
        self.supervisor_limit_s = supervisor_limit_s
        self.listeners = listeners
        self.fold: RunFold = writer.fold
        self.book: PayloadBook = writer.book
        self.run_id: str = writer.fold.run_id
        self.context: Context = plan.plan.context
        self.prices = PriceTable.of(plan.pins.prices)
        self.budget: BudgetPolicy = budget_policy(self.context.budget_cents, self.context.budget)
        self.recovered: set[str] = {trace.trace_id for trace in writer.fold.open.values() if trace.state == "EXECUTING"}
        self.ledger = Ledger(writer.fold, self.budget)
        self.external = external.limit(self.context, self.fold, plan)
        self.duplicates: DuplicateGate | None = None
        self.what_was_read: str | None = None
        """Of a run that goes on: what its state was brought back from."""
        self.before_seal: Callable[[RunStatus], Awaitable[None]] | None = None
        """Called when every step has ended: the last moment at which a run can say something about itself."""
        self.duplicate_output = False
        self.unrecorded_reads = unrecorded_reads
        self.without_record: dict[str, str] = {}
        """Why steps went on although the journal could not be written, by step id."""
        self.unrecorded: dict[str, tuple[int, AttemptResult, tuple[str, ...]]] = {}
        """Results that are not durable yet, with the fields that are secret in them: what is left behind in
        `late_effects` when the lease is lost."""
        self._outputs: dict[str, str | None] = {}
        writer.reserved_exact = self.ledger.reserved
        writer.sets_apart = self.budget.reaches_beyond_the_run

    @cached_property
    def supervisor(self) -> SupervisorFunction | None:
        """The function that the plan names, loaded when it is first asked: a vote or a cancel does not need it."""
        try:
            return self._named_supervisor()
        except PlanError as error:
            raise Parked("held", f"{error}; the run goes on where it can be loaded (PYTHONPATH)") from None

    @property
    def cancel_note(self) -> str | None:
        """Who asked for this run to be cancelled and why, once a commit has told."""
        return None if self.writer.lease is None else self.writer.lease.cancel

    async def sleep_until_cancelled(self, seconds: float) -> bool:
        """Sleep, but not through a request to cancel: True when there is one."""
        if seconds <= CANCEL_POLL_S:
            await self.door.sleep(seconds)
            return self.is_cancelled()
        sleeping = asyncio.ensure_future(self.door.sleep(seconds))
        try:
            while not (await asyncio.wait([sleeping], timeout=CANCEL_POLL_S))[0]:
                if self.is_cancelled():
                    return True
            await sleeping
        finally:
            sleeping.cancel()
        return self.is_cancelled()

    def is_cancelled(self) -> bool:
        """Whether somebody asked for this run to be cancelled, by what the store says now."""
        lease = self.writer.lease
        if lease is not None and lease.cancel is None:
            note = self.store.cancel_request(self.run_id)
            if note is not None:
                self.writer.lease = replace(lease, cancel=note)
        return self.cancel_note is not None

    def tell(self, fact: Fact) -> None:
        """Tell listeners once everything staged so far is durable."""
        if self.listeners:
            self.writer.after_commit(lambda: self.tell_now(fact))

    def tell_now(self, fact: Fact) -> None:
        """A listener that fails is the host's trouble, never the run's. A closed pipe is the way to stop a command."""
        mode = "live" if self.fold.record is None else self.fold.record.mode
        fact = fact if mode == "live" else replace(fact, mode=mode)
        tell_all(self.listeners, fact)

    def not_yet_recorded(self, trace_id: str, attempt: int, result: AttemptResult, hints: tuple[str, ...]) -> None:
        self.unrecorded[trace_id] = (attempt, result, hints)
        self.writer.after_commit(lambda: self.unrecorded.pop(trace_id, None) and None)

    def keep_lease(self) -> None:
        """Right before a dispatch: the lease must hold. Heartbeats renew it; one that was missed is made up for."""
        lease = self.writer.lease
        if lease is None or self.door.now_ms() < lease.expires_ms - LEASE_MARGIN_MS:
            return
        kept = self.store.renew([lease])
        if not kept:
            raise ConcurrentExecution(f"run {self.run_id}: its lease ran out and another executor took over")
        self.writer.lease = kept[0]

    # -- money -----------------------------------------------------------------------------------------------------

    def outside_spent(self, model: str | None, besides: str = "") -> tuple[Spent, Spent]:
        """What this agent spent today and may still spend on calls in flight, in all and on a model.

        What this run has staged counts as if it were written. What is set apart for the trace `besides` is left out.
        It is an input from outside, recorded with the decision.
        """
        if not self.budget.reaches_beyond_the_run:
            return NOTHING, NOTHING
        whose, name = (self.today(), self.plan.plan.agent_id), model or ""
        staged = self.writer.staged_money(*whose, besides)
        settled = Counter(self.store.spent(*whose)) + staged.spent
        apart = Counter(self.store.set_apart(*whose, {besides, *staged.ended})) + staged.apart
        return Spent(settled.total(), apart.total()), Spent(settled[name], apart[name])

    def today(self) -> str:
        return self.door.timestamp()[:10]

    # -- outputs of earlier steps -----------------------------------------------------------------------------------

    def remember_output(self, step_id: str, commitment: str | None) -> None:
        self._outputs[step_id] = commitment
        if len(self._outputs) > RECENT_OUTPUTS:
            del self._outputs[next(iter(self._outputs))]

    def output_of(self, step_id: str) -> object:
        """The output of an earlier step; MISSING when it has none, did not succeed, or was erased."""
        near = None
        if step_id in self._outputs:
            commitment = self._outputs[step_id]
        else:
            commitment, near = self._recorded_output(step_id)
        if commitment is None:
            return MISSING
        try:
            return self.book.get(commitment, near=near)
        except LookupError:
            return MISSING

    def _recorded_output(self, step_id: str) -> tuple[str | None, int | None]:
        row = self.store.trace_at(self.run_id, self.plan.index[step_id])
        if row is None:
            return None, None
        trace, commits = load_trace(self.store, row)
        return succeeded_output(trace), commits.get("tool_effect")


def tell_all(listeners: tuple[Listener, ...], fact: Fact) -> None:
    for listener in listeners:
        try:
            listener(fact)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever a listener does
            log.warning("a listener failed on %s of run %s: %s", fact.kind, fact.run_id, type(error).__name__)


def succeeded_output(trace: TraceFold) -> str | None:
    if trace.state != "COMPLETED" or trace.effect is None:
        return None
    return trace.effect.commitment("/output")
