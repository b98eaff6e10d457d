"""What the gates of one run remember: calls of this turn, external calls, who is asked for approval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reenact.policy.ceiling import Ceiling
from reenact.runtime.effects.source import EffectSource
from reenact.runtime.gates import external, permission
from reenact.runtime.gates.duplicate import DuplicateGate
from reenact.runtime.gates.external import ExternalCalls
from reenact.runtime.gates.supervisor import Supervision, SupervisorFunction, load_supervisor
from reenact.runtime.host_policy import HostPolicy
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.writing.writer import RunWriter


@dataclass(slots=True)
class Gates:
    """One for each run; see `order.ask` for the order in which they are asked."""

    limits_agent: bool
    """Whether the plan says what this agent may call: else there is no permission to ask for."""
    external: ExternalCalls | None
    supervision: Supervision
    duplicates: DuplicateGate | None = None
    """Of the turn that the run has come to; None where repeating is allowed."""
    duplicate_output: bool = False
    """Whether a denied duplicate is handed the earlier output."""
    decided_by: Callable[[str, Callable[[Ceiling], bool]], str] = lambda _key, _refuses: ""
    """What a refusal says besides, where the host's policy has a key by which it refuses too."""


def gates_of(
    plan: RunPlan,
    journal: RunWriter,
    source: EffectSource,
    host: SupervisorFunction | None,
    limit_s: float,
    policy: HostPolicy,
) -> Gates:
    """Those of a run that is opened, by what its plan limits; `host` is asked besides whom the plan names."""
    context = plan.plan.context
    return Gates(
        permission.limits(context),
        external.limit(context, journal.fold, plan),
        Supervision(context.supervisor, named_supervisor(plan, journal, source), host, limit_s),
        decided_by=partial(policy.decided_by, is_session=plan.is_session),
    )


def named_supervisor(
    plan: RunPlan, journal: RunWriter, source: EffectSource
) -> Callable[[], SupervisorFunction | None]:
    """How the function that the plan names is loaded: for a new run at once, so that it is refused without it.

    Where everything is served nobody is asked, and no code is loaded.
    """
    if source.is_served_whole():
        return lambda: None
    load = partial(load_supervisor, plan.plan.context.supervisor)
    if journal.lease is not None:
        return load
    found = load()
    return lambda: found
