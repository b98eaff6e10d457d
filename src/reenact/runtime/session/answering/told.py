"""What a session tells its program besides outcomes, the same in each start: turns, exit codes, times, randomness."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from reenact.contracts.records import Event, EventType
from reenact.errors import Diverged
from reenact.runtime.effects.threads import THREADS
from reenact.runtime.run import Run
from reenact.runtime.session import checks
from reenact.runtime.session.answering.answers import Answers
from reenact.runtime.session.answering.lanes import Lanes
from reenact.runtime.session.plan import Document, SessionPlan
from reenact.runtime.writing.checkpoint_state import fresh_gate
from reenact.values.keyed import KeyedRandom, keyed_random


def shown_outputs(checked: list[checks.Checked], redact: Callable[[str], str]) -> list[dict[str, object]]:
    """What the commands printed, as it may be kept."""
    return [{"stderr": each.err.shown(redact), "stdout": each.out.shown(redact)} for each in checked]


class Told:
    """Asks the record first, where the session has one; `run` raises where nothing new is made any more.

    `another_way` raises too, or has the program go on as another run.
    """

    def __init__(
        self,
        run: Callable[[], Run],
        plan: SessionPlan,
        answers: Answers | None,
        another_way: Callable[[Diverged], Awaitable[None]],
    ) -> None:
        self._run = run
        self._another_way = another_way
        self._plan = plan
        self._answers = answers
        self._lanes = Lanes() if answers is None else answers.lanes
        self._passed_before = 0

    async def turn(self) -> int:
        told = self._before("turn")
        if told is not None:
            return int(str(told["turn"]))
        run = self._run()
        self._event("turn", None if self._answers is None else {"turn": run.journal.fold.turns})
        turn = run.journal.fold.turn
        run.gates.duplicates = fresh_gate(run, turn)
        await run.journal.flush()
        return turn

    async def verify(self, commands: list[str], timeout_s: float) -> list[int]:
        try:
            told = self._before("verify", partial(checks.recorded_codes, commands=commands))
        except Diverged as diverged:
            await self._another_way(diverged)
            told = self._before("verify")  # in the run that goes on it is new
        if told is not None:
            codes = checks.recorded_codes(told, commands)
            self._passed_before = sum(code == 0 for code in codes)
            return codes
        run = self._run()
        checked = await checks.run_commands(commands, self._plan.context, timeout_s)
        codes = [each.code for each in checked]
        passed = sum(code == 0 for code in codes)
        delta, self._passed_before = passed - self._passed_before, passed
        outputs = await THREADS.run(lambda: shown_outputs(checked, run.journal.book.redactor.redact_text))
        said = {"commands": commands, "exit_codes": codes, "outputs": outputs, "verification_delta": delta}
        self._event("verify", said)
        await run.journal.flush()
        return codes

    def now(self) -> datetime:
        """Recorded with the next commit: nothing that is sent can depend on it before."""
        told = self._before("now")
        ms = self._run().clock.now_ms() if told is None else int(str(told["now_ms"]))
        if told is None and self._answers is not None:
            self._event("now", {"now_ms": ms})
        return datetime.fromtimestamp(ms / 1000, UTC)

    def random(self) -> float:
        return self._draws().random()

    def uuid(self) -> str:
        return str(UUID(bytes=self._draws().bytes(16), version=4))

    def _draws(self) -> KeyedRandom:
        """Those of the current lane, a function of the session's salt: there is nothing to record."""
        lane = self._lanes.current
        if lane.draws is None:
            lane.draws = keyed_random("reenact.session.random", self._plan.salt.hex(), lane.path)
        return lane.draws

    def _before(self, kind: EventType, refuse: Callable[[Document], object] | None = None) -> Document | None:
        """What the record says that this lane was told when it asked before."""
        return None if self._answers is None else self._answers.told(kind, refuse)

    def _event(self, kind: EventType, said: Document | None) -> None:
        """Staged; where the session has an id, with the lane that it belongs to."""
        run, data = self._run(), None
        if said is not None:
            own = {} if self._answers is None else {"lane": self._lanes.current.path}
            data = run.journal.book.put({**said, **own})[0]
        ts = run.clock.timestamp()
        run.journal.event(Event(data=data, reason=None, trace_id=None, ts=ts, type=kind, who=None))
