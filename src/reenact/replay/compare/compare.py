"""Two runs side by side: a verdict for each step and aspect, the first moment at which they part, content apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from reenact.replay.compare.behaviour import ASPECTS, ONLY_WHEN_SERVED, Aspect, Behaviour, Moment

Verdict = Literal["match", "mismatch", "undecided", "not compared"]


class Difference(Struct, frozen=True, kw_only=True):
    """One aspect of one step that differs: at which moment first, and what it comes to on both sides."""

    step_id: str
    aspect: Aspect
    when: str
    expected: object
    got: object
    total_expected: object
    total_got: object


class StepComparison(Struct, frozen=True, kw_only=True):
    step_id: str
    verdicts: dict[Aspect, Verdict]
    differences: tuple[Difference, ...]

    @property
    def matches(self) -> bool:
        return not self.differences


class Comparison(Struct, frozen=True, kw_only=True):
    """All steps. `first` is where the two runs part; what follows from there need not mean anything."""

    aspects: dict[Aspect, Verdict]
    steps: tuple[StepComparison, ...]
    first: Difference | None

    @property
    def matches(self) -> bool:
        return self.first is None

    @property
    def behavior_match(self) -> dict[str, bool]:
        """Aspect → whether it matched in every step, for those that were compared."""
        return {
            aspect: verdict == "match" for aspect, verdict in self.aspects.items() if verdict in ("match", "mismatch")
        }


MISSING = "no such step"


def compare(
    expected: Iterable[Behaviour],
    got: Iterable[Behaviour],
    *,
    served: bool = True,
    skip: Mapping[str, frozenset[Aspect]] | None = None,
) -> Comparison:
    """Hold what a replay did against what was recorded.

    `served` is False for live replays, where some aspects depend on live answers. `skip` names aspects of single steps
    that mean nothing: what a step that was not executed cost, for one.
    """
    left, right = {step.step_id: step for step in expected}, {step.step_id: step for step in got}
    out = frozenset() if served else ONLY_WHEN_SERVED
    steps = tuple(
        compare_step(step_id, left.get(step_id), right.get(step_id), out | (skip or {}).get(step_id, frozenset()))
        for step_id in ordered(left, right)
    )
    misplaced = order_difference(list(left), list(right))
    if misplaced is not None:
        steps = tuple(blame(step, misplaced) if step.step_id == misplaced.step_id else step for step in steps)
    return Comparison(aspects=over_all(steps, out), steps=steps, first=first_of(steps, left, right))


def compare_step(
    step_id: str, expected: Behaviour | None, got: Behaviour | None, skip: frozenset[Aspect]
) -> StepComparison:
    if expected is None or got is None:
        there = MISSING if expected is None else step_id, MISSING if got is None else step_id
        missing = Difference(
            step_id=step_id, aspect="step_ids", when="request", expected=there[0], got=there[1],
            total_expected=there[0], total_got=there[1],
        )  # fmt: skip
        verdicts: dict[Aspect, Verdict] = dict.fromkeys(ASPECTS, "undecided")
        verdicts["step_ids"] = "mismatch"
        return StepComparison(step_id=step_id, verdicts=verdicts, differences=(missing,))
    verdicts, differences = {}, []
    erased: frozenset[Aspect] = frozenset({"parameters"}) if expected.parameters is None else frozenset()
    for aspect in ASPECTS:
        if aspect in skip | erased:
            verdicts[aspect] = "not compared"
            continue
        difference = compare_aspect(aspect, expected, got)
        unknown = difference is None and not got.ended and len(got.of(aspect)) < len(expected.of(aspect))
        verdicts[aspect] = "mismatch" if difference is not None else ("undecided" if unknown else "match")
        if difference is not None:
            differences.append(difference)
    return StepComparison(step_id=step_id, verdicts=verdicts, differences=tuple(differences))


def compare_aspect(aspect: Aspect, expected: Behaviour, got: Behaviour) -> Difference | None:
    parted = part(expected.of(aspect), got.of(aspect), whole=got.ended)
    if parted is not None and aspect == "budget_stop" and nothing_stopped(parted):
        return None
    if parted is None:
        return None
    left, right = parted
    return Difference(
        step_id=expected.step_id,
        aspect=aspect,
        when=(left or right).when,  # type: ignore[union-attr]  # one of the two is there
        expected=None if left is None else left.value,
        got=None if right is None else right.value,
        total_expected=expected.value(aspect),
        total_got=got.value(aspect),
    )


def nothing_stopped(parted: tuple[Moment | None, Moment | None]) -> bool:
    """One side has more moments than the other, at which its budget did not stop it: that is another aspect's."""
    return None in parted and all(moment is None or moment.value is None for moment in parted)


def part(
    expected: Sequence[Moment], got: Sequence[Moment], *, whole: bool
) -> tuple[Moment | None, Moment | None] | None:
    """The first pair that differs. Where a replay stopped half-way (`whole` is False) its end says nothing."""
    for left, right in zip(expected, got, strict=False):
        if left != right:
            return left, right
    if len(got) > len(expected):
        return None, got[len(expected)]
    if whole and len(expected) > len(got):
        return expected[len(got)], None
    return None


def ordered(left: Mapping[str, Behaviour], right: Mapping[str, Behaviour]) -> list[str]:
    return [*left, *(step_id for step_id in right if step_id not in left)]


def order_difference(left: list[str], right: list[str]) -> Difference | None:
    """Steps that both runs made, in another order."""
    common_left = [step_id for step_id in left if step_id in right]
    common_right = [step_id for step_id in right if step_id in left]
    for expected, got in zip(common_left, common_right, strict=True):
        if expected != got:
            return Difference(
                step_id=expected, aspect="step_ids", when="request", expected=expected, got=got,
                total_expected=common_left, total_got=common_right,
            )  # fmt: skip
    return None


def blame(step: StepComparison, difference: Difference) -> StepComparison:
    verdicts: dict[Aspect, Verdict] = {**step.verdicts, difference.aspect: "mismatch"}
    return StepComparison(step_id=step.step_id, verdicts=verdicts, differences=(difference, *step.differences))


def over_all(steps: Sequence[StepComparison], out: frozenset[Aspect]) -> dict[Aspect, Verdict]:
    return {aspect: "not compared" if aspect in out else worst(steps, aspect) for aspect in ASPECTS}


def worst(steps: Sequence[StepComparison], aspect: Aspect) -> Verdict:
    seen = {step.verdicts[aspect] for step in steps}
    for verdict in ("mismatch", "undecided", "match"):
        if verdict in seen:
            return verdict
    return "not compared" if seen else "match"


def first_of(
    steps: Sequence[StepComparison], left: Mapping[str, Behaviour], right: Mapping[str, Behaviour]
) -> Difference | None:
    """Of the first step that differs, the aspect whose moment came first in its life."""
    for step in steps:
        if step.differences:
            return earliest(step, left.get(step.step_id), right.get(step.step_id))
    return None


def earliest(step: StepComparison, expected: Behaviour | None, got: Behaviour | None) -> Difference:
    by_aspect = {difference.aspect: difference for difference in step.differences}
    if expected is None or got is None:
        return step.differences[0]
    relevant = [
        [moment for moment in side.moments if step.verdicts.get(moment.aspect, "not compared") != "not compared"]
        for side in (expected, got)
    ]
    parted = part(relevant[0], relevant[1], whole=got.ended)
    for moment in parted or ():
        if moment is not None and moment.aspect in by_aspect:
            return by_aspect[moment.aspect]
    return step.differences[0]
