"""The live source: the one place in Reenact that calls a skill."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from reenact.contracts.facts import Facts
from reenact.contracts.references import SCALARS, escape_encrypted_marks, has_encrypted, secret_names, unescape
from reenact.errors import SecretError
from reenact.policy.hosts import hosts_of
from reenact.runtime.effects import reports
from reenact.runtime.effects.coroutines import within
from reenact.runtime.effects.processes import call_in_process
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.effects.source import NO_FACTS, SAME, AttemptCall, AttemptResult, EffectSource
from reenact.runtime.effects.threads import THREADS, as_exception, leave_if_forked
from reenact.runtime.gates.permission import refuse_hosts
from reenact.runtime.plans.steps import PlannedStep
from reenact.skills.context import SILENT, SkillContext
from reenact.skills.plain import to_plain
from reenact.skills.skill import Skill
from reenact.store.encryption import KEY_VARIABLE
from reenact.values.clock import Clock


class Begun(NamedTuple):
    """A dispatch under way."""

    ctx: SkillContext
    started_at: str
    at: float
    """On the monotonic clock."""


class LiveSource(EffectSource):
    """Effects from the world."""

    def __init__(
        self,
        clock: Clock,
        secrets: Secrets,
        *,
        services: Mapping[str, object] | None = None,
        on_progress: Callable[[str, str, str], None] | None = None,
    ) -> None:
        self._clock = clock
        self._secrets = secrets
        self._services = dict(services or {})
        self._on_progress = on_progress
        self._threads = THREADS
        self._left: dict[str, tuple[asyncio.Future[Any], Begun]] = {}
        """Calls of a trace that their caller gave up on while their thread ran."""

    def is_live(self, _step: PlannedStep, /) -> bool:
        return True

    def missing_secret(self, _step: PlannedStep, parameters: dict[str, object], /) -> str | None:
        for name in secret_names(parameters):
            try:
                self._secrets.get(name)
            except SecretError:
                return name
        return KEY_VARIABLE if has_encrypted(parameters) else None

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        skill = call.step.skill
        assert skill is not None, "a call without its skill is refused by the gates"
        flat = call.plain and SCALARS.issuperset(map(type, call.parameters.values()))
        parameters = dict(call.parameters) if flat else self._opened(call)  # its own, whatever it does to them
        ambient, process = sys.exc_info()[1], os.getpid()
        begun = Begun(self._context(call), self._clock.timestamp(), self._clock.monotonic())
        output: object = None
        error: BaseException | None = None
        still_running = False
        try:
            hosts = hosts_of(call.context) if "profile" in call.context else None
            if hosts is not None:
                refuse_hosts(parameters, hosts, partial(skill.metadata.argument, parameters=parameters))
            output, still_running = await self._call(skill, call, begun, parameters)
        except asyncio.CancelledError as cancelled:
            if being_cancelled():
                raise
            error = cancelled
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # noqa: BLE001  # whatever a skill raises is an outcome
            error = raised
        leave_if_forked(process)
        detach(error, ambient)
        return self._result(call, begun, output, error, still_running=still_running)

    def _opened(self, call: AttemptCall) -> dict[str, object]:
        """The parameters with secrets in their places."""
        parameters = unescape(call.parameters, self._secrets.get)
        assert isinstance(parameters, dict)
        return parameters

    async def left_behind(self, call: AttemptCall, wait: bool, /) -> AttemptResult | bool:  # noqa: FBT001
        """What came in the end of a call whose thread was left; `wait` no longer than the step may take."""
        future, begun = self._left.get(call.trace_id, (None, None))
        if call.trace_id in THREADS_LEFT:
            thread, begun = THREADS_LEFT[call.trace_id]
            future = asyncio.wrap_future(thread)
        if future is None or begun is None or future.get_loop() is not asyncio.get_running_loop():
            return False
        done, _ = await asyncio.wait([future], timeout=call.step.timeout_ms / 1000 if wait else 0.01)
        if not done:
            return True
        self._left.pop(call.trace_id, None)
        THREADS_LEFT.pop(call.trace_id, None)
        error = future.exception()
        return self._result(call, begun, None if error else future.result(), error, still_running=False)

    def _result(
        self, call: AttemptCall, begun: Begun, output: object, error: BaseException | None, *, still_running: bool
    ) -> AttemptResult:
        ended_at, latency_ms = self._clock.timestamp(), max(0, int((self._clock.monotonic() - begun.at) * 1000))
        report, started_at = begun.ctx.close(), begun.started_at
        if error is None and not still_running and report == SILENT:
            output = escape_encrypted_marks(output)
            return AttemptResult(
                facts=NO_FACTS, started_at=started_at, ended_at=ended_at, latency_ms=latency_ms, output=output
            )
        if still_running:
            error = TimeoutError(f"no answer within {call.step.timeout_ms} ms; its thread still runs")
        return AttemptResult(
            facts=reports.facts(report, error, still_running=still_running),
            started_at=started_at,
            ended_at=ended_at,
            latency_ms=latency_ms,
            output=escape_encrypted_marks(output) if error is None else None,
            response=escape_encrypted_marks(reports.plain(report.raw_response)) if report.has_raw_response else SAME,
            side_effects=reports.side_effects(report),
            request_id=None if report.request_id is None else reports.text(report.request_id),
            retry_after_ms=reports.whole(report.retry_after_ms),
            message=None if error is None else reports.describe(error, call.step.timeout_ms, latency_ms),
            details=reports.details_of(error),
            unsure=call.step.skill is not None and reports.is_unsure(error, call.step.skill.function),
        )

    async def reconcile(self, call: AttemptCall) -> AttemptResult | bool | str:
        """The hook says {"done": True, "output": …}, {"done": False}, or None; a hook that fails has not told."""
        skill = call.step.skill
        assert skill is not None
        hook = skill.reconcile
        assert hook is not None
        parameters = self._opened(call)
        ctx = self._context(call)
        started_at, began = self._clock.timestamp(), self._clock.monotonic()
        try:
            answer = await self._ask(hook, ctx, skill.bind(parameters), call.step.timeout_ms / 1000)
            if answer is None:
                return ""
            if not isinstance(answer, dict) or not isinstance(answer.get("done"), bool):
                return 'it answers {"done": True, "output": …}, {"done": False} or None, and this was none of them'
            output = escape_encrypted_marks(to_plain(answer.get("output")))
        except asyncio.CancelledError:
            if being_cancelled():
                raise
            return "it was cancelled"
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever went wrong, exits too: a person is asked, and told
            took_ms = int((self._clock.monotonic() - began) * 1000)
            return f"it raised {type(error).__name__}: {reports.describe(error, call.step.timeout_ms, took_ms)}"
        if not answer["done"]:
            return False
        return AttemptResult(
            facts=Facts(),
            started_at=started_at,
            ended_at=self._clock.timestamp(),
            latency_ms=max(0, int((self._clock.monotonic() - began) * 1000)),
            output=output,
            side_effects=reports.side_effects(ctx.close()),
        )

    async def _ask(
        self, hook: Callable[..., object], ctx: SkillContext, parameters: Mapping[str, object], limit_s: float
    ) -> object:
        if inspect.iscoroutinefunction(hook):
            return await within(hook(ctx, **parameters), limit_s, getattr(hook, "__qualname__", "its read-back"))
        return await asyncio.wait_for(self._threads.run(lambda: hook(ctx, **parameters)), limit_s)

    def _context(self, call: AttemptCall) -> SkillContext:
        tell = self._on_progress
        step_id = call.step.step_id
        return SkillContext(
            run_id=call.run_id,
            step_id=step_id,
            trace_id=call.trace_id,
            idempotency_key=call.idempotency_key,
            attempt=call.attempt,
            timeout_ms=call.step.timeout_ms,
            original_run_id=call.original_run_id,
            clock=self._clock,
            context=call.context,
            services=self._services,
            on_progress=None if tell is None else (lambda message: tell(call.run_id, step_id, message)),
        )

    async def _call(
        self, skill: Skill, call: AttemptCall, begun: Begun, parameters: Mapping[str, object]
    ) -> tuple[object, bool]:
        """(output, whether its thread still runs). Timeouts count on the monotonic clock of the loop."""
        ctx, limit_s = begun.ctx, call.step.timeout_ms / 1000
        if skill.metadata.isolation == "process":
            return await call_in_process(skill, ctx, parameters, limit_s), False
        if skill.is_async:
            return await within(skill.call_async(ctx, parameters), limit_s, skill.metadata.reference), False
        if skill.metadata.in_doubt != "redispatch":
            return await self._call_once(skill, call, begun, parameters)
        future = self._threads.run(lambda: skill.call_sync(ctx, parameters))
        try:
            done, _ = await asyncio.wait([future], timeout=limit_s)
        except asyncio.CancelledError:
            self._left[call.trace_id] = (future, begun)
            raise
        if not done:
            future.cancel()  # what it may still raise is nobody's, and no log's
            return None, True
        return future.result(), False

    async def _call_once(
        self, skill: Skill, call: AttemptCall, begun: Begun, parameters: Mapping[str, object]
    ) -> tuple[object, bool]:
        """The same for what is not sent twice: what its thread gives in the end may settle the doubt."""
        kept: Future[object] = Future()

        def work() -> None:
            try:
                kept.set_result(skill.call_sync(begun.ctx, parameters))
            except BaseException as error:  # noqa: BLE001  # as in every thread of a skill
                kept.set_exception(as_exception(error))

        ended = self._threads.run(work)
        THREADS_LEFT[call.trace_id] = (kept, begun)
        done, _ = await asyncio.wait([ended], timeout=call.step.timeout_ms / 1000)
        if not done:
            return None, True
        del THREADS_LEFT[call.trace_id]
        return kept.result(), False


THREADS_LEFT: dict[str, tuple[Future[object], Begun]] = {}
"""By trace, calls that are not sent twice, while their thread runs: their run may be left, and opened again here."""
os.register_at_fork(after_in_child=THREADS_LEFT.clear)


def detach(error: BaseException | None, ambient: BaseException | None) -> None:
    """What our caller was handling when it called us is no cause of a skill's failure."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if ambient is not None and error.__context__ is ambient:
            error.__context__ = None
        error = error.__cause__ or error.__context__


def being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
