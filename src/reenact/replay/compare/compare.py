"""Two runs side by side: a verdict for each step and aspect, the first moment at which they part, content apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from reenact.replay.compare.behaviour import (
    ASPECTS,
    ONLY_WHEN_LIVE,
    ONLY_WHEN_SERVED,
    Aspect,
    Behaviour,
    Moment,
    Told,
)

Verdict = Literal["match", "mismatch", "undecided", "not compared"]
Cause = Literal["world", "runtime"]
"""Of a difference: the world answered otherwise, or the runtime decided otherwise on the same answers."""


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
    cause: Cause | None = None
    """Of the first of them."""

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
    def cause(self) -> Cause | None:
        """The runtime wherever it decided otherwise by itself; the world where that alone differed."""
        causes = {step.cause for step in self.steps}
        return "runtime" if "runtime" in causes else "world" if "world" in causes else None

    @property
    def behavior_match(self) -> dict[str, bool]:
        """Aspect → whether it matched in every step, for those that were compared."""
        return {
            aspect: verdict == "match" for aspect, verdict in self.aspects.items() if verdict in ("match", "mismatch")
        }


MISSING = "no such step"
LEFT_OUT: Final = "not compared"


def compare(
    expected: Iterable[Behaviour],
    got: Iterable[Behaviour],
    *,
    served: bool = True,
    skip: Mapping[str, frozenset[Aspect]] | None = None,
    cut_short: bool = False,
) -> Comparison:
    """Hold what a replay did against what was recorded.

    `served` is False for live replays, where some aspects depend on live answers. `skip` names aspects of single steps
    that mean nothing: what a step that was not executed cost, for one.

    What differs where all is served is the runtime's doing. `cut_short` where somebody cancelled one of the two: then a
    step that only one of them has is not.
    """
    left, right = {step.step_id: step for step in expected}, {step.step_id: step for step in got}
    out = ONLY_WHEN_LIVE if served else ONLY_WHEN_SERVED
    steps = tuple(
        compare_step(step_id, left.get(step_id), right.get(step_id), out | (skip or {}).get(step_id, frozenset()))
        for step_id in ordered(left, right)
    )
    misplaced = order_difference(list(left), list(right))
    if misplaced is not None:
        steps = tuple(blame(step, misplaced) if step.step_id == misplaced.step_id else step for step in steps)
    steps = tuple(with_causes(steps, left, right, served=served, cut_short=cut_short))
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
    skip |= without_ground(expected, got)
    for aspect in ASPECTS:
        if aspect in skip:
            verdicts[aspect] = "not compared"
            continue
        difference = compare_aspect(aspect, expected, got)
        unknown = difference is None and not got.ended and len(got.of(aspect)) < len(expected.of(aspect))
        verdicts[aspect] = "mismatch" if difference is not None else ("undecided" if unknown else "match")
        if difference is not None:
            differences.append(difference)
    return StepComparison(step_id=step_id, verdicts=verdicts, differences=tuple(differences))


def without_ground(expected: Behaviour, got: Behaviour) -> frozenset[Aspect]:
    """What cannot be compared: erased parameters; a promise where there is none, or that holds for other parameters."""
    no_promise = not (expected.of("stable_fields") and got.of("stable_fields"))
    if no_promise or expected.of("parameters") != got.of("parameters"):
        return frozenset({"stable_fields", "parameters"} if expected.parameters is None else {"stable_fields"})
    return frozenset({"parameters"} if expected.parameters is None else ())


def with_causes(
    steps: Sequence[StepComparison],
    left: Mapping[str, Behaviour],
    right: Mapping[str, Behaviour],
    *,
    served: bool,
    cut_short: bool,
) -> Iterator[StepComparison]:
    """Each step that differs with the cause of it. What a gate sees of earlier steps follows from them."""
    world = False
    for step in steps:
        if not step.differences:
            yield step
            continue
        told, at_gates = first_parting(step, left.get(step.step_id), right.get(step.step_id))
        one_sided = step.step_id not in left or step.step_id not in right
        by_world = not served and (told or (world and at_gates) or (cut_short and one_sided))
        world = world or by_world
        yield replace(step, cause="world" if by_world else "runtime")


def first_parting(step: StepComparison, expected: Behaviour | None, got: Behaviour | None) -> tuple[bool, bool]:
    """(the two were told something else first, they part before any attempt)."""
    if expected is None or got is None:
        return False, True
    sides = [
        [part for part in side.course if isinstance(part, Told) or step.verdicts.get(part.aspect, LEFT_OUT) != LEFT_OUT]
        for side in (expected, got)
    ]
    for ours, theirs in zip_longest(*sides):
        if ours != theirs:
            parted = (ours, theirs)
            at_gates = any(isinstance(part, Moment) and part.when in ("request", "gates") for part in parted)
            return any(isinstance(part, Told) for part in parted), at_gates
    return False, True  # the order of steps alone


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
        [moment for moment in side.moments if step.verdicts.get(moment.aspect, LEFT_OUT) != LEFT_OUT]
        for side in (expected, got)
    ]
    parted = part(relevant[0], relevant[1], whole=got.ended)
    for moment in parted or ():
        if moment is not None and moment.aspect in by_aspect:
            return by_aspect[moment.aspect]
    return step.differences[0]
