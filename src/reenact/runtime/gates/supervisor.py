"""Last gate: approval, by the plan itself, by a person, or by a function.

Two may have a word: the function that the host gave to its runtime, and whatever the plan names. Both must agree, and
the host comes first: a no of either is a no, and where either wants a person, a person is asked.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reenact.contracts.artifacts import RiskLevel
from reenact.contracts.records import Vote
from reenact.errors import PlanError
from reenact.policy.cost import cents
from reenact.runtime.effects.coroutines import within
from reenact.runtime.effects.threads import THREADS
from reenact.runtime.gates.answer import Approval, GateAnswer, NeedsApproval, Refusal
from reenact.runtime.parked import Parked
from reenact.values.threads import once

if TYPE_CHECKING:
    from reenact.runtime.call.call import Call


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a supervisor function is shown. The parameters are a copy: what it does to them changes nothing."""

    run_id: str
    step_id: str
    skill_id: str
    skill_version: str | None
    risk_level: RiskLevel
    parameters: dict[str, object]
    agent_id: str
    goal: str
    spent_cents: int


SupervisorFunction = Callable[[Proposal], "bool | str | Awaitable[bool | str]"]


HOST = "the host's supervisor"
NAMED = "the supervisor"
LONGEST_ANSWER_S = 60.0
"""What a function has to answer, unless the host says otherwise. Who takes longer than that asks for a person."""


class Supervision:
    """Who decides about the calls of one run: the host's function, what the plan names, and people."""

    def __init__(
        self,
        mode: str,
        named: Callable[[], SupervisorFunction | None],
        host: SupervisorFunction | None,
        limit_s: float = LONGEST_ANSWER_S,
    ) -> None:
        self.mode = mode
        self._load = named
        self.host = host
        """The host's own: asked about every call, whatever the plan names."""
        self.is_auto = mode == "auto" and host is None
        """Nobody is asked: but for a call that waits for a person, or was voted on, the plan itself approves."""
        self._limit_s = limit_s

    @once
    def named(self) -> SupervisorFunction | None:
        """The function that the plan names, loaded when it is first asked: a vote or a cancel does not need it."""
        try:
            return self._load()
        except PlanError as error:
            raise Parked("held", f"{error}; the run goes on where it can be loaded (PYTHONPATH)") from None

    def asks_a_function(self, call: Call) -> bool:
        """Whether others may go on while this call is decided."""
        voted = call.trace_id in call.run.journal.fold.votes
        return self.host is not None or not (voted or self.named is None)

    async def decide(self, call: Call) -> GateAnswer:
        """The last word about a call that every other gate let pass."""
        run = call.run
        served = None if call.is_live else run.source.served_decision(call.step)
        if served is not None:
            return served
        fold, trace_id = run.journal.fold, call.trace.trace_id
        vote = fold.votes.get(trace_id)
        if vote is None and trace_id in fold.parked:
            # Whoever asked may not be here, and is not asked twice: the question stands until a person answers it.
            return NeedsApproval(f"a person was asked about step {call.step.step_id} and has not answered")
        if vote is None and self.host is None and self.mode == "auto":
            return Approval("auto")
        named = None if vote is not None else self.named
        if named is not None or self.host is not None:
            await run.journal.flush()  # a callable may take its time: what is known so far is durable first
        return await decide(proposal_of(call), self.mode, vote=vote, named=named, host=self.host, limit_s=self._limit_s)


def proposal_of(call: Call) -> Proposal:
    request, plan = call.trace.request, call.run.plan.plan
    assert request is not None
    return Proposal(
        run_id=call.run.run_id,
        step_id=call.step.step_id,
        skill_id=call.step.skill_id,
        skill_version=call.step.skill_version,
        risk_level=request.risk_level,
        parameters=call.parameters if call.plain else call.unescaped(),
        agent_id=plan.agent_id,
        goal=plan.goal,
        spent_cents=cents(call.run.journal.fold.spent_exact),
    )


