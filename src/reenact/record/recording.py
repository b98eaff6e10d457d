"""A whole recorded run, for replays and comparisons: verified first, and refused where it cannot be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.plan import Plan
from reenact.contracts.records import ENDED, Attempt, RunRecord, RunStatus, Seal
from reenact.errors import DamagedRecord, TornTail, UnknownVersion, UnsealedRecording
from reenact.journal.fold import TraceFold
from reenact.record.reader import Gone, RecordedStep, RunReader, in_order
from reenact.store.base import RunRow, Store
from reenact.values.bounds import whole_number
from reenact.verify.render import place
from reenact.verify.report import RULE_CODES, Finding, Report
from reenact.version import __version__


@dataclass(frozen=True, slots=True)
class Recording:
    """One sealed run: its plan as pinned, and every step as it went."""

    store: Store
    record: RunRecord
    seal: Seal
    plan: Plan
    document: dict[str, object]
    steps: dict[str, RecordedStep]
    """By step id, in the order of their requests."""
    resolved: frozenset[str] = frozenset()
    """Traces that a person or the repair of a session ended, by id."""
    folder: str | None = None
    """The exported folder that it was read from: somebody's, who need not be trusted."""

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def status(self) -> RunStatus:
        return self.seal.status

    @property
    def seed_run_id(self) -> str:
        """The run whose id seeds jitter: a replay goes on with its original's."""
        if self.record.mode == "live" or self.record.parent_run is None:
            return self.record.run_id
        return self.record.parent_run

    def trace(self, step_id: str) -> TraceFold | None:
        step = self.steps.get(step_id)
        return None if step is None else step.trace

    def results(self, step_id: str) -> list[Attempt]:
        """The attempts of a step that have a result, by number."""
        trace = self.trace(step_id)
        return [] if trace is None else [attempt for attempt in trace.attempts if attempt.kind == "attempt"]

    def outcome(self, step_id: str) -> StructuredOutcome:
        return self.steps[step_id].outcome()

    def output(self, step_id: str) -> object:
        """What the step returned; None when it failed or the value was erased."""
        step = self.steps[step_id]
        commitment = None if step.trace.effect is None else step.trace.effect.commitment("/output")
        return None if commitment is None else step.value(commitment, "tool_effect")


class _Evidence:
    """A run's commits and payloads as the verifier reads them: a payload lies with the commit that names it first."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._commit = 0

    def bodies(self) -> Iterator[bytes]:
        for body in self._store.bodies(self._run_id):
            self._commit += 1
            yield body

    def get(self, commitment: str, /) -> bytes | None:
        return self._store.payload(self._run_id, commitment, near=self._commit)


def load_recording(store: Store, run: str) -> Recording:
    """The run with this id or prefix. A recording that is cut, edited, newer or not yet ended is refused.

    Raises `TornTail`, `DamagedRecord`, `UnknownVersion` or `UnsealedRecording`, each with the place and what to do.
    """
    row = store.find_run(run)
    verify_recording(store, row)
    return read_recording(store, row.run_id)


def read_recording(store: Store, run_id: str, gone: Mapping[str, Gone] | None = None) -> Recording:
    """A run that was verified already; `gone` as for `RunReader`."""
    reader = RunReader(store, run_id, gone=gone)
    steps = in_order(reader.steps())
    seal = reader.fold.seal
    assert seal is not None, "the verifier saw it"
    plan, document = reader.plan(steps)
    refuse_newer(reader.record())
    resolved = frozenset(
        event.trace_id
        for event in reader.fold.events
        if event.trace_id is not None
        and (event.type == "synthesized" or (event.type == "resolve" and event.reason is None))
    )
    return Recording(store, reader.record(), seal, plan, document, steps, resolved)


def verify_recording(store: Store, row: RunRow) -> None:
    """The verifier's word before anything is replayed."""
    from reenact.store.copying.views import evidence_of_run
    from reenact.verify.verifier import verify_lines

    evidence = _Evidence(store, row.run_id)
    with store.evidence() as opened:
        lying = evidence_of_run(opened, row.run_id)
        report = verify_lines(
            evidence.bodies(),
            evidence,
            keys=lying.keys(),
            notes=lying.notes(),
            store_id=lying.store_id(),
            erasures=store.erasures(),
            whole_erasures=True,
        )
    refuse_broken(report, f"run {row.run_id}")
    if report.run_id != row.run_id:
        raise DamagedRecord(f"run {row.run_id}: its journal is that of run {report.run_id}; nothing is replayed")
    refuse_open(report, row)
    store.check_recorded(row.run_id)


def refuse_open(report: Report, row: RunRow) -> None:
    """No seal: cut off, where the store knows that the run ended; else it has not ended yet."""
    if report.completeness == "holds":
        return
    if row.status in ENDED:
        raise TornTail(
            f"run {row.run_id} is {row.status}, but its journal has no seal after commit {report.counts.commits}: the "
            "recording was cut, and nothing of it is replayed"
        )
    go_on = f"go on with `reenact resume {row.run_id}`" if row.kind == "plan" else row.how_to_go_on
    raise UnsealedRecording(
        f"run {row.run_id} is {row.status} and has no seal: its end is not known, so nothing is replayed; {go_on} first"
    )


def refuse_broken(report: Report, what: str, *, wish: str = "replayed") -> None:
    """An error with the verifier's first break; the kinds of break stay apart.

    What contradicts only the run's own rules can be read: to hold it against them, step by step, is what a replay does.
    """
    first = next((finding for finding in report.findings if finding.code not in RULE_CODES), None)
    if report.broken_in_total > len(report.findings):
        first = first or report.first_break
    if first is None:
        return
    message = f"{what} cannot be {wish}: {place(first.where)}: {explain(first)}"
    if first.code == "EVIDENCE_VERSION_UNKNOWN":
        raise UnknownVersion(f"{message}; update reenact (this is {__version__})")
    if first.code in ("EVIDENCE_TORN_TAIL", "SEAL_MISSING", "SEAL_COUNT", "JOURNAL_EMPTY"):
        raise TornTail(message)
    raise DamagedRecord(message)


def explain(finding: Finding) -> str:
    said = f"{finding.code}: {finding.what}"
    if finding.expected is not None or finding.got is not None:
        said += f" (expected {finding.expected}, got {finding.got})"
    return said


def refuse_newer(record: RunRecord) -> None:
    """A newer reenact may decide by rules that this one does not have."""
    if release(record.reenact_version) > release(__version__):
        raise UnknownVersion(
            f"run {record.run_id} was recorded by reenact {record.reenact_version}, this is {__version__}; "
            "update reenact to replay it"
        )


def release(version: str) -> tuple[int, ...]:
    """Major and minor: between patches the rules are the same."""
    parts = version.split(".")[:2]
    return tuple(number for part in parts if (number := whole_number(part)) is not None)
