"""Reading a run: its commits from a store, verified as they come, step by step.

Nothing is kept that was not asked for: a run of a million steps is read in the memory of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from reenact.contracts.artifacts import ActionRequest, ArtifactType
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.plan import Plan, plan_from_document
from reenact.contracts.records import RunRecord
from reenact.contracts.whole_plan import whole_plan
from reenact.errors import ChecksumMismatch, EvidenceError
from reenact.journal.fold import TraceFold
from reenact.journal.lines import commit_head, decode_artifact, decode_line, split_body
from reenact.journal.run_fold import RunFold
from reenact.record.outcomes import denied_outcome_of, outcome_of, with_output
from reenact.record.payloads import StoredPayloads, Withheld
from reenact.store.base import Store
from reenact.values.digest import ZERO_DIGEST, sha256_hex

REQUESTED = b'"artifact_type":"action_request"'


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One step as recorded: its trace, and where its values lie."""

    trace: TraceFold
    commits: dict[ArtifactType, int]
    payloads: StoredPayloads
    losses: dict[int, int] = field(default_factory=dict)
    """By ordinal, the commits of the records that an answer was lost."""

    @property
    def step_id(self) -> str:
        return self.trace.step_id

    @property
    def finished(self) -> bool:
        return self.trace.terminal

    @property
    def is_foreign(self) -> bool:
        """Another runtime wrote it: it has no outcome of ours."""
        return self.trace.meta("step_id") is None

    def outcome(self) -> StructuredOutcome:
        """What the caller got, or would have got."""
        if self.trace.effect is None:
            return denied_outcome_of(self.trace, self.explained())
        outcome, output = outcome_of(self.payloads, self.trace, near=self.commits.get("tool_effect"))
        return with_output(outcome, output) if outcome.ok else outcome

    def explained(self) -> Mapping[str, object]:
        """What the gate said about a denied step, where that was not erased."""
        decided = self.trace.decision
        commitment = decided.meta.get("details") if decided is not None and isinstance(decided.meta, dict) else None
        if not isinstance(commitment, str):
            return {}
        value = self.value(commitment, "supervisor_decision")
        return value if isinstance(value, dict) else {}

    def parameters(self) -> object:
        """What the step was called with, or None when it was erased."""
        assert self.trace.request is not None
        commitment = self.trace.request.proposal.args.get("$commit")
        return self.value(str(commitment), "action_request")

    def value(self, commitment: str, named_by: ArtifactType) -> object:
        """A payload, or None when it was erased."""
        try:
            return self.payloads.get(commitment, near=self.commits.get(named_by))
        except LookupError:
            return None


class Gone(NamedTuple):
    """What became of a value that is not there: `kind` is Archived, or LookupError where it was erased."""

    kind: type[LookupError]
    why: str


def absent_by(gone: Mapping[str, Gone]) -> Callable[[str], LookupError]:
    """For what was exported: of what no record tells, it was left out."""

    def absent(commitment: str) -> LookupError:
        return gone[commitment].kind(commitment) if commitment in gone else Withheld(commitment)

    return absent


