"""Random histories: plans and sessions, interrupted, voted on, resolved, given up on and cancelled, to their end.

However a run ends, and whoever ended it, with the code of its skills or without: its record verifies, and its mock
replay matches. A history follows from its number alone, so that one that fails can be looked at again:
`python -m tests.soak.histories COUNT SEED`, or `… 1 NUMBER` for one; SHARE=1/4 takes the first quarter.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from reenact import Registry, SkillContext, skill
from reenact.contracts.records import ENDED
from reenact.errors import ReenactError, WaitingForPerson
from reenact.record.state import load_fold
from reenact.replay import load_recording
from reenact.replay.modes.mock import mock_replay
from reenact.replay.runtime import Runtime
from reenact.runtime.crash_points import CRASH_POINTS
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.people import decisions as people
from reenact.runtime.session.session import Session
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from tests.replay.recording import Crash, armed
from tests.replay.skills import act as touch
from tests.replay.skills import word_for
from tests.shares import part_of

SESSION = "history"
WORDS = ("503", "500", "404", "429", "timeout", "refused", "odd", "cancelled", "ok", "ok", "ok")
ROUNDS = 6


# -- skills ------------------------------------------------------------------------------------------------------------


async def act(ctx: SkillContext, script: list[str]) -> None:
    word = word_for(script, ctx.attempt)
    if word == "slow":
        await asyncio.sleep(0.002)
        return
    if word == "late":  # for a caller that has no patience
        await asyncio.sleep(0.05)
        return
    touch(ctx, word, effect=None)


@skill("look", version="1.0.0", tool_class="read", idempotent=True, cost_estimate_cents=1)
async def look(ctx: SkillContext, name: str, script: list[str]) -> str:
    await act(ctx, script)
    return name


@skill("send", version="1.0.0", tool_class="write", cost_estimate_cents=2, retry={"max_retries": 2})
async def send(ctx: SkillContext, name: str, script: list[str]) -> str:
    await act(ctx, script)
    return f"sent {name}"


@skill("charge", version="1.0.0", tool_class="write", in_doubt="hold", retry={"max_retries": 1, "jitter_enabled": True})
async def charge(ctx: SkillContext, name: str, script: list[str]) -> dict[str, str]:
    await act(ctx, script)
    return {"charged": name}


def was_posted(name: str, script: list[str]) -> dict[str, object] | None:
    """Mostly it can tell."""
    match len(name + "".join(script)) % 4:
        case 0:
            return None
        case 1:
            return {"done": False, "output": None}
        case _:
            return {"done": True, "output": f"posted {name}"}


@skill("post", version="1.0.0", tool_class="write", in_doubt="reconcile", reconcile=was_posted, cost_estimate_cents=1)
async def post(ctx: SkillContext, name: str, script: list[str]) -> str:
    await act(ctx, script)
    return f"posted {name}"


@skill("pay", version="1.0.0", tool_class="write", honours_key=True, retry={"max_retries": 3, "backoff_base_ms": 5})
async def pay(ctx: SkillContext, name: str, script: list[str]) -> str:
    await act(ctx, script)
    return f"paid {name}"


@skill("sign", version="1.0.0", tool_class="write", in_doubt="hold")
async def sign(ctx: SkillContext, name: str, script: list[str]) -> str:
    """Needs a person's word first."""
    await act(ctx, script)
    return f"signed {name}"


SKILLS = Registry([look, send, charge, post, pay, sign])


def supervisor(proposal: Proposal) -> bool | str:
    if proposal.skill_id == "sign":
        return "ask"
    return "no" not in str(proposal.parameters.get("name"))


# -- programs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A call of a program, and how long its caller waits for it."""

    skill_id: str
    name: str
    script: list[str]
    key: str | None
    patience_s: float | None

    @property
    def parameters(self) -> dict[str, Any]:
        return {"name": self.name, "script": self.script}


def random_call(draw: random.Random, place: str) -> Asked:
    skill_id = draw.choice(("look", "look", "send", "charge", "post", "pay", "sign"))
    script = [draw.choice((*WORDS, "slow")) for _ in range(draw.randint(1, 3))]
    patience = None
    if draw.random() < 0.08:
        script, patience = ["late"], 0.01
    name = draw.choice(("a", "b", f"at {place}", f"at {place}", "no"))
    key = draw.choice(("k1", "k2", None, None)) if skill_id in ("pay", "charge", "send") else None
    return Asked(skill_id, name, script, key, patience)


