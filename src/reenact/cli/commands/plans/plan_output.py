"""Output of `plan` and `pin`: the pinned plan in a file or on stdout, or one line that says why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from reenact.cli.screens.printing import say, say_json

if TYPE_CHECKING:
    from reenact.planners.planner import Planner, PlannerError
    from reenact.skills.registry import Registry

Document = dict[str, Any]


def pinned_plan(made: Document, registry: Registry, planner_id: str) -> Document:
    """The plan with everything pinned, and no secret in it."""
    from reenact.runtime.effects.secrets import Secrets
    from reenact.runtime.plans.pinning import pin_document
    from reenact.runtime.plans.plan_secrets import refuse_secrets
    from reenact.values.clock import SystemClock

    clock = SystemClock()
    source = f"the plan of {planner_id}"
    pinned = pin_document({"created_at": clock.timestamp(), **made}, registry, clock, source=source)
    refuse_secrets(*pinned, registry, Secrets(), source=source)
    return pinned.document


def print_plan(document: Document, output: Path | None, *, as_json: bool, planner: Planner | None = None) -> None:
    """A pinned plan, in a file or on stdout, with its hash; and who made it, where somebody did."""
    import msgspec

    from reenact.cli.screens.printing import print_json
    from reenact.contracts.plan import plan_hash

    digest = plan_hash(document)
    text = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    if output is not None:
        write(output, text)
    if as_json:
        maker = {} if planner is None else {"planner": maker_of(planner)}
        print_json({"plan_hash": digest, "output": None if output is None else str(output), **maker, "plan": document})
    elif output is None:
        say_json(text.decode(), nl=False)
        say(digest, err=True)
    else:
        say(f"{output} {digest}")


def write(path: Path, data: bytes) -> None:
    from reenact.errors import StoreUnavailable

    try:
        path.write_bytes(data)
    except OSError as error:
        raise StoreUnavailable(f"{path}: cannot be written: {error.strerror}") from None


def maker_of(planner: Planner) -> Document:
    import msgspec

    return {
        "planner_id": planner.planner_id,
        "version": planner.version,
        "determinism": planner.determinism,
        "usage": msgspec.to_builtins(getattr(planner, "usage", None)),
    }


def warn_of_unpriced(document: Document) -> None:
    for model in unpriced(document):
        say(f"no price is known for {model}: put one into the plan's context.prices, or it is refused", err=True)


def unpriced(document: Document) -> list[str]:
    """Models that the steps ask and that have no price in the pins."""
    from reenact.contracts.plan import plan_from_document
    from reenact.policy.settle import tariff

    plan, _ = plan_from_document(document)
    assert plan.context.pins is not None
    prices = plan.context.pins.prices
    asked = set()
    for step in plan.steps:
        rate = tariff(prices, f"{step.skill_id}@{step.skill_version}", step.parameters)
        if rate.by_tokens and rate.model is not None and "{{" not in rate.model:
            asked.add(rate.model)
    return sorted(asked - set(prices.models))


def refuse(error: PlannerError, *, as_json: bool) -> NoReturn:
    import msgspec

    from reenact.cli.exits import FAILED
    from reenact.cli.screens.printing import one_line, print_json, say

    if as_json:
        print_json({"error": {**msgspec.to_builtins(error), "retryable": error.retryable}})
    say(f"error: {one_line(error.message)} [{error.code}]", err=True)
    raise typer.Exit(FAILED)