class RunReader:
    """Reads a run of a store from its first commit on, or from where `start` stands, verifying as it goes."""

    def __init__(
        self, store: Store, run_id: str, start: RunFold | None = None, *, gone: Mapping[str, Gone] | None = None
    ) -> None:
        """`gone` says of values that do not lie in the store, by commitment, where they are, if the store cannot."""
        self.store = store
        self.run_id = run_id
        self.gone = gone or {}
        self.payloads = StoredPayloads(store, run_id, absent=None if gone is None else absent_by(gone))
        self.fold = start or RunFold(run_id)
        self._finished: list[TraceFold] = []
        self._commits: dict[str, dict[ArtifactType, int]] = {}
        self._losses: dict[str, dict[int, int]] = {}

    def steps(self) -> Iterator[RecordedStep]:
        """Finished steps as they ended, then those that are open.

        Asked again, it reads what was committed since: the steps that ended meanwhile, then those that are open now.
        """
        self.fold.on_finish = self._finished.append
        for body in self.store.bodies(self.run_id, after=self.fold.commits):
            number = self.fold.commits + 1
            for line in self.fold.apply_body(body):
                if line.entry is not None:
                    self._commits.setdefault(line.entry.trace_id, {})[line.entry.artifact_type] = number
                elif line.attempt is not None and line.attempt.kind == "lost":
                    self._losses.setdefault(line.attempt.trace_id, {})[line.attempt.ordinal] = number
            while self._finished:
                ended, of = self._finished.pop(0), self._losses
                yield RecordedStep(
                    ended, self._commits.pop(ended.trace_id, {}), self.payloads, of.pop(ended.trace_id, {})
                )
        for trace in self.fold.open.values():
            of_trace = self._losses.get(trace.trace_id, {})
            yield RecordedStep(trace, self._commits.get(trace.trace_id, {}), self.payloads, of_trace)

    def record(self) -> RunRecord:
        """The run record: the first thing that a run says."""
        if self.fold.record is None:
            first = next(iter(self.store.bodies(self.run_id)), None)
            if first is None:
                raise EvidenceError(f"run {self.run_id} has no commits")
            head = RunFold(self.run_id)
            head.apply_body(first)
            if head.record is None:
                raise EvidenceError(f"run {self.run_id} does not begin with its run record")
            return head.record
        return self.fold.record

    def plan(self, steps: Mapping[str, RecordedStep] | None = None) -> tuple[Plan, dict[str, object]]:
        """The plan that the run follows, or that a session assembled when it ended, whole.

        `steps` are the session's own, by step id, where the caller has read them already.
        """
        document = self.recorded_plan()
        if self.record().kind == "session" and isinstance(document, dict):
            called = steps_of(self.store, self.run_id) if steps is None else steps
            document = whole_plan(document, lambda step_id, named: called[step_id].value(named, "action_request"))
        return plan_from_document(document, source=f"the plan of {self._what()}")

    def recorded_plan(self) -> object:
        """The plan as its payload holds it; EvidenceError where it was erased, or a session has not ended."""
        planned = self.record().kind == "plan"
        commitment = self.record().plan if planned else self._assembled()
        if commitment is None:
            raise EvidenceError(f"session {self.run_id} was ended without its plan; it cannot be run again")
        try:
            return self.payloads.get(commitment, near=1 if planned else None)
        except LookupError:
            raise EvidenceError(f"the plan of {self._what()} {self._why_gone(commitment)}") from None

    def _why_gone(self, commitment: str) -> str:
        if commitment in self.gone:
            return self.gone[commitment].why
        return why_gone(self.store, self.run_id, commitment)

    def _what(self) -> str:
        return f"run {self.run_id}" if self.record().kind == "plan" else f"session {self.run_id}"

    def _assembled(self) -> str | None:
        """The plan of a session that has ended: the finish event beside the seal names it."""
        row = self.store.find_run(self.run_id)
        last = self.store.body(self.run_id, row.commits)
        if last is None:
            return None
        for raw in split_body(last, where=f"run {self.run_id}, commit {row.commits}"):
            line = decode_line(raw, where=f"run {self.run_id}, commit {row.commits}")
            if line.event is not None and line.event.type == "finish":
                return line.event.data
        return None


def why_gone(store: Store, run_id: str, commitment: str) -> str:
    """What became of a value that a store does not hold. Only an erasure that is on record is called one."""
    if store.is_archived(run_id, commitment):
        places = " and ".join(each.place for each in store.archives(run_id) if each.values)
        return f"is archived in {places}: `reenact archive --restore {run_id}` brings it back"
    records = (msgspec.json.decode(raw) for raw in store.erasures())
    if any((record["run_id"], record["commitment"]) == (run_id, commitment) for record in records):
        return "was erased; it cannot be run again"
    return "is not in the store, and nobody erased it: `reenact verify` says what else is lost"


def steps_of(store: Store, run_id: str) -> dict[str, RecordedStep]:
    """By step id, in the order of their requests; also those that have not ended."""
    return in_order(RunReader(store, run_id).steps())


def requests_before(store: Store, run_id: str, head: str) -> Iterator[ActionRequest]:
    """The requests in the commits that lead to `head`, for the process that wrote that one.

    That they do is all that is checked: whoever wrote the head has read or written what stands before it.
    """
    before = ZERO_DIGEST
    for number, body in enumerate(store.bodies(run_id, unchecked=True), start=1):
        where = f"run {run_id}, commit {number}"
        first, *lines = split_body(body, where=where)
        if commit_head(decode_line(first, where=where), where=where).prev != before:
            raise ChecksumMismatch(f"{where}: the commit before it is not the one that it names")
        before = sha256_hex(body)
        for raw in lines:
            if REQUESTED in raw:
                artifact = decode_artifact(decode_line(raw, where=where), where=where)
                assert isinstance(artifact, ActionRequest)
                yield artifact
    if before != head:
        raise ChecksumMismatch(f"run {run_id}: its commits do not lead to the one that was written last")


def in_order(steps: Iterable[RecordedStep]) -> dict[str, RecordedStep]:
    """Calls of a session may end in any order, and so may those of the run that replays it.

    They began in the order of their commits, and ids of traces grow; the place that the plan gives them is not asked.
    """
    begun = sorted(steps, key=lambda step: (step.commits.get("action_request", 0), step.trace.trace_id))
    return {step.step_id: step for step in begun}
