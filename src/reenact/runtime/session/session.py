"""Sessions: an agent loop makes its plan as it goes, and every call goes through the journal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import RunStatus
from reenact.errors import ConcurrentExecution, Diverged, RunEnded, UsageError, WaitingForPerson
from reenact.runtime.call import begin, unrecorded
from reenact.runtime.call.call import Call
from reenact.runtime.call.dispatch import make_durable
from reenact.runtime.call.doubt import keep_late
from reenact.runtime.call.drive import drive
from reenact.runtime.engine import Engine
from reenact.runtime.parked import Lost, Parked
from reenact.runtime.run import Run
from reenact.runtime.session import closing, history, models, settling
from reenact.runtime.session.answering.answers import Answers, Asked, Ended, RecordedCall, Unanswered
from reenact.runtime.session.answering.told import Told
from reenact.runtime.session.arguments import (
    StepNames,
    Whereabouts,
    check_arguments,
    check_commands,
    is_recordable,
    no_tool,
    refuse_in_tool,
    refuse_place,
    spoken_parameters,
)
from reenact.runtime.session.foreign import ForeignTools


class Session(ForeignTools):
    """One run of an agent loop. `call` never raises for a tool's failure; what it returns is durable.

    A session with an id has the `answers` of its record: what is asked for again is answered from there. Where it has
    ended there is no run, and nothing new is made.
    """

    def __init__(self, engine: Engine, run: Run | Ended, answers: Answers | None = None) -> None:
        self._engine, self._at = engine, run
        self._answers = answers
        self._plan = run.plan if isinstance(run, Ended) else history.session_plan(run)
        self.fork: Callable[[Diverged], Awaitable[None]] | None = None
        """Goes on as another run, where the host wants that; else a program that diverged is stopped."""
        self.no_fork = asyncio.Event()
        """Cleared while it goes on as another run: no call begins meanwhile."""
        self.no_fork.set()
        self.by_threads = False
        """Whether threads call it, through its synchronous front, which then says which answers they have."""
        self.taken: Callable[[str], None] = (lambda _: None) if answers is None else answers.taken
        self._confidence: float | None = None
        self._in_flight: dict[str, tuple[asyncio.Future[None], asyncio.Task[object] | None]] = {}
        """Until when each call is under way, and in whose task."""
        self._names = StepNames(self._earlier_names)
        self._tools: dict[str, int] = {}
        """Names that can be recorded as they are, by what was known of secrets when that was looked at."""
        self._told = Told(lambda: self._run, self._plan, answers, self._another_way)
        self._unsettled: dict[str, RecordedCall] = {}
        """By name, calls of the record that the program went on without."""
        self._unanswered = None if answers is None else Unanswered(answers.lanes, engine.clock)
        self._redactor = run.redactor if isinstance(run, Ended) else run.journal.book.redactor
        self._placing = threading.Lock()
        self._finished = self._closing = self._left = False
        self.where = Whereabouts(self._in_flight)

    @property
    def _run(self) -> Run:
        """The run that is gone on with; RunEnded where there is none."""
        if isinstance(self._at, Ended):
            how = "it only answers what it recorded; what is new needs a session with another id"
            raise RunEnded(f"session {self.run_id} has ended ({self._at.status}): {how}")
        return self._at

    @property
    def run_id(self) -> str:
        return self._at.run_id

    @property
    def spent_exact(self) -> int:
        """Picodollars charged so far; where it continues another run, there too."""
        charged = self._at.spent_exact if isinstance(self._at, Ended) else self._at.journal.fold.spent_exact
        return self._plan.carried_exact + charged

    @property
    def answers(self) -> bool:
        """Whether it has a record to answer from."""
        return self._answers is not None

    async def call(
        self,
        skill_id: str,
        parameters: Mapping[str, object] | None = None,
        *,
        version: str | None = None,
        step_id: str | None = None,
        idempotency_key: str | None = None,
        secrets: Mapping[str, str] | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> StructuredOutcome:
        """Call a tool. `secrets` binds JSON pointers in the parameters to names; all else is taken literally.

        A tool that nobody knows and parameters that it cannot take are outcomes, whatever a model made of them;
        UsageError is for what only the host says. In a session with an id, a call that is recorded under this name is
        answered from the record, and Diverged is raised where the record has something else. `on_progress` hears what
        the skill says on its way, such as the pieces of a streamed answer.
        """
        asked = self.ask(skill_id, parameters, version, step_id, idempotency_key, dict(secrets or {}))
        return await self.answer(asked, on_progress=on_progress)

    def tools(self, skill_ids: Iterable[str] | None = None, *, style: str = "openai") -> list[dict[str, object]]:
        """Skills as the tools that a model is offered: those of these ids, else all that are not built in."""
        return models.offered(self._plan.registry, skill_ids, style)

    async def call_tool(
        self,
        tool_call: object,
        *,
        step_id: str | None = None,
        idempotency_key: str | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> StructuredOutcome:
        """Call what a model asks for: a tool call of `llm_invoke`'s, OpenAI's or Anthropic's form."""
        skill_id, parameters = models.asked_for(self._plan.registry, tool_call)
        return await self.call(skill_id, parameters, step_id=step_id, idempotency_key=idempotency_key, secrets=secrets)

    def ask(
        self,
        skill_id: str,
        parameters: object,
        version: str | None,
        step_id: str | None,
        key: str | None,
        secrets: dict[str, str],
    ) -> Asked:
        """What is asked for, as it would be recorded, with its place; where this raises, nothing has happened."""
        self._check_open()
        check_arguments(version, step_id, key, secrets)
        if self._answers is not None:
            refuse_in_tool(self.run_id)
        if secrets:
            self._engine.secrets.learn(secrets.values())
            self._plan.secret_names.update(secrets.values())
        recordable = spoken_parameters(parameters, secrets)
        secrets_known = len(self._engine.secrets.seen)
        if not isinstance(skill_id, str) or self._tools.get(skill_id) != secrets_known:
            if is_recordable(skill_id, self._is_writable):
                self._tools[skill_id] = secrets_known
            else:
                skill_id, version, recordable = no_tool(skill_id, recordable)
        asked = Asked(None, 0, step_id, skill_id, version, recordable, key)
        return asked if self._answers is None else self._placed(asked, self._answers)

    def _placed(self, asked: Asked, answers: Answers) -> Asked:
        if asked.name is not None:
            refuse_place(asked.name)
        skill = self._plan.find(asked.skill_id, asked.version)
        hints = () if skill is None else skill.metadata.redact
        with self._placing:
            lane = answers.lanes.current
            lane.calls += 1
            return asked._replace(lane=lane, place=lane.calls, hints=hints)

    def answer_at_once(self, asked: Asked) -> StructuredOutcome | RecordedCall | None:
        """What the record answers without waiting for anybody; the recorded call where that is open."""
        return None if self._answers is None else self._answers.answer_at_once(asked)

    async def answer(
        self, asked: Asked, found: RecordedCall | None = None, *, on_progress: Callable[[str], None] | None = None
    ) -> StructuredOutcome:
        """What the record says, else what comes of the call that is made."""
        if self._answers is not None and found is None:
            found = await self._find(self._answers, asked)
        if asked.skill is not None:
            self._plan.take(asked.skill)
        if found is not None:
            return await self._found(found, asked)
        if self._unanswered is not None and self._unanswered.calls:
            await self._unanswered.record(self._run, asked.lane)
        call = await self._run.searched(self._begun, asked)
        if on_progress is not None:
            self._engine.on_progress[call.run.run_id, call.step.step_id] = on_progress
        try:
            return await self._driven(call)
        except Lost as lost:
            return self._handed_over(call, lost.outcome)
        except Parked as parked:
            told = settling.as_waiting(parked, self._run.store, self.run_id, call.step.step_id)
            self._without_answer(call, asked, told)
            raise told from None
        except asyncio.CancelledError as cancelled:
            self._without_answer(call, asked, cancelled)
            raise
        finally:
            if on_progress is not None:
                del self._engine.on_progress[call.run.run_id, call.step.step_id]

    async def _found(self, found: RecordedCall, asked: Asked) -> StructuredOutcome:
        """What the record has, in its turn; where its caller went on without an answer, as it was then."""
        if self._answers is not None:
            await self._answers.turns.wait(found, by_threads=self.by_threads)
        found.is_driven_on = found.went_on is not None or not found.is_finished
        if found.went_on is not None and self._unanswered is not None:
            self._unsettled[found.name] = found
            await self._unanswered.as_it_went(found.trace, found.went_on, asked.lane)
            del self._unsettled[found.name]
        if found.is_finished:
            return await self._recorded_answer(found, asked)
        try:
            return await self._open_call(found)
        except (asyncio.CancelledError, WaitingForPerson) as stopped:
            self._without_answer(found, asked, stopped)
            raise

    def _without_answer(self, call: Call | RecordedCall, asked: Asked, why: BaseException) -> None:
        """Its caller gave up on it, or is told to wait: should that one go on, it is recorded first."""
        if self._unanswered is not None and not isinstance(self._at, Ended):
            self._unanswered.keep(self.run_id, call.trace, asked.lane, why)

    async def _find(self, answers: Answers, asked: Asked) -> RecordedCall | None:
        """In the record. A program that goes another way is stopped, or goes on as another run."""
        while True:
            await self.no_fork.wait()
            try:
                found = await answers.find(asked, by_threads=self.by_threads)
            except Diverged as diverged:
                await self._another_way(diverged)
                continue
            if found is None:
                await answers.before_new(asked, by_threads=self.by_threads)
            if found is not None or self.no_fork.is_set():
                return found

    async def _another_way(self, diverged: Diverged) -> None:
        """The program goes on as another run, where its host wants that and may; else it is stopped."""
        assert self._answers is not None, "it alone says so"
        if self.fork is not None:
            with suppress(Diverged):  # this one, where it leaves behind what was not accepted
                return await self.fork(diverged)
        self.fork = None
        self._answers.stop(diverged)
        raise diverged

    async def _recorded_answer(self, found: RecordedCall, asked: Asked) -> StructuredOutcome:
        """What its first caller got; in a test, if today's tool is still the one that was recorded."""
        if isinstance(self._at, Ended) and self._at.check is not None:
            try:
                await self._at.check(found, asked)
            except Diverged as diverged:
                await self._another_way(diverged)
        return found.answer()

    def go_on_in(self, run: Run) -> None:
        """What is new from here on is of this run."""
        plan = history.session_plan(run)
        plan.registry = self._plan.registry  # with what was added
        self._at, self._plan = run, plan

    async def _open_call(self, found: RecordedCall) -> StructuredOutcome:
        """A call that an earlier process left open is driven on, as its skill says."""
        trace_id = found.trace.trace_id
        while trace_id in self._in_flight:  # somebody settles it
            await asyncio.shield(self._in_flight[trace_id][0])
        if found.is_finished:
            return found.answer()
        if found.trace.state == "EXECUTING" and not self._is_ours(trace_id):
            return found.left_behind()
        settling.hear(self._run)
        return await settling.answer_open(self._run, found.trace, self._driven)

    def _is_ours(self, trace_id: str) -> bool:
        """Whether an open call may still be ended here: not one of a run that has ended, or that another continues."""
        return not isinstance(self._at, Ended) and trace_id in self._at.journal.fold.open

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

    def _begun(self, asked: Asked) -> Call:
        """The call with its request staged; where this raises, nothing is. It takes the next index: there is no gap."""
        run = self._run
        index = run.journal.fold.requested
        if asked.lane is not None and self._answers is not None:
            name = self._given_name(asked.name, index) if asked.name is not None else self._answers.new_name(asked)
        else:
            name = f"c{index + 1}" if asked.name is None else self._given_name(asked.name, index)
        step = self._plan.planned(
            index=index,
            step_id=name,
            skill_id=asked.skill_id,
            version=asked.version if asked.skill is None else asked.skill.version,
            parameters=asked.parameters,
            turn=run.journal.fold.turn,
            caller_key=asked.key,
            lane=asked.lane.path if asked.lane is not None and asked.name is not None else None,
        )
        call = begin.begin(run, step)
        self._plan.record_pins(run)
        if asked.name is not None:
            self._names.take(name)
        if self._answers is not None:
            self._answers.made[name] = None
        return call

    def _given_name(self, step_id: str, index: int) -> str:
        name = self._names.given(step_id, index)
        if not self._is_writable(name):
            raise UsageError("the name of a step looks like a secret, and names are written as they are")
        return name

    def _earlier_names(self) -> Iterable[str]:
        run = self._run
        return run.store.step_ids(run.run_id) if run.journal.fold.requested else ()

    def _is_writable(self, name: str) -> bool:
        """Names stand in the chain as they are."""
        return self._redactor.is_name(name)

    # -- lanes, turns, checks, times -----------------------------------------------------------------------------------

    def lane(self, name: str) -> AbstractContextManager[str]:
        """`with session.lane("researcher"):` names the calls inside by a strand of their own, tasks and threads too."""
        if self._answers is None:
            raise UsageError('lanes name the calls of a session that has an id: runtime.session(id="…")')
        return self._answers.lanes.open(name)

    async def turn(self) -> int:
        """Begin a new turn: what was called before no longer counts as a duplicate. Gives the turn's number."""
        self._check_open()
        return await self._told.turn()

    async def verify(self, commands: Sequence[str], *, timeout_s: float = 600) -> list[int]:
        """Run commands that check the work, and record their exit codes. Gives the codes."""
        self._check_open()
        check_commands(commands, timeout_s)
        if self._unanswered is not None and self._unanswered.calls:
            await self._unanswered.told(self._run)
        return await self._told.verify(list(commands), timeout_s)

    def now(self) -> datetime:
        """The time, in UTC; a program that is started again gets the time that it got here before."""
        self._check_open()
        return self._told.now()

    async def told_now(self) -> datetime:
        return self.now()  # for a thread that is not the loop's

    def random(self) -> float:
        """In [0, 1); the same draws in the same order for a program that is started again."""
        return self._told.random()

    def uuid(self) -> str:
        """A random UUID (version 4); the same ones in the same order for a program that is started again."""
        return self._told.uuid()

    def account_for(self, names: Iterable[str]) -> None:
        """The host has a history of its own and knows of these calls: they need not be asked for again."""
        if self._answers is None:
            raise UsageError('account_for is about the record of a session that has an id: runtime.session(id="…")')
        self._answers.account_for(names)

    def finish(self, *, confidence: float | None = None) -> None:
        """Say how sure the agent is of its work; the session ends with the block, and nothing is called any more."""
        if confidence is not None and not 0.0 <= confidence <= 1.0:
            raise UsageError("confidence is a number from 0 to 1")
        self._confidence = confidence
        self._finished = True

    async def history(self, *, style: str = "openai") -> list[dict[str, object]]:
        """The calls and results so far as messages that a model API accepts: `openai` or `anthropic`.

        Not the conversation: what users and models said is not in it, nor which call a model asked for.
        """
        return models.messages_of(self._engine.store, self.run_id, self._redactor, style)

    async def conversation(self, *, style: str | None = None) -> list[dict[str, object]]:
        """The last request to a model, its answer and the results of the calls that it asked for, to be sent on.

        Rebuilt from the record, in the form in which it was sent unless a `style` is given. Empty before the first.
        In a session with an id it is that of the lane, as far as the program has come.
        """
        if self._unanswered is not None and self._unanswered.calls and not self._left:
            await self._unanswered.told(self._run)
        record = models.CallsSoFar(self._engine.store, self.run_id, self._answers, self._redactor)
        return models.conversation_of(record, self._redactor, style)

    async def settle(self) -> list[StructuredOutcome]:
        """Drive to their end the calls that an earlier process left open, and those that waited for a person.

        In a session with an id also what came of those that the program went on without, and that have ended since.
        Raises WaitingForPerson, after all others, where one cannot go on yet.
        """
        self._check_inside()
        ended = [call for call in self._unsettled.values() if call.is_finished]
        driven: list[StructuredOutcome] = []
        if not isinstance(self._at, Ended):
            settling.hear(self._at)
            left_open = list(self._at.journal.fold.open.values())
            driven = await settling.settle(self._at, left_open, self._driven, self._in_flight)
        for call in ended:
            del self._unsettled[call.name]
        return [*(call.answer() for call in ended), *driven]

    async def settle_voted(self) -> list[StructuredOutcome]:
        """Drive the calls that a person has approved or denied meanwhile. One that was sent is no longer about that."""
        settling.hear(self._run)
        return await settling.settle(self._run, settling.voted(self._run), self._driven, self._in_flight)

    @property
    def waiting(self) -> list[str]:
        """Ids of the calls that wait for a person. Where nobody is asked, an undecided call was given up on."""
        return [] if isinstance(self._at, Ended) else settling.waiting(self._at)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def quiet(self) -> None:
        """Until no call is under way. Whoever leaves a block while tasks of his still call waits for what they get."""
        while self._in_flight:
            await asyncio.wait([ended for ended, _ in self._in_flight.values()])

    def refuse_not_asked(self) -> None:
        """At the end of a block: Diverged where a write of the record was not asked for again, or was raised before."""
        if self._answers is not None:
            self._answers.refuse_not_asked()

    def explain_failure(self, error: Exception) -> None:
        """A program that went another way and caught that fails for it, whatever else failed later.

        In a test any other failure tells what was not asked for until then.
        """
        if self._answers is None or error is self._answers.stopped:
            return
        if self._answers.stopped is not None:
            raise self._answers.stopped from error
        left = self._answers.unasked() if self._answers.in_test else []
        if left:
            error.add_note(f"until then the program did not ask for {self._answers.listed(left)} of the record")

    async def record_unanswered(self, error: BaseException | None = None) -> None:
        """Calls whose callers have no answer, before the program goes on as another run, or ends with `error`."""
        if self._unanswered is not None and not isinstance(self._at, Ended):
            await self._unanswered.left_by(self._at, error)

    def cancel_calls(self) -> None:
        """Cancel what is under way in other tasks."""
        for _, task in self._in_flight.values():
            if task is not None and task is not asyncio.current_task():
                task.cancel()

    async def close(self) -> RunStatus:
        """Assemble the plan, seal the run. Parked where a call is in doubt that only a person can settle."""
        self._closing = True
        await self.quiet()
        if isinstance(self._at, Ended):
            return self._at.status
        said: dict[str, object] | None = {"confidence": self._confidence} if self._finished else None
        return await closing.close(self._run, said)

    def leave(self) -> None:
        """The lease is given back: whoever takes it next would not know of a call that is made from here on."""
        self._left = True

    def _check_inside(self) -> None:
        self.where.check(self.run_id, self._engine.drain_state, by_threads=self.by_threads)
        if self._left:
            raise UsageError(f"the block of session {self.run_id} has ended; open it again with resume=…")

    def _check_open(self) -> None:
        if self._closing or (not isinstance(self._at, Ended) and self._at.journal.fold.seal is not None):
            raise UsageError(f"session {self.run_id} has ended; open a new one")
        self._check_inside()
        if self._finished:
            raise UsageError("finish() was the last word of this session: say it after the last call")
