"""What an engine lends to a run: the live source of effects, the redactor, progress to listeners, and its consent."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial

from reenact.contracts.references import secret_names
from reenact.errors import ReenactError
from reenact.runtime.call.doubt import late_effect
from reenact.runtime.effects.live import LiveSource
from reenact.runtime.effects.source import AttemptCall, AttemptResult
from reenact.runtime.engine import Engine
from reenact.runtime.listeners import Notice, tell_all
from reenact.runtime.plans.pinning import loosened
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.writing.redaction import Redactor
from reenact.skills.services import FOLDERS_SERVICE, KV_SERVICE, STORE_FILES_SERVICE
from reenact.store.base import Store


def live_source(engine: Engine, plan: RunPlan) -> LiveSource:
    """Effects from the world, with what this engine lends to skills."""
    redactor = redactor_of(engine, plan)
    key_values = engine.store.key_values(plan.plan.agent_id, redactor.redact, redactor.opened)
    folders = engine.policy.for_sessions if plan.is_session else engine.policy.for_plans
    services = {
        **engine.services, KV_SERVICE: key_values, STORE_FILES_SERVICE: engine.store.files, FOLDERS_SERVICE: folders
    }  # fmt: skip
    secrets = engine.secrets if plan.is_session else engine.plan_secrets
    return LiveSource(
        engine.clock,
        secrets,
        services=services,
        on_progress=partial(tell_progress, engine),
        keep_late=partial(keep_late, engine.store, redactor),
        place=place_of(engine.store),
    )


def place_of(store: Store) -> str:
    """What tells a store from every other that this process has open, by whatever path; one in memory is its own."""
    if store.in_memory:
        return f"{store.url} {id(store)}"
    path = store.url.removeprefix("sqlite:///")
    return store.url if path == store.url else os.path.realpath(path)


def keep_late(store: Store, redactor: Redactor, call: AttemptCall, result: AttemptResult) -> bool:
    """What a thread gave that its caller had left, for whoever goes on with the run, in any process; False if not."""
    late = late_effect(store, redactor, (call.run_id, call.trace_id), call.attempt, result, call.step.redact_hints)
    try:
        store.add_late_effect(call.run_id, late)
    except (ReenactError, OSError):
        return False
    return True


def redactor_of(engine: Engine, plan: RunPlan, recorded_in: Store | None = None) -> Redactor:
    """What takes secrets out of values before they are written; it knows those that the plan names.

    `recorded_in` is the store of what is read with it, where that is another.
    """
    secrets = engine.secrets if plan.is_session else engine.plan_secrets
    secrets.learn(secret_names([step.parameters for step in plan.plan.steps]))
    return Redactor(
        engine.secrets, tuple(plan.plan.context.secret_fields), (recorded_in or engine.store).encryption_file
    )


def tell_progress(engine: Engine, run_id: str, step_id: str, message: str) -> None:
    """What a skill says on its way. It hears nothing of a listener that fails, and nothing of a closed pipe."""
    caller = engine.on_progress.get((run_id, step_id))
    if engine.listeners or caller is not None:
        shown = Redactor(engine.secrets).redact_text(message)
        notice = Notice(kind="progress", run_id=run_id, step_id=step_id, message=shown)
        told = engine.listeners if caller is None else (*engine.listeners, lambda _: caller(shown))
        with suppress(BrokenPipeError):
            tell_all(told, notice)


def forbidden_today(engine: Engine, plan: RunPlan) -> str | None:
    """Why a run that was begun goes no further under the host's policy; None where all of it is allowed."""
    why = engine.policy.forbids(plan.plan, engine.plan_secrets, is_session=plan.is_session)
    return why if why is not None or plan.is_session else loosened(plan.plan, engine.registry, engine.policy)
