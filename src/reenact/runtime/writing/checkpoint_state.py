"""State kept beside a run checkpoint, so that recovery reads nothing from before it.

Only what the arguments of calls tell, and so the lines do not: the duplicate gate, the pins of a session, the names of
its secrets. The gate's part is confirmed by the digest in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import msgspec

from reenact.contracts.plan_rules import Pins
from reenact.errors import ChecksumMismatch
from reenact.journal import frontier
from reenact.journal.run_fold import RunFold
from reenact.record.outcomes import outcome_of
from reenact.record.reader import RecordedStep, RunReader
from reenact.record.state import Recovered, restore
from reenact.record.trace import load_trace
from reenact.runtime.gates.duplicate import DuplicateGate, Success, touched
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Run
from reenact.store.base import Store


class KeptSuccess(msgspec.Struct, frozen=True, array_like=True):
    signature: bytes
    trace: bytes
    reads: list[str]


class KeptState(msgspec.Struct, frozen=True, kw_only=True):
    turn: int
    done: list[KeptSuccess]
    stale: list[str]
    """Calls under way whose success will not count."""
    pins: Pins | None = None
    secrets: list[str] = []


ENCODE = msgspec.msgpack.Encoder().encode
DECODE = msgspec.msgpack.Decoder(KeptState).decode


def encoded(gate: DuplicateGate, *, pins: Pins | None = None, secrets: frozenset[str] = frozenset()) -> bytes:
    return ENCODE(
        KeptState(
            turn=gate.turn,
            done=[
                KeptSuccess(bytes.fromhex(signature), UUID(success.trace_id).bytes, sorted(success.reads))
                for signature, success in gate.done.items()
            ],
            stale=gate.stale_traces(),
            pins=pins,
            secrets=sorted(secrets),
        )
    )


def put_back(gate: DuplicateGate, kept: KeptState) -> None:
    """What the gate knew at the checkpoint, if it was of the same turn."""
    if kept.turn == gate.turn:
        gate.done.update(
            {item.signature.hex(): Success(str(UUID(bytes=item.trace)), frozenset(item.reads)) for item in kept.done}
        )


def fresh_gate(run: Run, turn: int = 0) -> DuplicateGate:
    """The gate of a turn in which nothing was called yet."""
    return DuplicateGate(
        turn=turn,
        salt=run.plan.salt,
        with_output=run.gates.duplicate_output,
        recall=lambda trace_id: recorded_output(run, trace_id),
    )


def recorded_output(run: Run, trace_id: str) -> object:
    """What a call returned that has succeeded; None where that was erased."""
    row = run.store.trace(trace_id, run_id=run.run_id)
    assert row is not None, "the gate knows calls of its run alone"
    trace, commits = load_trace(run.store, row)
    return outcome_of(run.journal.book, trace, near=commits.get("tool_effect"))[1]


class PastCall(NamedTuple):
    """A recorded call, as the duplicate gate sees one."""

    step: PlannedStep
    parameters: dict[str, object]
    trace_id: str


@dataclass(frozen=True, slots=True)
class Past:
    """A run that goes on: what was kept at its last checkpoint, and its steps since then, or since the beginning."""

    recovered: Recovered
    kept: KeptState | None
    steps: list[RecordedStep]


def read_past(store: Store, run_id: str) -> Past:
    """Verified as `load_fold` does. A checkpoint beside which nothing was kept is passed over."""
    latest = store.latest_frontier(run_id)
    data = b"" if latest is None else frontier.kept_beside(latest[1])
    if latest is None or not data:
        return read_whole(store, run_id)
    n = latest[0]
    start = restore(store, run_id, n, latest[1])
    kept = confirmed(data, start.duplicates, f"run {run_id}, run checkpoint in commit {n}")
    before = start.requested - len(start.open)
    fold, steps = read_on(RunReader(store, run_id, start))
    return Past(Recovered(fold, n, fold.commits - n + 1, fold.requested - before), kept, steps)


def read_whole(store: Store, run_id: str, *, ahead: bool = False) -> Past:
    """From the first commit on; `ahead` for whoever will ask for most values of its steps."""
    reader = RunReader(store, run_id)
    if ahead:
        reader.payloads.read_ahead()
    fold, steps = read_on(reader)
    return Past(Recovered(fold, 0, fold.commits, fold.requested), None, steps)


def read_on(reader: RunReader) -> tuple[RunFold, list[RecordedStep]]:
    steps = list(reader.steps())
    reader.fold.on_finish = None  # from here on it is the writer's
    return reader.fold, steps


def remembered_gate(
    run: Run, turn: int, past: Past, step_of: Callable[[RecordedStep, dict[str, object]], PlannedStep]
) -> DuplicateGate:
    """What the gate of a turn knew when the run was interrupted."""
    gate = fresh_gate(run, turn)
    stale: set[str] = set()
    if past.kept is not None:
        put_back(gate, past.kept)
        stale.update(past.kept.stale)
    written: list[tuple[int, frozenset[str]]] = []
    for recorded in past.steps:
        parameters = run.journal.book.redactor.decrypt(recorded.parameters()) if recorded.finished else None
        if not isinstance(parameters, dict):
            continue
        outcome, trace_id = run.journal.book.redactor.decrypt_outcome(recorded.outcome()), recorded.trace.trace_id
        call = PastCall(step_of(recorded, parameters), parameters, trace_id)
        reads, writes = touched(call)
        begun, ended = (recorded.commits.get(part, 0) for part in ("supervisor_decision", "tool_effect"))
        was_stale = trace_id in stale or any(number >= begun and reads & names for number, names in written)
        if outcome.ok and writes:
            written.append((ended, writes))
            gate.forget(writes)
        if call.step.turn == turn and not was_stale:
            gate.record(call, outcome)
    return gate


def confirmed(data: bytes, duplicates: str, where: str) -> KeptState:
    try:
        kept = DECODE(data)
        gate = DuplicateGate(turn=kept.turn)
        put_back(gate, kept)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ChecksumMismatch(f"{where}: what was kept beside it cannot be read: {error}") from None
    if gate.digest() != duplicates:
        raise ChecksumMismatch(f"{where}: the duplicates that were kept beside it are not those that it names")
    return kept
