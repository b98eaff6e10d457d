"""The behaviour of one step as a list of moments, in the order in which they were decided.

Comparing two such lists says not only that two runs differ but where they parted: the first moment that differs names
the aspect to blame. What stands in the list is what the field stability tables call deterministic, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Attempt
from reenact.contracts.stability import OUTCOME_FIELDS, DecisionView, field_of
from reenact.journal.fold import TraceFold
from reenact.record.reader import RecordedStep
from reenact.replay.compare.content import output_of
from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex

Aspect = Literal[
    "step_ids",
    "skill_id",
    "skill_version",
    "parameters",
    "budget_stop",
    "error_codes",
    "retry_count",
    "backoff_ms",
    "side_effects",
    "cost_cents",
    "retryable",
    "stable_fields",
    "status",
]

ASPECTS: Final[tuple[Aspect, ...]] = (
    "step_ids",
    "status",
    "error_codes",
    "retryable",
    "retry_count",
    "cost_cents",
    "side_effects",
    "budget_stop",
    "skill_id",
    "skill_version",
    "stable_fields",
    "backoff_ms",
    "parameters",
)

ONLY_WHEN_SERVED: Final[frozenset[Aspect]] = frozenset({"backoff_ms", "parameters"})
"""Live answers may bring another Retry-After or other values to refer to, so these are compared only in mock replay."""
ONLY_WHEN_LIVE: Final[frozenset[Aspect]] = frozenset({"stable_fields"})
"""What a skill promises of its output; a mock replay is served the output itself."""

ASPECT_OF_FIELD: Final[dict[str, Aspect]] = {
    "step_id": "step_ids",
    "status": "status",
    "code": "error_codes",
    "cost_cents": "cost_cents",
    "retryable": "retryable",
    "side_effects": "side_effects",
    "metadata.skill_id": "skill_id",
    "metadata.skill_version": "skill_version",
    "observability.backend_retries": "retry_count",
}
"""Every field of the outcome that the tables compare, and the aspect under which it is told."""


LEDGERS: Final = ("spent_exact", "day_spent_exact", "model_spent_exact")
FROM_OUTSIDE: Final = frozenset({"ERR_SECRET_UNAVAILABLE", "ERR_RATE_LIMIT_INTERNAL", "ERR_RATE_LIMIT_CONCURRENT"})
BY_SOMEBODY: Final = frozenset({"ERR_CANCELLED", "ERR_IN_DOUBT"})


class Moment(NamedTuple):
    """One thing that was decided: under which aspect it counts, when, and what."""

    aspect: Aspect
    when: str
    value: object


class Told(NamedTuple):
    """What came from outside and was decided on next: parameters, people, money spent so far, the facts of an attempt.

    Where this differs the world did; where all of it is the same and a moment differs, the runtime did.
    """

    value: object


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One step's moments, and what its aspects come to."""

    step_id: str
    index: int
    course: tuple[Moment | Told, ...]
    ended: bool
    parameters: object = None
    """For explanations only; the moments hold its digest."""

    @property
    def moments(self) -> tuple[Moment, ...]:
        return tuple(part for part in self.course if isinstance(part, Moment))

    def of(self, aspect: Aspect) -> tuple[Moment, ...]:
        return tuple(moment for moment in self.moments if moment.aspect == aspect)

    def value(self, aspect: Aspect) -> object:
        """The aspect in one value, as a report shows it."""
        values = [moment.value for moment in self.of(aspect)]
        if aspect == "error_codes":
            return values
        return values[-1] if values else None


def behaviour_of(step: RecordedStep, *, exact: bool = True, stable_fields: Sequence[str] = ()) -> Behaviour:
    """The step's behaviour. `exact` keeps every attempt's cost; a live replay is held to the sum in cents.

    `stable_fields` are those that the step's skill declares to be the same for the same parameters.
    """
    trace = step.trace
    outcome = step.outcome() if trace.terminal else None
    parameters = step.parameters()
    course = (
        *requested(trace, parameters),
        *decided(trace),
        *dispatched(trace, outcome, exact=exact),
        *(() if outcome is None else ended(outcome)),
        *promised(step, outcome, stable_fields),
    )
    return Behaviour(step.step_id, trace.step_index, course, trace.terminal, parameters)