Phase = list[list[Asked]]
"""Lanes side by side, each with its calls one after the other."""


def random_program(draw: random.Random) -> list[Phase]:
    return [
        [[random_call(draw, f"{phase}.{lane}.{n}") for n in range(draw.randint(1, 2))] for lane in range(width)]
        for phase in range(draw.randint(1, 3))
        for width in [draw.choice((1, 1, 2, 3))]
    ]


class Stopped(Exception):
    """The program's own trouble, between two phases."""


async def one_lane(session: Session, calls: list[Asked], name: str | None) -> None:
    if name is None:
        for asked in calls:
            await one_call(session, asked)
        return
    with session.lane(name):
        for asked in calls:
            await one_call(session, asked)


async def one_call(session: Session, asked: Asked) -> None:
    made = session.call(asked.skill_id, asked.parameters, idempotency_key=asked.key)
    try:
        await (made if asked.patience_s is None else asyncio.wait_for(made, asked.patience_s))
    except TimeoutError:
        return


# -- histories ---------------------------------------------------------------------------------------------------------


@dataclass
class Counted:
    histories: int = 0
    crashes: int = 0
    done: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        done = ", ".join(f"{count} × {what}" for what, count in sorted(self.done.items()))
        ended = ", ".join(f"{count} {how}" for how, count in sorted(self.ended.items()))
        return (
            f"{self.histories} histories in {self.seconds:.0f} s: {done}; ended: {ended}; "
            f"{len(self.wrong)} did not verify or replay"
        )


class History:
    def __init__(self, number: int, counted: Counted) -> None:
        self.draw = random.Random(number)
        self.counted = counted
        self.clock = FixedClock(seed=number)
        self.store = SqliteStore(":memory:", clock=self.clock)
        self.is_plan = self.draw.random() < 0.3
        self.named = self.draw.random() < 0.7
        self.budget = self.draw.choice((None, None, 6, 12))
        self.program = random_program(self.draw)
        self.run_id: str | None = None
        self.log: list[str] = []

    def runtime(self, *, bare: bool = False) -> Runtime:
        """`bare` is one that knows none of the skills, as the command line often is."""
        skills = Registry() if bare else SKILLS
        return Runtime(self.store, skills=skills, supervisor=supervisor, clock=self.clock)

    def some_runtime(self) -> Runtime:
        return self.runtime(bare=self.draw.random() < 0.5)

    def tell(self, what: str) -> None:
        self.log.append(what)
        self.counted.done[what.split(" ", 1)[0]] += 1

    @property
    def has_ended(self) -> bool:
        return self.run_id is not None and self.store.find_run(self.run_id).status in ENDED

    # -- work ------------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """One start of the program, which may die on its way."""
        point, count = self.draw.choice(sorted(CRASH_POINTS)), self.draw.randint(1, 4)
        dies = self.draw.random() < 0.6
        try:
            if dies:
                with armed(point, count):
                    await self.start()
            else:
                await self.start()
        except Crash:
            self.tell(f"crash at {point}:{count}")
        except (Stopped, WaitingForPerson, TimeoutError) as why:
            self.tell(f"{type(why).__name__} in a start")
        except ReenactError as error:
            self.tell(f"{type(error).__name__} in a start: {error}")
        self.clock.advance(60)  # the lease of the dead lapses
        self.find()

    async def start(self) -> None:
        if self.is_plan:
            await self.start_plan()
        else:
            await self.start_session()

    async def start_plan(self) -> None:
        runtime = self.runtime()
        if self.run_id is not None:
            await runtime.resume_async(self.run_id)
            return
        calls = [asked for phase in self.program for lane in phase for asked in lane if asked.script != ["late"]]
        steps: list[dict[str, Any]] = []
        for n, asked in enumerate(calls):
            step = {"step_id": f"s{n}", "skill_id": asked.skill_id, "parameters": asked.parameters}
            steps.append(step if asked.key is None else {**step, "idempotency_key": asked.key})
        context = {"on_error": "continue"} | ({} if self.budget is None else {"budget_cents": self.budget})
        plan = {"plan_id": "history", "agent_id": "agent", "goal": "any", "steps": steps, "context": context}
        if steps:
            await runtime.run_async(plan)

    async def start_session(self) -> None:
        options: dict[str, Any] = {"id": SESSION} if self.named else {}
        if not self.named and self.run_id is not None:
            options = {"resume": self.run_id, "interrupted": self.draw.choice(("synthesize", "settle"))}
        stop_at = self.draw.randint(0, 6)
        async with self.runtime().session(budget_cents=self.budget, **options) as session:
            self.run_id = session.run_id
            for number, phase in enumerate(self.program):
                if number == stop_at:
                    raise Stopped
                lanes = [
                    one_lane(session, calls, f"p{number}-{place}" if self.named and len(phase) > 1 else None)
                    for place, calls in enumerate(phase)
                ]
                if self.draw.random() < 0.1:
                    await self.cancel(self.some_runtime())
                await asyncio.gather(*lanes)
                await session.turn()

    def find(self) -> None:
        for row in self.store.runs():
            self.run_id = row.run_id

    # -- what people and the clock do ------------------------------------------------------------------------------

    async def cancel(self, runtime: Runtime) -> None:
        if self.run_id is not None and not self.has_ended:
            ended = await people.cancel(runtime, self.run_id, reason="enough")
            self.tell("cancel" if ended else "cancel-request")

    async def vote(self) -> None:
        assert self.run_id is not None
        approve, fold = self.draw.random() < 0.6, load_fold(self.store, self.run_id).fold
        asked = [trace.step_id for trace in fold.open.values() if trace.state == "PENDING"]
        step = self.draw.choice(asked) if asked else None
        step = await people.vote(self.some_runtime(), self.run_id, step, approve=approve, reason="seen")
        self.tell(f"{'approve' if approve else 'deny'} {step}")

    async def resolve(self) -> None:
        assert self.run_id is not None
        fold = load_fold(self.store, self.run_id).fold
        doubtful = [trace.step_id for trace in fold.open.values() if trace.state == "EXECUTING"]
        if not doubtful:
            return
        resolution: Any = self.draw.choice(("succeeded", "failed", "redispatch"))
        step, output = self.draw.choice(doubtful), {"told": True} if resolution == "succeeded" else None
        await people.resolve(self.some_runtime(), self.run_id, step, resolution, reason="looked", output=output)
        self.tell(f"resolve {step} {resolution}")

    async def recover(self) -> None:
        results = await self.some_runtime().recover_async()
        self.tell(f"recover {[result.status for result in results]}")

    async def happens(self) -> None:
        """Something, by somebody else than the program."""
        deed = self.draw.choice((self.vote, self.resolve, self.recover, self.resolve, self.vote))
        try:
            await deed()
        except ReenactError as error:
            self.log.append(f"{deed.__name__}: {type(error).__name__}: {error}")

    async def to_the_end(self) -> str:
        for _ in range(self.draw.randint(1, ROUNDS)):
            await self.work()
            if self.run_id is None:
                continue
            if self.has_ended:
                break
            for _ in range(self.draw.randint(0, 3)):
                await self.happens()
            if self.has_ended or self.draw.random() < 0.15:
                break
        if self.run_id is None:
            return "nothing"
        if not self.has_ended:
            self.clock.advance(60)
            await self.cancel(self.some_runtime())
        return self.store.find_run(self.run_id).status


