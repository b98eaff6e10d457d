"""Sessions: an agent loop makes its plan as it goes, and every call goes through the journal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.plan import STEP_ID
from reenact.contracts.records import Event, EventType, RunStatus
from reenact.contracts.references import escape
from reenact.errors import ConcurrentExecution, StoreError, UsageError, WaitingForPerson
from reenact.policy.cost import PriceTable
from reenact.runtime import drive, session_history, verification
from reenact.runtime.doubt import keep_late
from reenact.runtime.execution import Execution, Fact, Parked
from reenact.runtime.gates.duplicate import DuplicateGate
from reenact.runtime.plan_run import note_cancel
from reenact.runtime.reader import RecordedStep, RunReader
from reenact.runtime.session_plan import Document, SessionPlan
from reenact.runtime.unrecorded import call_unrecorded
from reenact.values.canonical import canonicalize, parse_canonical

if TYPE_CHECKING:
    from reenact.runtime.runtime import Runtime

POINTER = re.compile(r"(/([^/~]|~[01])*)+\Z")


class Session:
    """One run of an agent loop. `call` never raises for a tool's failure; what it returns is durable."""

    def __init__(self, runtime: Runtime, ex: Execution, plan: SessionPlan) -> None:
        self._runtime = runtime
        self._ex = ex
        self._plan = plan
        self._finished = False
        self._confidence: float | None = None
        self._calls = ex.fold.requested
        self._passed_before = 0

    @property
    def run_id(self) -> str:
        return self._ex.run_id

    @property
    def spent_exact(self) -> int:
        """Picodollars charged so far."""
        return self._ex.fold.spent_exact

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
        """Call a tool. `secrets` binds JSON pointers in the parameters to names; all else is taken literally."""
        self._check_open()
        self._runtime.secrets.learn((secrets or {}).values())
        self._check_names(skill_id, step_id)
        index = self._calls
        self._calls += 1
        step = self._plan.planned(
            index=index,
            step_id=self._name(step_id, index),
            skill_id=skill_id,
            version=version,
            parameters=inert(parameters or {}, secrets or {}),
            turn=self._ex.fold.turn,
            caller_key=idempotency_key,
        )
        self._ex.prices = PriceTable.from_dict(self._ex.price_rows)
        call = drive.start(self._ex, step)
        try:
            outcome = await call.drive()
            await self._ex.writer.flush()
        except Parked as parked:
            raise WaitingForPerson(f"{parked} (run {self.run_id})", status=parked.status) from None
        except ConcurrentExecution:
            keep_late(self._ex)
            raise
        except StoreError as error:
            outcome = await call_unrecorded(self._ex, call.trace, step, error)
        return self._ex.book.sealer.hide_known(outcome)

    def _check_names(self, *names: str | None) -> None:
        """Names stand in the chain as they are."""
        if any(name is not None and self._ex.book.sealer.redact_text(name) != name for name in names):
            raise UsageError("the name of a tool or a step looks like a secret, and names are written as they are")

    def _name(self, step_id: str | None, index: int) -> str:
        name = step_id or f"c{index + 1}"
        if not STEP_ID.match(name):
            raise UsageError(f"step_id {name!r} is not 1 to 128 of A-Z a-z 0-9 _ . : -")
        return name

    async def turn(self) -> int:
        """Begin a new turn: what was called before no longer counts as a duplicate. Gives the turn's number."""
        self._check_open()
        self._event("turn", None)
        await self._ex.writer.flush()
        self._ex.duplicates = DuplicateGate(with_output=self._ex.duplicate_output)
        return self._ex.fold.turn

    async def verify(self, commands: Sequence[str], *, timeout_s: float = 600) -> list[int]:
        """Run commands that check the work, and record their exit codes. Gives the codes."""
        self._check_open()
        codes = await verification.run_commands(list(commands), self._plan.context, timeout_s)
        passed = sum(code == 0 for code in codes)
        delta, self._passed_before = passed - self._passed_before, passed
        data = {"commands": list(commands), "exit_codes": codes, "verification_delta": delta}
        self._event("verify", self._ex.book.put(data)[0])
        await self._ex.writer.flush()
        return codes

    def finish(self, *, confidence: float | None = None) -> None:
        """Say how sure the agent is of its work; the session ends with the block."""
        if confidence is not None and not 0.0 <= confidence <= 1.0:
            raise UsageError("confidence is a number from 0 to 1")
        self._confidence = confidence
        self._finished = True

    async def history(self, *, style: str = "openai") -> list[Document]:
        """The calls and results so far as messages that a model API accepts: `openai` or `anthropic`."""
        sealer = self._ex.book.sealer
        return session_history.messages(self._recorded(), style, lambda value: sealer.hide(sealer.unseal(value)))

    async def settle(self) -> list[StructuredOutcome]:
        """Drive to their end the calls that an earlier process left open."""
        outcomes = []
        for trace in list(self._ex.fold.open.values()):
            call = session_history.reopen(self._ex, self._plan, trace)
            try:
                drive.hold_without_skill(self._ex, call.step, trace.meta("definition_digest"))
                outcomes.append(self._ex.book.sealer.hide_known(await call.drive()))
                await self._ex.writer.flush()
            except Parked as parked:
                raise WaitingForPerson(f"{parked} (run {self.run_id})", status=parked.status) from None
        return outcomes

    @property
    def waiting(self) -> list[str]:
        """Ids of the calls that wait for a person. Where nobody is asked, an undecided call was given up on."""
        return [trace.step_id for trace in self._ex.fold.open.values() if session_history.may_wait(self._ex, trace)]

    # -- the end ---------------------------------------------------------------------------------------------------

    async def close(self) -> RunStatus:
        """Assemble the plan, seal the run. A call that was given up on ends as in doubt: a seal leaves none open."""
        await self._ex.writer.flush()
        for trace in list(self._ex.fold.open.values()):
            await session_history.synthesize(self._ex, self._plan, trace)
        status: RunStatus = "completed"
        if self._ex.cancel_note is not None:
            note_cancel(self._ex, self._ex.cancel_note)
            status = "cancelled"
        document, digest = self._plan.assemble(self._recorded())
        reason = None
        if self._finished:
            reason = self._ex.book.put({"confidence": self._confidence})[0]
        self._event("finish", self._ex.book.put_as_it_is(document)[0], reason=reason)
        self._ex.writer.seal(status, digest, self._ex.fold.requested)
        self._ex.tell(Fact(kind="run_ended", run_id=self.run_id, status=status))
        await self._ex.writer.flush()
        return status

    def _recorded(self) -> list[RecordedStep]:
        return list(RunReader(self._ex.store, self.run_id).steps())

    def _event(self, kind: EventType, data: str | None, *, reason: str | None = None) -> None:
        ts = self._ex.door.timestamp()
        self._ex.writer.event(Event(data=data, reason=reason, trace_id=None, ts=ts, type=kind, who=None))

    def _check_open(self) -> None:
        if self._ex.fold.seal is not None:
            raise UsageError(f"session {self.run_id} has ended; open a new one")


