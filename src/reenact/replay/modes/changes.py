"""One thing changed in a recorded plan: values by path, a policy from a file, outputs that steps did not return."""

from __future__ import annotations

from collections.abc import Container, Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from reenact.contracts.plan import Context, plan_from_document
from reenact.errors import JsonSyntaxError, UsageError
from reenact.policy.cost import PriceTable
from reenact.record.recording import Recording
from reenact.replay.modes.mock import mock_replay
from reenact.skills.registry import Registry
from reenact.values.bounds import place_in
from reenact.values.canonical import as_recorded, parse_json

POLICY_FIELDS = tuple(name for name in Context.__struct_fields__ if name != "pins")


@dataclass(frozen=True, slots=True)
class Changes:
    """`document` is the changed plan, `outputs` what steps are said to have returned, by step id."""

    document: dict[str, object]
    outputs: dict[str, object] = field(default_factory=dict)


def apply_changes(
    recording: Recording, sets: Mapping[str, object], policy: Mapping[str, object] | None = None
) -> Changes:
    """The recorded plan with the changes in it; UsageError names a path that leads nowhere.

    Paths: `steps.STEP.parameters.url`, `context.budget_cents`, and `outputs.STEP.path` for what a step returned.
    """
    document = deepcopy(recording.document)
    outputs: dict[str, object] = {}
    if policy is not None:
        merge_policy(document, policy)
    for path, given in sets.items():
        value = as_recorded(given)
        head, _, rest = path.partition(".")
        if head == "outputs":
            change_output(recording, outputs, rest, value)
        elif head == "steps":
            step_id, inner = split_step(recording, rest)
            put(step_of(document, step_id), inner, value, path)
        elif head == "context" and not rest.startswith("pins"):
            put(context_of(document), rest, value, path)
        else:
            raise UsageError(f"--set {path}: a path begins with steps.STEP., context. or outputs.STEP.")
    plan_from_document(document, source="the changed plan")
    return Changes(document, outputs)


def merge_policy(document: dict[str, object], policy: Mapping[str, object]) -> None:
    context = context_of(document)
    for name, value in policy.items():
        if name not in POLICY_FIELDS:
            raise UsageError(f"a policy has no field {name!r}; it has {', '.join(POLICY_FIELDS)}")
        context[name] = value
    prices = policy.get("prices")
    if isinstance(prices, dict):
        pinned = context["pins"]
        assert isinstance(pinned, dict)
        rows = pinned["prices"]
        table = PriceTable.from_dict({key: rows[key] for key in ("models", "version")}).extended(prices)
        pinned["prices"] = {**rows, **table.to_dict()}


def change_output(recording: Recording, outputs: dict[str, object], path: str, value: object) -> None:
    step_id, inner = split_step(recording, path)
    if recording.steps[step_id].trace.state != "COMPLETED":
        raise UsageError(f"--set outputs.{path}: step {step_id} returned nothing in run {recording.run_id}")
    if not inner:
        outputs[step_id] = value
        return
    current = outputs.get(step_id, deepcopy(recording.output(step_id)))
    if not isinstance(current, dict | list):
        raise UsageError(f"--set outputs.{path}: step {step_id} returned no object or list")
    put(current, inner, value, f"outputs.{path}")
    outputs[step_id] = current


def split_step(recording: Recording, path: str) -> tuple[str, str]:
    """A step id may hold dots: the longest one that is known wins."""
    parts = path.split(".")
    known = {step.step_id for step in recording.plan.steps}
    for length in range(len(parts), 0, -1):
        step_id = ".".join(parts[:length])
        if step_id in known:
            return step_id, ".".join(parts[length:])
    raise UsageError(f"--set {path}: there is no such step; there are {', '.join(sorted(known))}")


def put(target: object, path: str, value: object, shown: str) -> None:
    """Set a value inside nested objects and lists; the last name may be new, the way to it may not."""
    names = path.split(".") if path else []
    if not names:
        raise UsageError(f"--set {shown}: say what to set in it")
    for name in names[:-1]:
        target = inside(target, name, shown)
    last = names[-1]
    if isinstance(target, dict):
        target[last] = value
    elif isinstance(target, list) and (place := place_in(target, last)) is not None:
        target[place] = value
    else:
        raise UsageError(f"--set {shown}: there is nothing to set {last!r} in")


def inside(target: object, name: str, shown: str) -> object:
    if isinstance(target, dict):
        return target.setdefault(name, {})
    if isinstance(target, list) and (place := place_in(target, name)) is not None:
        return target[place]
    raise UsageError(f"--set {shown}: there is no {name!r} on the way")


def step_of(document: dict[str, object], step_id: str) -> dict[str, object]:
    steps = document["steps"]
    assert isinstance(steps, list)
    found: dict[str, object] = next(step for step in steps if step["step_id"] == step_id)
    return found


def context_of(document: dict[str, object]) -> dict[str, object]:
    context = document["context"]
    assert isinstance(context, dict)
    return context


def parse_set(text: str) -> tuple[str, object]:
    """`path=value`: the value is JSON, or text where it is none."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UsageError(f"--set {text!r}: write path=value")
    try:
        return path, parse_json(value)
    except JsonSyntaxError:
        return path, value


async def refuse_earlier_effect(
    recording: Recording, registry: Registry, changed: Changes, served: Container[str], at: str
) -> None:
    """The steps before the fork must be as recorded, or what follows would not follow from the one change."""
    if changed.document == recording.document:
        return
    replayed = await mock_replay(recording, registry, document=changed.document)
    assert replayed.comparison is not None
    for step in replayed.comparison.steps:
        if step.step_id in served and step.differences:
            first = step.differences[0]
            raise UsageError(
                f"--at {at}: the change already takes effect in step {step.step_id} ({first.aspect}); "
                f"fork at {step.step_id} or earlier"
            )