async def lived(number: int, counted: Counted) -> tuple[str | None, list[str]]:
    """What is wrong with a history, and what happened in it."""
    history = History(number, counted)
    try:
        status = await history.to_the_end()
        counted.ended[status] += 1
        if history.run_id is None:
            return None, history.log
        if status not in ENDED:
            return f"is {status} after it was cancelled", history.log
        recording = load_recording(history.store, history.run_id)
        for skills in (SKILLS, Registry()):
            result = await mock_replay(recording, skills)
            if result.verdict != ("matched" if recording.steps else "not_compared"):
                return f"{result.verdict}: {result.divergence or result.reason}", history.log
    except Exception as error:
        return f"{type(error).__name__}: {error}", history.log
    finally:
        history.store.close()
    return None, history.log


def campaign(count: int, seed: int, *, loud: bool = False) -> Counted:
    counted, began = Counted(), time.monotonic()
    for number in range(seed, seed + count):
        wrong, log = asyncio.run(lived(number, counted))
        counted.histories += 1
        if wrong is not None:
            counted.wrong.append(f"history {number}: {wrong}\n  " + "\n  ".join(log))
            if loud:
                print(counted.wrong[-1], flush=True)
        if loud and counted.histories % 500 == 0:
            print(f"{counted.histories} of {count}, {len(counted.wrong)} wrong", flush=True)
    counted.seconds = time.monotonic() - began
    return counted


if __name__ == "__main__":
    how_many = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 20261116
    found = campaign(*part_of(how_many, first), loud=True)
    print(found)
    sys.exit(bool(found.wrong))