def requested(trace: TraceFold, parameters: object) -> Iterator[Moment | Told]:
    shown = None if parameters is None else sha256_hex(canonicalize(parameters))[:16]
    yield Told(shown)
    yield Moment("step_ids", "request", trace.step_id)
    yield Moment("skill_id", "request", trace.meta("skill_id"))
    yield Moment("skill_version", "request", trace.meta("skill_version"))
    yield Moment("parameters", "request", shown)


def decided(trace: TraceFold) -> Iterator[Moment | Told]:
    if trace.decision is None or not isinstance(trace.decision.meta, dict):
        return
    meta = trace.decision.meta
    refused = trace.decision.decision == "DENY"
    by_budget = refused and meta.get("gate") == "budget"
    yield Told(told_at_gates(meta, refused=refused))
    yield Moment("budget_stop", "gates", stopped_at_gate(meta) if by_budget else None)
    yield Moment("error_codes", "gates", meta.get("code"))


def told_at_gates(meta: Mapping[str, object], *, refused: bool) -> list[object]:
    """The no of a person or a function, whether the key answered, what the host did not have, and the ledgers."""
    gate, code = meta.get("gate"), meta.get("code")
    from_outside = gate in ("supervisor", "key") or code in FROM_OUTSIDE
    return [gate == "key", code if refused and from_outside else None, *(meta.get(key) for key in LEDGERS)]


def stopped_at_gate(meta: Mapping[str, object]) -> dict[str, object]:
    return {key: meta.get(key) for key in ("limit_exact", "required_exact", "spent_exact")}


def dispatched(trace: TraceFold, outcome: StructuredOutcome | None, *, exact: bool) -> Iterator[Moment | Told]:
    for record in trace.attempts:
        if record.kind == "lost":
            continue  # no attempt that was made: what came of it decides
        when = f"attempt {record.attempt}"
        yield Told((record.kind, record.facts, record.retry_after_ms))
        if record.kind != "attempt":
            yield Moment("retry_count", when, record.kind)
            if exact:
                yield Moment("cost_cents", when, record.cost_exact)
            continue
        yield Moment("error_codes", when, record.code)
        if exact:
            yield Moment("cost_cents", when, record.cost_exact)
        yield Moment("side_effects", when, [[effect.type, effect.target] for effect in record.side_effects])
        yield from retried(trace, record, outcome)


def retried(trace: TraceFold, record: Attempt, outcome: StructuredOutcome | None) -> Iterator[Moment]:
    when = f"after attempt {record.attempt}"
    last = record.ordinal == len(trace.attempts) - 1
    by_budget = last and outcome is not None and outcome.code == "ERR_BUDGET_EXCEEDED" and record.backoff_ms is not None
    yield Moment("budget_stop", when, "no money for another attempt" if by_budget else None)
    yield Moment("retry_count", when, "tried again" if record.backoff_ms is not None else "last attempt")
    if record.backoff_ms is not None:
        yield Moment("backoff_ms", when, record.backoff_ms)


def ended(outcome: StructuredOutcome) -> Iterator[Moment | Told]:
    """The outcome's own fields, through a view that has no other."""
    yield Told(outcome.code if outcome.code in BY_SOMEBODY else None)
    view = DecisionView(outcome)
    for row in OUTCOME_FIELDS:
        if row.affects_replay_assertion == "YES":
            yield Moment(ASPECT_OF_FIELD[row.field], "end", plain(look_up(view, row.field)))


def promised(step: RecordedStep, outcome: StructuredOutcome | None, fields: Sequence[str]) -> Iterator[Moment]:
    """The fields of a result that its skill declares to be stable, each as a digest."""
    if outcome is not None and outcome.ok and fields:
        output = output_of(step)
        for field in fields:
            yield Moment("stable_fields", field, sha256_hex(canonicalize(field_of(output, field)))[:16])


def look_up(view: DecisionView, path: str) -> object:
    value: object = view
    for name in path.split("."):
        assert isinstance(value, DecisionView)
        value = value[name]
    return value


def plain(value: object) -> object:
    """Side effects as [type, target]; everything else is plain already."""
    if isinstance(value, tuple):
        return [[effect["type"], effect["target"]] for effect in value]
    return value
