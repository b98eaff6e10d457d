"""Two runs side by side, aspect by aspect and value by value."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from reenact.record.reader import RecordedStep
from reenact.record.recording import Recording
from reenact.replay.breakers import Breaker, find_breakers
from reenact.replay.compare.behaviour import ASPECTS, Aspect, Behaviour, behaviour_of
from reenact.replay.compare.compare import Comparison, compare
from reenact.replay.compare.content import differing
from reenact.values.bounds import place_in
from reenact.values.canonical import canonicalize

MOST_VALUES = 50


class ValueDifference(Struct, frozen=True, kw_only=True):
    """One value that is not the same; None for one that a side does not have."""

    step_id: str
    where: str
    left: object
    right: object


class Row(Struct, frozen=True, kw_only=True):
    """One step on both sides."""

    step_id: str
    left: dict[Aspect, object] | None
    right: dict[Aspect, object] | None
    differs_in: tuple[Aspect, ...]


class SideBySide(Struct, frozen=True, kw_only=True):
    left: str
    right: str
    rows: tuple[Row, ...]
    comparison: Comparison
    values: tuple[ValueDifference, ...]
    plans: tuple[Breaker, ...]

    @property
    def same(self) -> bool:
        return self.comparison.matches


def side_by_side(left: Recording, right: Recording) -> SideBySide:
    """Behaviour decides whether two runs are the same; values and plans are listed beside it."""
    ours = {step.step_id: behaviour_of(step) for step in left.steps.values()}
    theirs = {step.step_id: behaviour_of(step) for step in right.steps.values()}
    comparison = compare(ours.values(), theirs.values())
    rows = tuple(
        Row(
            step_id=step.step_id,
            left=summary(ours.get(step.step_id)),
            right=summary(theirs.get(step.step_id)),
            differs_in=tuple(difference.aspect for difference in step.differences),
        )
        for step in comparison.steps
    )
    return SideBySide(
        left=left.run_id,
        right=right.run_id,
        rows=rows,
        comparison=comparison,
        values=tuple(values(left, right)),
        plans=tuple(find_breakers(left.document, right.document, None)),
    )


def summary(behaviour: Behaviour | None) -> dict[Aspect, object] | None:
    return None if behaviour is None else {aspect: behaviour.value(aspect) for aspect in ASPECTS}


def values(left: Recording, right: Recording) -> Iterator[ValueDifference]:
    """Parameters and outputs of steps that both runs made."""
    for step_id, ours in left.steps.items():
        theirs = right.steps.get(step_id)
        if theirs is not None:
            yield from value_pairs(step_id, "parameters", ours.parameters(), theirs.parameters())
            yield from value_pairs(step_id, "output", output(left, ours), output(right, theirs))


def output(recording: Recording, step: RecordedStep) -> object:
    return recording.output(step.step_id)


def value_pairs(step_id: str, name: str, left: object, right: object) -> Iterator[ValueDifference]:
    for count, pointer in enumerate(differing(left, right, "")):
        if count == MOST_VALUES:
            return
        yield ValueDifference(
            step_id=step_id, where=f"{name}{pointer}", left=at(left, pointer), right=at(right, pointer)
        )  # fmt: skip


def at(value: object, pointer: str) -> object:
    for name in pointer.split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and (place := place_in(value, key)) is not None:
            value = value[place]
        else:
            return None
    return value


def text_lines(sides: SideBySide) -> Iterator[str]:
    yield f"{sides.left} | {sides.right}: {'same behaviour' if sides.same else 'they differ'}"
    for breaker in sides.plans:
        yield f"  plan: {breaker.message}"
    for row in sides.rows:
        if not row.differs_in:
            yield f"  {row.step_id}: same"
            continue
        yield f"  {row.step_id}:"
        for aspect in row.differs_in:
            pair = [None if side is None else side.get(aspect) for side in (row.left, row.right)]
            yield f"    {aspect}: {shown(pair[0])} | {shown(pair[1])}"
    for difference in sides.values:
        yield f"  value {difference.step_id} {difference.where}: {shown(difference.left)} | {shown(difference.right)}"


def shown(value: object) -> str:
    text = canonicalize(value).decode()
    return text if len(text) <= 200 else text[:200] + "…"
