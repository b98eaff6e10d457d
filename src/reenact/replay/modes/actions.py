"""What a full replay does with each step: execute it, skip it, or check that its effect still stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, cast, get_args

from reenact.contracts.skill import SkillMetadata
from reenact.errors import UsageError
from reenact.policy.repeat import fate_unknown
from reenact.record.recording import Recording
from reenact.runtime.plans.steps import RunPlan

Action = Literal["execute", "skip", "check"]
CLASSES: Final = ("read", "write")
DONE_OR_NOT: Final = frozenset({"ERR_IN_DOUBT", "ERR_SERIALIZATION_FAILED", "ERR_SCHEMA_MISMATCH", "ERR_CANCELLED"})
"""A write that ended with one of them may well have been made."""
DEFAULTS: Final[dict[str, Action]] = {"read": "execute", "write": "skip"}


def choose_actions(
    recording: Recording,
    plan: RunPlan,
    *,
    execute: Iterable[str] = (),
    skip: Iterable[str] = (),
    check: Iterable[str] = (),
    retry_failed: bool = False,
) -> dict[str, Action]:
    """Step id → action. Names are step ids or the classes `read` and `write`; a step's own name goes before its class.

    Writes are skipped unless a step is named: nobody repeats all writes of a run by one word. `retry_failed` repeats
    none: it skips what succeeded, and makes what failed or was never reached.
    """
    chosen: dict[str, Action] = {}
    asked: tuple[tuple[Action, Iterable[str]], ...] = (("execute", execute), ("skip", skip), ("check", check))
    for action, names in asked:
        for name in names:
            if name in chosen:
                raise UsageError(f"{name} is asked for as {chosen[name]} and as {action}; choose one")
            chosen[name] = action
    known = {*CLASSES, *(step.step_id for step in plan.plan.steps)}
    for name in chosen:
        if name not in known:
            raise UsageError(f"there is no step {name!r} in run {recording.run_id}; it has {', '.join(plan.index)}")
    if chosen.get("write") == "execute":
        raise UsageError("writes are executed again by the name of their step only; name each one")
    defaults = retried(recording, plan, chosen) if retry_failed else {}
    actions: dict[str, Action] = {}
    for index, step in enumerate(plan.plan.steps):
        kind = class_of(recording, plan, index)
        actions[step.step_id] = (
            chosen.get(step.step_id) or chosen.get(kind) or defaults.get(step.step_id) or DEFAULTS[kind]
        )
    refuse_uncheckable(plan, actions)
    return actions


def retried(recording: Recording, plan: RunPlan, chosen: Mapping[str, Action]) -> dict[str, Action]:
    """What succeeded is skipped, all else is executed; a write that may have been done must be named."""
    failed = [step.step_id for step in plan.plan.steps if not has_succeeded(recording, step.step_id)]
    if not failed:
        raise UsageError(f"nothing in run {recording.run_id} failed: there is nothing to retry")
    for step_id in failed:
        kind = class_of(recording, plan, plan.index[step_id])
        if kind == "write" and step_id not in chosen and kind not in chosen:
            refuse_in_doubt(recording, step_id)
    return {step.step_id: "execute" if step.step_id in failed else "skip" for step in plan.plan.steps}


def has_succeeded(recording: Recording, step_id: str) -> bool:
    """Also a call that was left out since an equal one had succeeded."""
    step = recording.steps.get(step_id)
    return step is not None and step.trace.terminal and step.outcome().status != "failure"


def refuse_in_doubt(recording: Recording, step_id: str) -> None:
    """A write that may have been done is repeated only by its name: under another key it may be two."""
    step = recording.steps.get(step_id)
    if step is None or step.trace.call is None:
        return
    made = recording.results(step_id)
    lost = bool(made) and made[-1].facts is not None and fate_unknown(str(made[-1].code), made[-1].facts)
    if lost or not step.trace.terminal or step.outcome().code in DONE_OR_NOT:
        raise UsageError(
            f"step {step_id} writes, and may have been done although it failed; find out, then name it: "
            f"--execute {step_id} makes it again, --skip {step_id} leaves it failed"
        )


def class_of(recording: Recording, plan: RunPlan, index: int) -> str:
    """As recorded; for a step that the recorded run did not reach, as its skill declares it."""
    step = plan.step(index)
    trace = recording.trace(step.step_id)
    if trace is not None and trace.call is not None:
        return "read" if trace.call.tool_class == "read" else "write"
    return step.tool_class(step.parameters)


def refuse_uncheckable(plan: RunPlan, actions: Mapping[str, Action]) -> None:
    for step_id, action in actions.items():
        step = plan.step(plan.index[step_id])
        if action == "check" and (step.skill is None or step.skill.reconcile is None):
            raise UsageError(
                f"step {step_id} cannot be checked: {step.reference} declares no read-back "
                '(in_doubt="reconcile"); skip it, or execute it by name'
            )


def parse_actions(value: object) -> dict[str, Action]:
    """Actions as a replay's journal keeps them."""
    if not isinstance(value, dict) or not all(action in get_args(Action) for action in value.values()):
        raise UsageError("the replay's journal does not say what to do with each step")
    return cast("dict[str, Action]", value)


def declared(plan: RunPlan, actions: dict[str, Action]) -> dict[str, SkillMetadata]:
    """Of the steps that are executed: what their skills say of what they return."""
    steps = (plan.step(plan.index[step_id]) for step_id, action in actions.items() if action == "execute")
    return {step.step_id: step.skill.metadata for step in steps if step.skill is not None}
