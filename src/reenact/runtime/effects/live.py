"""The live source: the one place in Reenact that calls a skill."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

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
from reenact.skills.context import SILENT, Remarks, SkillContext, forbidden
from reenact.skills.plain import to_plain
from reenact.skills.skill import Skill
from reenact.store.encryption import KEY_VARIABLE
from reenact.values.clock import Clock, elapsed_ms

LOOK_S: Final = 0.01
POLL_S: Final = 0.02
"""How long a thread that was left is only looked at, and how often where its end is waited for."""


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
        keep_late: Callable[[AttemptCall, AttemptResult], bool] | None = None,
        place: str = "",
    ) -> None:
        self._clock = clock
        self._secrets = secrets
        self._services = dict(services or {})
        self._on_progress = on_progress
        self._threads = THREADS
        self._place = place
        """The store that its runs are in: ids are one store's own."""
        self._keep_late = keep_late
        """Makes durable what a thread gives that nobody waits for any more; whether that worked."""

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
        except BaseException as raised:  # noqa: BLE001  # whatever a skill raises is an outcome
            error = of_skill(raised)
        leave_if_forked(process)
        detach(error, ambient)
        return self._result(call, begun, output, error, still_running=still_running)

    def _opened(self, call: AttemptCall) -> dict[str, object]:
        """The parameters with secrets in their places."""
        parameters = unescape(call.parameters, self._secrets.get)
        assert isinstance(parameters, dict)
        return parameters

    async def left_behind(self, call: AttemptCall, wait: bool, /) -> AttemptResult | bool:  # noqa: FBT001
        """What came in the end of a call that was left here; `wait` no longer than the step may take."""
        live = DISPATCHES.get((self._place, call.trace_id))
        if live is None:
            return False
        if live.loop is not None and live.loop.is_closed():
            self._strike_off(live, call)
            return False
        live.is_wanted = True
        until = self._clock.monotonic() + (call.step.timeout_ms / 1000 if wait else LOOK_S)
        while not live.is_over:
            left = until - self._clock.monotonic()
            if left <= 0:
                return True
            await asyncio.sleep(min(left, POLL_S))
        self._strike_off(live, call)
        return live.result if live.result is not None else False

    def _result(
        self, call: AttemptCall, begun: Begun, output: object, error: BaseException | None, *, still_running: bool
    ) -> AttemptResult:
        """What an attempt came to. An exception that raises when it is asked what it is ends as one without a word."""
        ended_at, latency_ms = self._clock.timestamp(), max(0, int((self._clock.monotonic() - begun.at) * 1000))
        between = elapsed_ms(begun.started_at, ended_at)
        if -1 <= between - latency_ms <= 1:  # one thing is recorded, not two that part by a rounding
            latency_ms = between
        report = begun.ctx.close()
        if error is None and not still_running and report == SILENT:
            return AttemptResult(
                facts=NO_FACTS,
                started_at=begun.started_at,
                ended_at=ended_at,
                latency_ms=latency_ms,
                output=escape_encrypted_marks(output),
            )
        told = partial(self._described, call, begun, output, ended_at=ended_at, latency_ms=latency_ms, report=report)
        try:
            return told(error, still_running=still_running)
        except BaseException as raised:
            if error is None or (isinstance(raised, KeyboardInterrupt) and in_main_thread()):
                raise
            wordless = reports.Wordless(type(error).__name__)
            return told(wordless, still_running=still_running)

    def _described(
        self,
        call: AttemptCall,
        begun: Begun,
        output: object,
        error: BaseException | None,
        *,
        still_running: bool,
        ended_at: str,
        latency_ms: int,
        report: Remarks,
    ) -> AttemptResult:
        if report.refused is not None and not still_running:
            error = forbidden(*report.refused)
        if still_running:
            error = TimeoutError(f"no answer within {call.step.timeout_ms} ms; its thread still runs")
        return AttemptResult(
            facts=reports.facts(report, error, still_running=still_running),
            started_at=begun.started_at,
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
            utility=report.utility,
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
        except BaseException as raised:  # noqa: BLE001  # whatever went wrong, exits too: a person is asked, and told
            error = of_skill(raised)
            took_ms = int((self._clock.monotonic() - began) * 1000)
            return f"it raised {type(error).__name__}: {reports.describe(error, call.step.timeout_ms, took_ms)}"
        if not answer["done"]:
            return False
        report = ctx.close()
        return AttemptResult(
            facts=Facts(),
            started_at=started_at,
            ended_at=self._clock.timestamp(),
            latency_ms=max(0, int((self._clock.monotonic() - began) * 1000)),
            output=output,
            side_effects=reports.side_effects(report),
            utility=report.utility,
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
            return await self._in_loop(call_in_process(skill, ctx, parameters, limit_s), call, begun), False
        if skill.is_async:
            coroutine = within(skill.call_async(ctx, parameters), limit_s, skill.metadata.reference)
            return await self._in_loop(coroutine, call, begun), False
        live = DISPATCHES[self._place, call.trace_id] = Dispatch()
        work = partial(self._work, live, skill, call, begun, parameters)
        try:
            future = self._threads.run(work)
        except BaseException:  # as many threads as there may be: nothing of it has begun
            self._strike_off(live, call)
            raise
        try:
            done, _ = await asyncio.wait([future], timeout=limit_s)
        except asyncio.CancelledError:
            self._leave(live, call, begun)
            raise
        if not done and skill.metadata.in_doubt == "redispatch":
            self._strike_off(live, call)  # it has failed: what its thread may still say is nobody's
            future.cancel()
        elif not done:
            self._leave(live, call, begun)
        else:
            self._strike_off(live, call)
            return future.result(), False
        return None, True

    async def _in_loop(self, work: Coroutine[Any, Any, object], call: AttemptCall, begun: Begun) -> object:
        """What ends with its task. Until then whoever takes the run over waits for it; cut off, it gives nothing."""
        live = DISPATCHES[self._place, call.trace_id] = Dispatch(asyncio.get_running_loop())
        try:
            live.output = await work
        except BaseException as raised:
            live.error = raised
            raise
        finally:
            if live.is_wanted and not isinstance(live.error, asyncio.CancelledError | GeneratorExit):
                live.result = self._left_result(live, call, begun)
            live.is_over = True
            self._strike_off(live, call)
        return live.output

    def _work(
        self, live: Dispatch, skill: Skill, call: AttemptCall, begun: Begun, parameters: Mapping[str, object]
    ) -> object:
        """In the thread. Of one that was left the result is made durable here."""
        process = os.getpid()
        try:
            live.output = skill.call_sync(begun.ctx, parameters)
        except BaseException as raised:  # noqa: BLE001  # as in every thread of a skill
            live.error = raised
        leave_if_forked(process)
        with live.lock:
            if live.is_wanted and not live.is_left:  # by whoever took the run over from the one that waits for it
                live.result = self._left_result(live, call, begun)
            live.is_over = not live.is_left
        if not live.is_over:
            result = live.result = self._left_result(live, call, begun)
            if self._keep_late is not None and self._keep_late(call, result):
                self._strike_off(live, call)
            live.is_over = True
        if live.error is not None:
            raise live.error
        return live.output

    def _strike_off(self, live: Dispatch, call: AttemptCall) -> None:
        """Whoever took the run over may have done so before, and may have dispatched its next attempt since."""
        if DISPATCHES.get((self._place, call.trace_id)) is live:
            DISPATCHES.pop((self._place, call.trace_id), None)

    def _leave(self, live: Dispatch, call: AttemptCall, begun: Begun) -> None:
        """Nobody waits for it here any more: whoever goes on with its run asks what came of it."""
        with live.lock:
            live.is_left = True
        if live.is_over:
            live.result = self._left_result(live, call, begun)

    def _left_result(self, live: Dispatch, call: AttemptCall, begun: Begun) -> AttemptResult:
        return self._result(call, begun, live.output, live.error, still_running=False)


class Dispatch:
    """A call that runs in this process: in a thread of its own, or in a loop."""

    __slots__ = ("error", "is_left", "is_over", "is_wanted", "lock", "loop", "output", "result")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop
        """What runs in one that is closed never comes to an end."""
        self.lock = threading.Lock()
        self.is_left = False
        """Nobody waits for it any more."""
        self.is_over = False
        self.is_wanted = False
        """Another executor has asked for it."""
        self.output: object = None
        self.error: BaseException | None = None
        self.result: AttemptResult | None = None
        """Of one that was left, or is wanted, and is over."""


DISPATCHES: dict[tuple[str, str], Dispatch] = {}
"""By store and trace, the calls that this process makes: their run may be left, or taken over, and opened again."""
os.register_at_fork(after_in_child=DISPATCHES.clear)


def detach(error: BaseException | None, ambient: BaseException | None) -> None:
    """What our caller was handling when it called us is no cause of a skill's failure."""
    if ambient is None:
        return
    seen: set[int] = set()
    with suppress(Exception):  # one that raises when it is asked for its cause
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if error.__context__ is ambient:
                error.__context__ = None
            error = error.__cause__ or error.__context__


def in_main_thread() -> bool:
    """The only one in which an interrupt may be the user's."""
    return threading.current_thread() is threading.main_thread()


def of_skill(raised: BaseException) -> BaseException:
    """An interrupt in the main thread may be the user's, and goes through; anywhere else no signal raises one."""
    if issubclass(type(raised), KeyboardInterrupt):  # by its type: what it says of its class may raise
        if in_main_thread():
            raise raised
        return as_exception(raised)
    return raised


def being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
