"""Sessions: an agent loop makes its plan as it goes, and every call goes through the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Event, EventType, RunStatus
from reenact.errors import ConcurrentExecution, UsageError
from reenact.runtime.call import begin, unrecorded
from reenact.runtime.call.call import Call
from reenact.runtime.call.dispatch import make_durable
from reenact.runtime.call.doubt import keep_late
from reenact.runtime.call.drive import drive
from reenact.runtime.engine import Engine
from reenact.runtime.parked import Parked
from reenact.runtime.run import Run
from reenact.runtime.session import checks, closing, history, messages, settling
from reenact.runtime.session.arguments import (
    StepNames,
    check_arguments,
    check_commands,
    is_recordable,
    no_tool,
    spoken_parameters,
)
from reenact.runtime.session.plan import Document
from reenact.runtime.writing.checkpoint_state import fresh_gate


class Session:
    """One run of an agent loop. `call` never raises for a tool's failure; what it returns is durable."""

    def __init__(self, engine: Engine, run: Run) -> None:
        self._engine = engine
        self._run = run
        self._plan = history.session_plan(run)
        self._finished = False
        self._confidence: float | None = None
        self._passed_before = 0
        self._in_flight: dict[str, tuple[asyncio.Future[None], asyncio.Task[object] | None]] = {}
        """Until when each call is under way, and in whose task."""
        self._names = StepNames(lambda: run.store.step_ids(run.run_id) if run.journal.fold.requested else ())
        self._tools: dict[str, int] = {}
        """Names that can be recorded as they are, by what was known of secrets when that was looked at."""
        self._closing = False
        self._left = False

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def spent_exact(self) -> int:
        """Picodollars charged so far."""
        return self._run.journal.fold.spent_exact

    async def call(
        self,
        skill_id: str,
        parameters: Mapping[str, object] | None = None,
        *,
        version: str | None = None,
        step_id: str | None = None,
        idempotency_key: str | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> StructuredOutcome:
        """Call a tool. `secrets` binds JSON pointers in the parameters to names; all else is taken literally.

        A tool that nobody knows and parameters that it cannot take are outcomes, whatever a model made of them;
        UsageError is for what only the host says.
        """
        self._check_open()
        call = self._begun(
            skill_id,
            parameters,
            version=version,
            step_id=step_id,
            idempotency_key=idempotency_key,
            secrets=dict(secrets or {}),
        )
        try:
            return await self._driven(call)
        except Parked as parked:
            raise settling.as_waiting(parked, self.run_id, call.step.step_id) from None

    async def _driven(self, call: Call) -> StructuredOutcome:
        """The outcome of a call, durable. While this goes on the call is nobody else's."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        driven, trace_id = self._engine.committer.driven, call.trace.trace_id
        if self._in_flight:
            driven.add(trace_id)
        self._in_flight[trace_id] = (ended, asyncio.current_task())
        try:
            outcome = await drive(call)
            await make_durable(call)
        except ConcurrentExecution:
            keep_late(self._run)
            raise
        finally:
            del self._in_flight[trace_id]
            driven.discard(trace_id)
            ended.set_result(None)
        return self._handed_over(call, outcome)

    def _handed_over(self, call: Call, outcome: StructuredOutcome) -> StructuredOutcome:
        """The outcome as the caller gets it: without the host's secrets, and with a remark where it is not durable."""
        marked = unrecorded.marked(call, outcome) if self._run.unrecorded.why else outcome
        return self._run.journal.book.redactor.hide_known(marked)

    def _begun(
        self,
        skill_id: str,
        parameters: object,
        *,
        version: str | None,
        step_id: str | None,
        idempotency_key: str | None,
        secrets: dict[str, str],
    ) -> Call:
        """The call with its request staged; where this raises, nothing is. It takes the next index: there is no gap."""
        check_arguments(version, step_id, idempotency_key, secrets)
        run, plan = self._run, self._plan
        index = run.journal.fold.requested
        name = f"c{index + 1}" if step_id is None else self._given_name(step_id, index)
        if secrets:
            self._engine.secrets.learn(secrets.values())
            plan.secret_names.update(secrets.values())
        recordable = spoken_parameters(parameters, secrets)
        secrets_known = len(self._engine.secrets.seen)
        if not isinstance(skill_id, str) or self._tools.get(skill_id) != secrets_known:
            if is_recordable(skill_id, self._is_writable):
                self._tools[skill_id] = secrets_known
            else:
                skill_id, version, recordable = no_tool(skill_id, recordable)
        step = plan.planned(
            index=index,
            step_id=name,
            skill_id=skill_id,
            version=version,
            parameters=recordable,
            turn=run.journal.fold.turn,
            caller_key=idempotency_key,
        )
        call = begin.begin(run, step)
        if step_id is not None:
            self._names.take(name)
        return call

    def _given_name(self, step_id: str, index: int) -> str:
        name = self._names.given(step_id, index)
        if not self._is_writable(name):
            raise UsageError("the name of a step looks like a secret, and names are written as they are")
        return name

    def _is_writable(self, name: str) -> bool:
        """Names stand in the chain as they are."""
        return self._run.journal.book.redactor.redact_text(name) == name

    async def turn(self) -> int:
        """Begin a new turn: what was called before no longer counts as a duplicate. Gives the turn's number."""
        self._check_open()
        self._event("turn", None)
        turn = self._run.journal.fold.turn
        self._run.gates.duplicates = fresh_gate(self._run, turn)
        await self._run.journal.flush()
        return turn

    async def verify(self, commands: Sequence[str], *, timeout_s: float = 600) -> list[int]:
        """Run commands that check the work, and record their exit codes. Gives the codes."""
        self._check_open()
        check_commands(commands, timeout_s)
        codes = await checks.run_commands(list(commands), self._plan.context, timeout_s)
        passed = sum(code == 0 for code in codes)
        delta, self._passed_before = passed - self._passed_before, passed
        data = {"commands": list(commands), "exit_codes": codes, "verification_delta": delta}
        self._event("verify", self._run.journal.book.put(data)[0])
        await self._run.journal.flush()
        return codes

    def finish(self, *, confidence: float | None = None) -> None:
        """Say how sure the agent is of its work; the session ends with the block, and nothing is called any more."""
        if confidence is not None and not 0.0 <= confidence <= 1.0:
            raise UsageError("confidence is a number from 0 to 1")
        self._confidence = confidence
        self._finished = True

    async def history(self, *, style: str = "openai") -> list[Document]:
        """The calls and results so far as messages that a model API accepts: `openai` or `anthropic`."""
        return messages.messages_of(self._run, style)

    async def settle(self) -> list[StructuredOutcome]:
        """Drive to their end the calls that an earlier process left open, and those that waited for a person.

        Raises WaitingForPerson, after all others, where one cannot go on yet.
        """
        self._check_inside()
        settling.hear(self._run)
        left_open = list(self._run.journal.fold.open.values())
        return await settling.settle(self._run, left_open, self._driven, self._in_flight)

    async def settle_voted(self) -> list[StructuredOutcome]:
        """Drive the calls that a person has approved or denied meanwhile. One that was sent is no longer about that."""
        settling.hear(self._run)
        return await settling.settle(self._run, settling.voted(self._run), self._driven, self._in_flight)

    @property
    def waiting(self) -> list[str]:
        """Ids of the calls that wait for a person. Where nobody is asked, an undecided call was given up on."""
        return settling.waiting(self._run)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def quiet(self) -> None:
        """Until no call is under way. Whoever leaves a block while tasks of his still call waits for what they get."""
        while self._in_flight:
            await asyncio.wait([ended for ended, _ in self._in_flight.values()])

    def cancel_calls(self) -> None:
        """Cancel what is under way in other tasks."""
        for _, task in self._in_flight.values():
            if task is not None and task is not asyncio.current_task():
                task.cancel()

    async def close(self) -> RunStatus:
        """Assemble the plan, seal the run. A call that was given up on ends as in doubt: a seal leaves none open."""
        self._closing = True
        await self.quiet()
        said: Document | None = {"confidence": self._confidence} if self._finished else None
        return await closing.close(self._run, said)

    def _event(self, kind: EventType, data: str | None) -> None:
        ts = self._run.clock.timestamp()
        self._run.journal.event(Event(data=data, reason=None, trace_id=None, ts=ts, type=kind, who=None))

    def leave(self) -> None:
        """The lease is given back: whoever takes it next would not know of a call that is made from here on."""
        self._left = True

    def _check_inside(self) -> None:
        if self._left:
            raise UsageError(f"the block of session {self.run_id} has ended; open it again with resume=…")

    def _check_open(self) -> None:
        if self._closing or self._run.journal.fold.seal is not None:
            raise UsageError(f"session {self.run_id} has ended; open a new one")
        self._check_inside()
        if self._finished:
            raise UsageError("finish() was the last word of this session: say it after the last call")
