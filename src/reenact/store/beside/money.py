"""What an agent may still spend on a day: what is set apart for its calls in flight, and whether a limit is passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from reenact.errors import FundsTaken
from reenact.policy.budget import over_limit
from reenact.store.base import Earmark
from reenact.store.owner import owner_is_gone


def by_model(rows: Iterable[tuple[str, int, str | None, str]], besides: Collection[str]) -> dict[str, int]:
    """Picodollars by model, of (model, picodollars, owner, trace): without those whose owner is gone, or of `besides`.

    Those without an owner count.
    """
    found: Counter[str] = Counter()
    gone: dict[str, bool] = {}
    for model, exact, owner, trace_id in rows:
        if trace_id in besides:
            continue
        if owner is not None and owner not in gone:
            gone[owner] = owner_is_gone(owner)
        if owner is None or not gone[owner]:
            found[model] += exact
    return dict(found)


def refuse_over_limit(earmark: Earmark, spent: Mapping[str, int], apart: Mapping[str, int]) -> None:
    """FundsTaken where a limit would be passed, by what was spent and what is set apart for others."""
    totals = Counter(spent)
    totals.update(apart)
    reason = over_limit("day", earmark.day_limit, sum(totals.values()), earmark.exact) or over_limit(
        "model", earmark.model_limit, totals[earmark.model], earmark.exact
    )
    if reason is not None:
        raise FundsTaken(reason)