async def decide(
    proposal: Proposal,
    mode: str,
    *,
    vote: Vote | None = None,
    named: SupervisorFunction | None = None,
    host: SupervisorFunction | None = None,
    limit_s: float = LONGEST_ANSWER_S,
) -> GateAnswer:
    """What the host, the plan's `mode` and a person come to.

    The host is asked whenever a call is decided here, also after a person was: it may still say no. A person who has
    approved is the one that either of them may have asked for, so nobody asks for another.
    """
    said = None if vote is None else by_vote(vote)
    if isinstance(said, Refusal):
        return said
    by_host = None if host is None else await by_function(host, proposal, HOST, limit_s)
    if isinstance(by_host, Refusal):
        return by_host
    if said is not None:
        return said
    by_plan = await by_mode(mode, named, proposal, limit_s)
    if isinstance(by_plan, Refusal) or by_host is None:
        return by_plan
    return by_plan if isinstance(by_plan, NeedsApproval) else by_host


async def by_mode(mode: str, named: SupervisorFunction | None, proposal: Proposal, limit_s: float) -> GateAnswer:
    """What the plan says about its own calls."""
    if mode == "auto":
        return Approval("auto")
    if mode == "ask":
        return by_risk(proposal)
    if named is None:
        return refused(f"there is no supervisor {mode}")
    return await by_function(named, proposal, NAMED, limit_s)


def by_vote(vote: Vote) -> GateAnswer:
    if vote.decision == "APPROVE":
        return Approval("person", vote=str(vote.digest))
    return Refusal("supervisor", "ERR_POLICY_VIOLATION", f"denied by {vote.who}", vote=str(vote.digest))


def by_risk(proposal: Proposal) -> GateAnswer:
    """`ask`: reading needs nobody; writing does."""
    if proposal.risk_level == "READ":
        return Approval("policy")
    return NeedsApproval(f"step {proposal.step_id} would run {proposal.skill_id} ({proposal.risk_level})")


async def by_function(function: SupervisorFunction, proposal: Proposal, who: str, limit_s: float) -> GateAnswer:
    """A function says True, False, or "ask" for a person. Anything else, any failure and no answer in time, is a no."""
    task = asyncio.current_task()
    try:
        answer = await answer_of(function, replace(proposal, parameters=deepcopy(proposal.parameters)), limit_s)
    except NoAnswer:
        return refused(f"{who} gave no answer within {limit_s:g} s", {"supervisor_error": "NoAnswer"})
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        return failed(who, error)
    except BaseException as error:  # a supervisor that fails has not approved, and ends nothing else
        if issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # it may be the user's; in any other thread no signal raises one
        return failed(who, error)
    if answer is True:
        return Approval("policy")
    if answer == "ask":
        return NeedsApproval(f"{who} asks for a person about step {proposal.step_id}")
    return refused(f"{who} refused")


class NoAnswer(Exception):
    """A function took longer than it may."""


async def answer_of(function: SupervisorFunction, proposal: Proposal, limit_s: float) -> object:
    """In the loop where it is async, else in a thread: whoever else is at work goes on. A thread that hangs is left."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + limit_s
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        answer: object = function(proposal)
    else:
        waiting = THREADS.run(lambda: function(proposal))
        done, _ = await asyncio.wait([waiting], timeout=limit_s)
        if not done:
            waiting.cancel()
            raise NoAnswer
        answer = waiting.result()
    if not inspect.isawaitable(answer):
        return answer
    try:
        return await within(awaited(answer), ends - loop.time(), name)
    except TimeoutError:
        if loop.time() < ends:
            raise
        raise NoAnswer from None


async def awaited(answer: Awaitable[object]) -> object:
    return await answer


def failed(who: str, error: BaseException) -> Refusal:
    of_thread = type(error) is RuntimeError and isinstance(error.__cause__, SystemExit | KeyboardInterrupt)
    name = type(error.__cause__ if of_thread else error).__name__
    return refused(f"{who} failed with {name}", {"supervisor_error": name})


def refused(message: str, details: dict[str, object] | None = None) -> Refusal:
    return Refusal("supervisor", "ERR_POLICY_VIOLATION", message, details or {})


def load_supervisor(name: str) -> SupervisorFunction | None:
    """The function that a plan names as `module:function`; None for `auto` and `ask`."""
    if name in ("auto", "ask"):
        return None
    module_name, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a user's module raises becomes one line
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise PlanError(f"$.context.supervisor: {name!r} cannot be loaded: {reason}") from None
    if not callable(function):
        raise PlanError(f"$.context.supervisor: {name!r} is not a function")
    checked: SupervisorFunction = function
    return checked
