"""Every mutation of the written list is found, and blamed on the right step and aspect; and every check is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pytest

from reenact.replay.compare.behaviour import ASPECTS, ONLY_WHEN_LIVE, Aspect
from tests.replay.compare import mutations  # noqa: F401  # makes them
from tests.replay.compare.mutating import MUTATIONS, Mutation, crashed_recording, recording
from tests.replay.recording import mocked


def by_name(mutation: Mutation) -> str:
    return mutation.name


def blamed(mutation: Mutation) -> tuple[str, str] | None:
    """(step, aspect) of the first divergence; None where the replay matches."""
    result = mutation.replayed()
    if result.matches or result.divergence is None:
        return None
    difference = result.divergence.difference
    return difference.step_id, difference.aspect


@contextmanager
def switched_off(aspect: Aspect) -> Iterator[None]:
    """The comparison without one aspect; which steps there are, and their order, are checked apart from the rest."""
    others = tuple(name for name in ASPECTS if name != aspect)
    with ExitStack() as stack:
        stack.enter_context(patch("reenact.replay.compare.compare.ASPECTS", others))
        if aspect == "step_ids":
            common: Callable[..., list[str]] = lambda left, right: [step for step in left if step in right]  # noqa: E731
            stack.enter_context(patch("reenact.replay.compare.compare.ordered", common))
            stack.enter_context(patch("reenact.replay.compare.compare.order_difference", lambda *_: None))
        yield


def test_the_list_is_long_and_names_each_mutation_once() -> None:
    names = Counter(mutation.name for mutation in MUTATIONS)
    kinds = Counter(mutation.kind for mutation in MUTATIONS)

    assert max(names.values()) == 1
    assert len(names) >= 60
    assert min(kinds[kind] for kind in ("recording", "policy", "code")) >= 15
    assert {mutation.aspect for mutation in MUTATIONS} == {*ASPECTS} - ONLY_WHEN_LIVE


def test_without_a_mutation_nothing_is_blamed() -> None:
    assert mocked(recording()).matches
    assert mocked(crashed_recording()).matches


@pytest.mark.parametrize("mutation", MUTATIONS, ids=by_name)
def test_a_mutation_is_found_and_blamed_on_its_step_and_aspect(mutation: Mutation) -> None:
    assert blamed(mutation) == (mutation.step, mutation.aspect)


@pytest.mark.parametrize("aspect", ASPECTS)
def test_without_its_check_some_mutation_of_an_aspect_is_missed_or_blamed_elsewhere(aspect: Aspect) -> None:
    concerned = [mutation for mutation in MUTATIONS if mutation.aspect == aspect]
    with switched_off(aspect):
        wrong = [mutation.name for mutation in concerned if blamed(mutation) != (mutation.step, mutation.aspect)]

    assert wrong == [mutation.name for mutation in concerned]


def test_a_divergence_is_explained_with_the_nearest_recorded_call() -> None:
    explained = {mutation.name: mutation.replayed().divergence for mutation in MUTATIONS[:3]}

    for name, divergence in explained.items():
        assert divergence is not None, name
        assert divergence.nearest is not None
        assert divergence.nearest.step_id == divergence.difference.step_id
        assert divergence.difference.step_id in divergence.explanation