def inert(parameters: Mapping[str, object], secrets: Mapping[str, str]) -> Document:
    """What a model said, escaped; then the references that the host bound, at their pointers."""
    plain = parse_canonical(canonicalize(dict(parameters)), what="parameters")
    value = escape(plain)
    assert isinstance(value, dict)
    for pointer, name in secrets.items():
        bind_secret(value, pointer, name)
    return value


def bind_secret(value: Document, pointer: str, name: str) -> None:
    if not POINTER.match(pointer):
        raise UsageError(f"{pointer!r} is not a JSON pointer such as /headers/authorization")
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    target: object = value
    for part in parts[:-1]:
        target = step_into(target, part, pointer)
    last = parts[-1]
    if isinstance(target, dict):
        target[last] = {"$secret": name}
    elif isinstance(target, list) and last.isdigit() and int(last) < len(target):
        target[int(last)] = {"$secret": name}
    else:
        raise UsageError(f"{pointer!r} leads nowhere in the parameters")


def step_into(target: object, part: str, pointer: str) -> object:
    if isinstance(target, dict):
        return target.setdefault(part, {})
    if isinstance(target, list) and part.isdigit() and int(part) < len(target):
        return target[int(part)]
    raise UsageError(f"{pointer!r} leads nowhere in the parameters")
