"""The writer of one run: stages records in the order of their making, commits them together, seals."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from reenact.contracts.artifacts import Artifact
from reenact.contracts.records import Attempt, Event, RunRecord, RunStatus, Seal, Vote
from reenact.journal import chain
from reenact.journal.chain import Logged
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.runtime.crash_points import reach
from reenact.runtime.payload_book import PayloadBook
from reenact.store.base import KeyCompletion, KeyReservation, Lease, NewRun, NewTrace, Store, Unit
from reenact.values.clock import Door
from reenact.values.digest import ZERO_DIGEST

Committer = Callable[[Unit, Lease | None], Lease]


class RunWriter:
    """Appends to a run under a lease. What is staged is not durable before `flush` returns."""

    def __init__(
        self, store: Store, fold: RunFold, book: PayloadBook, door: Door, *, lease: Lease | None, owner: str
    ) -> None:
        self._store = store
        self.fold = fold
        self.book = book
        self.door = door
        self.lease = lease
        self._owner = owner
        self._front: list[bytes] = []
        self._lines: list[bytes] = []
        self._back: list[bytes] = []
        self._new_run: NewRun | None = None
        self._traces: list[NewTrace] = []
        self._reservations: list[KeyReservation] = []
        self._completions: list[KeyCompletion] = []
        self._spent: list[tuple[str, str, str, int]] = []
        self._seal: Seal | None = None
        self._status: RunStatus | None = None
        self._after: list[Callable[[], None]] = []

    # -- staging ---------------------------------------------------------------------------------------------------

    def run(self, record: RunRecord, new_run: NewRun) -> None:
        self.fold.apply_run(record)
        self._front.append(chain.run_line(record))
        self._new_run = new_run

    def entry(self, logged: Logged) -> TraceFold:
        trace = self.fold.apply_entry(logged.entry, logged.artifact, recompute=False)
        self._lines.append(logged.line)
        if logged.entry.sequence_number == 1:
            self._traces.append(NewTrace(trace.trace_id, trace.step_index, trace.step_id))
        return trace

    def attempt(self, attempt: Attempt) -> Attempt:
        digested = chain.with_digest(attempt)
        self.fold.apply_attempt(digested, recompute=False)
        self._lines.append(chain.attempt_line(digested))
        return digested

    def event(self, event: Event) -> None:
        self.fold.apply_event(event)
        self._front.append(chain.event_line(event))

    def vote(self, vote: Vote) -> None:
        digested = chain.with_digest(vote)
        self.fold.votes[vote.trace_id] = digested
        self._front.append(chain.vote_line(digested))

    def checkpoint(self, trace: TraceFold) -> None:
        """A trace that parks leaves a checkpoint of where it stands."""
        state = chain.state_of(trace.trace_id, trace.plan_id, trace.state, trace.sequence, trace.head)
        self._back.append(chain.checkpoint_line(chain.checkpoint_of(state, self.door.timestamp())))

    def reserve(self, reservation: KeyReservation) -> None:
        self._reservations.append(reservation)

    def complete(self, completion: KeyCompletion) -> None:
        self._completions.append(completion)

    def spend(self, day: str, agent: str, model: str, exact: int) -> None:
        self._spent.append((day, agent, model, exact))

    def status(self, status: RunStatus) -> None:
        self._status = status

    def seal(self, status: RunStatus, plan_hash: str | None, steps_planned: int) -> None:
        self._seal = Seal(
            attempts_root=self.fold.attempts_tree.root(),
            commits=self.fold.commits + 1,
            plan_hash=plan_hash,
            prev_store_seal=ZERO_DIGEST,
            root=self.fold.full_root(),
            run_head="",
            run_id=self.fold.run_id,
            sealed_at=self.door.timestamp(),
            status=status,
            steps_planned=steps_planned,
            traces=self.fold.requested,
        )
        self._status = status

    def after_commit(self, tell: Callable[[], None]) -> None:
        """Called once what is staged is durable: listeners never hear of what may yet be lost."""
        self._after.append(tell)

    @property
    def staged(self) -> bool:
        return bool(self._front or self._lines or self._back or self._seal)

    # -- committing ------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything staged durable in one transaction. Raises ConcurrentExecution when fenced off."""
        if not self.staged:
            return
        unit = self._unit()
        reach("before_commit")
        self.lease = self._store.append(unit, self.lease, owner=self._owner)
        reach("after_commit")
        self._committed(unit.n)

    def _unit(self) -> Unit:
        return Unit(
            run_id=self.fold.run_id,
            n=self.fold.commits + 1,
            body=self._body,
            payloads=self.book.pending,
            traces=self._traces,
            reservations=self._reservations,
            completions=self._completions,
            new_run=self._new_run,
            status=self._status,
            shared=self.book.shared,
            spent=self._spent,
        )

    def _body(self, last_store_seal: Callable[[], str]) -> tuple[bytes, str | None]:
        n = self.fold.commits + 1
        head = chain.commit_line(n, self.fold.head, self.fold.run_id)
        body = b"".join((head, *self._front, *self._lines, *self._back))
        seal_digest = None
        if self._seal is not None:
            seal = replace(self._seal, prev_store_seal=last_store_seal(), run_head=chain.sha(body))
            seal = chain.sealed(seal)
            body += chain.seal_line(seal)
            seal_digest = str(seal.seal_digest)
            self.fold.seal = seal
        self._built = body
        return body, seal_digest

    def _committed(self, n: int) -> None:
        assert self.lease is not None
        self.fold.commits = n
        self.fold.head = chain.sha(self._built)
        self.book.committed(self.lease.run_no, n)
        self._front, self._lines, self._back = [], [], []
        self._traces, self._reservations, self._completions, self._spent = [], [], [], []
        self._new_run = self._seal = self._status = None
        after, self._after = self._after, []
        for tell in after:
            tell()


def typed(artifact: Artifact) -> str:
    """The digest of an artifact that has one."""
    assert isinstance(artifact.digest, str)
    return artifact.digest
