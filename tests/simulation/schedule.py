"""One schedule: jobs, executors, what befalls them, and what must hold at the end whatever it was."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import ENDED
from reenact.errors import ReenactError, RunNotFound, StoreError
from reenact.record.state import load_fold
from reenact.replay import load_recording
from reenact.replay.modes.mock import mock_replay
from reenact.runtime.people import decisions as people
from reenact.runtime.session.session import Session
from reenact.store.base import LEASE_MS
from reenact.store.sqlite.store import SqliteStore
from tests.simulation.executor import Executor, OneThread
from tests.simulation.loop import SimulatedLoop
from tests.simulation.world import HELD, HONOUR_KEY, Asked, Job, Ledger, random_job, result, tools

LEASE_S = LEASE_MS / 1000
CHAOS_S = 60.0
OFTEN = 4
"""A job that waits for a person is tried so often, and then left to the judge."""
REPLAYED = 8
"""Of so many schedules one is verified and replayed too: that takes as long as all the rest."""
FAULTS = ("kill", "freeze", "kill before a commit", "kill after a commit", "disk", "clock")


@dataclass
class Told:
    """How a schedule went."""

    seed: int
    turns: int = 0
    interleaving: bytes = b""
    executors: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @property
    def counts(self) -> bool:
        return self.executors >= 2 and self.faults.total() >= 1


async def one_call(session: Session, asked: Asked, lane: str | None) -> StructuredOutcome:
    with nullcontext() if lane is None else session.lane(lane):
        return await session.call(asked.skill_id, {"name": asked.name}, idempotency_key=asked.key)


class Schedule:
    def __init__(self, seed: int, path: Path) -> None:
        self.told = Told(seed)
        self.draw = random.Random(seed)
        self.loop = SimulatedLoop(self.draw)
        self.path = path
        self.ledger = Ledger()
        self.skills = tools(self.ledger, self.draw)
        self.jobs = [random_job(self.draw, f"job{number}") for number in range(self.draw.randint(1, 2))]
        self.run_ids: dict[str, str] = {}
        self.living: list[Executor] = []
        self.born = 0
        self.is_over = self.is_calm = False
        self.armed: dict[int, str] = {}
        """Executors that die at their next commit, and where."""
        self.disk_fails = 0
        self.done: set[str] = set()
        self.held: Counter[str] = Counter()
        """How often a job was found to wait for a person, since nothing more befalls anybody."""

    def say(self, what: str) -> None:
        self.told.log.append(f"{self.loop.time():8.3f} {what}".replace(str(self.path), "store.db"))

    # -- executors ---------------------------------------------------------------------------------------------------

    def bear(self, *, wrong_by_s: float | None = None) -> Executor:
        self.born += 1
        number = self.born
        wrong = self.draw.choice((0.0, 0.0, 1.5, -1.5)) if wrong_by_s is None else wrong_by_s
        executor = Executor(
            number, self.loop, self.path, self.skills, self.draw, wrong_by_s=wrong,
            around=lambda where: self.die_if_armed(number, where), fault=self.disk_fault,
        )  # fmt: skip
        self.told.executors += 1
        self.living.append(executor)
        return executor

    def die_if_armed(self, number: int, where: str) -> None:
        if self.armed.get(number) == where:
            self.kill(number, f"kill {where}")

    def kill(self, number: int, how: str) -> None:
        self.loop.kill(number)
        self.told.faults[how] += 1
        self.say(f"executor {number}: {how}")

    def disk_fault(self) -> None:
        if self.disk_fails and not self.is_calm:
            self.disk_fails -= 1
            self.told.faults["disk"] += 1
            self.say("the disk fails")
            raise StoreError("disk I/O error")

    # -- what befalls them -------------------------------------------------------------------------------------------

    async def befall(self) -> None:
        """Some faults at some times; the dead are replaced."""
        ends = self.loop.time() + CHAOS_S
        for _ in range(self.draw.randint(1, 4)):
            await asyncio.sleep(self.draw.random() * 5)
            alive = [each for each in self.living if each.is_alive]
            if not alive:  # armed ones have died since
                self.set_to_work(self.bear())
                continue
            await self.one_fault(self.draw.choice(FAULTS), self.draw.choice(alive).number)
        self.is_over = True
        while self.loop.time() < ends and not self.is_at_rest:  # noqa: ASYNC110  # time is free
            await asyncio.sleep(1)
        self.is_calm = True
        self.armed.clear()

    @property
    def is_at_rest(self) -> bool:
        """No job changes any more unless somebody new comes."""
        return all(job.name in self.done or self.held[job.name] >= OFTEN for job in self.jobs)

    async def one_fault(self, fault: str, number: int) -> None:
        if fault == "kill":
            self.kill(number, fault)
        elif fault == "freeze":
            seconds = self.draw.random() * 3 * LEASE_S
            self.loop.freeze(number, seconds)
            self.told.faults[fault] += 1
            self.say(f"executor {number}: frozen for {seconds:.1f} s")
        elif fault == "disk":
            self.disk_fails = self.draw.randint(1, 3)
        elif fault == "clock":
            clock = next(each.clock for each in self.living if each.number == number)
            clock.wrong_by_s += self.draw.choice((-3.0, -0.5, 0.5, 3.0))
            self.told.faults[fault] += 1
            self.say(f"executor {number}: its clock is set to be wrong by {clock.wrong_by_s:.1f} s")
        else:
            self.armed[number] = fault.removeprefix("kill ")
        await asyncio.sleep(self.draw.random())
        if not any(each.is_alive for each in self.living) or self.draw.random() < 0.5:
            self.set_to_work(self.bear())

    def set_to_work(self, executor: Executor) -> None:
        executor.begin(self.work(executor))

    # -- work --------------------------------------------------------------------------------------------------------

    async def work(self, executor: Executor) -> None:
        """What a service does: starts what was not started, goes on with what is there."""
        while not self.is_calm and len(self.done) < len(self.jobs):
            deed = self.draw.choice((self.drive_job, self.drive_job, self.recover))
            try:
                await deed(executor)
            except ReenactError as error:
                self.say(f"executor {executor.number}: {type(error).__name__}: {error}")
            await asyncio.sleep(self.draw.random() * 4)

    async def recover(self, executor: Executor) -> None:
        results = await executor.runtime.recover_async()
        self.say(f"executor {executor.number}: recovered {[each.status for each in results]}")

    async def drive_job(self, executor: Executor) -> None:
        job = self.draw.choice([job for job in self.jobs if job.name not in self.done])
        self.say(f"executor {executor.number}: begins with {job.name}")
        if job.is_plan:
            await self.drive_plan(executor, job)
        else:
            await self.drive_session(executor, job)
        if self.has_ended(executor, job):
            self.done.add(job.name)
        elif self.is_over and self.status(executor, job) == "held":
            self.held[job.name] += 1
        self.say(f"executor {executor.number}: has left {job.name}")

    async def drive_plan(self, executor: Executor, job: Job) -> None:
        """One executor starts it; its id is known from before its first commit."""
        runtime = executor.runtime
        run_id = self.run_ids.get(job.name)
        if run_id is None:
            run_id = self.run_ids[job.name] = executor.clock.uuid7()
            await runtime.run_async(job.document, run_id=run_id)
            return
        try:
            await runtime.resume_async(run_id)
        except RunNotFound:  # whoever was to start it died before its first commit
            await runtime.run_async(job.document, run_id=run_id)

    async def drive_session(self, executor: Executor, job: Job) -> str:
        async with executor.runtime.session(id=job.name) as session:
            self.run_ids[job.name] = session.run_id
            found = []
            for number, phase in enumerate(job.phases):
                lanes = [f"p{number}-{place}" if len(phase) > 1 else None for place in range(len(phase))]
                found += await asyncio.gather(*map(partial(one_call, session), phase, lanes))
        return ", ".join(str(outcome.output) for outcome in found)

    # -- the end -----------------------------------------------------------------------------------------------------

    async def whole(self) -> None:
        for _ in range(self.draw.randint(2, 3)):
            self.set_to_work(self.bear())
        await self.befall()
        await asyncio.sleep(self.loop.thaws_in + 10)  # all have woken up, and come to the end of what they were at
        for executor in self.living:
            self.loop.kill(executor.number)
        await self.judged()

    async def judged(self) -> None:
        """Somebody comes to clean up: everything ends, and is what it must be."""
        judge = self.bear(wrong_by_s=0.0)
        await asyncio.wait_for(judge.begin(self.to_the_end(judge)), 3600)
        for job in self.jobs:
            self.check(judge, job)
            if self.told.seed % REPLAYED == 0:
                await self.check_replay(judge, job)

    async def to_the_end(self, judge: Executor) -> None:
        for _ in range(12):
            left = [job for job in self.jobs if not self.has_ended(judge, job)]
            for job in left:
                try:
                    await (self.drive_plan if job.is_plan else self.drive_session)(judge, job)
                except ReenactError as error:
                    self.say(f"the judge, {job.name}: {type(error).__name__}: {error}")
                await self.resolve(judge, job)
            if not left:
                return
            await asyncio.sleep(LEASE_S + 1)

    def has_ended(self, executor: Executor, job: Job) -> bool:
        return self.status(executor, job) in ENDED

    def status(self, executor: Executor, job: Job) -> str | None:
        run_id = self.run_ids.get(job.name)
        try:
            return None if run_id is None else executor.store.find_run(run_id).status
        except RunNotFound:
            return None

    async def resolve(self, judge: Executor, job: Job) -> None:
        """From the tool's own ledger: nobody is at work any more who could still act."""
        run_id = self.run_ids.get(job.name)
        if run_id is None or self.has_ended(judge, job):
            return
        by_name = {f"s{number}": asked for number, asked in enumerate(job.calls)}
        for trace in list(load_fold(judge.store, run_id).fold.open.values()):
            if trace.state != "EXECUTING":
                continue
            asked = by_name.get(trace.step_id) or self.asked_by(job, trace.step_id)
            done = self.ledger.acts[asked.name] > 0
            resolution: Any = "succeeded" if done else "redispatch"
            try:
                await people.resolve(
                    judge.runtime, run_id, trace.step_id, resolution, reason="the ledger says so",
                    output=result(asked.name) if done else None,
                )  # fmt: skip
                self.say(f"the judge: {trace.step_id} {resolution}")
            except ReenactError as error:
                self.say(f"the judge, {trace.step_id}: {type(error).__name__}: {error}")

    def asked_by(self, job: Job, name: str) -> Any:
        """The call of a session's program, by its name: `main:N`, or `main.pN-M:1` of a lane."""
        lane, _, place = name.rpartition(":")
        if lane == "main":
            narrow = [phase[0] for phase in job.phases if len(phase) == 1]
            return narrow[int(place) - 1]
        phase, _, member = lane.removeprefix("main.p").partition("-")
        return job.phases[int(phase)][int(member)]

    def check(self, judge: Executor, job: Job) -> None:
        def hold(is_so: bool, what: str) -> None:
            if not is_so:
                self.told.wrong.append(f"{job.name}: {what}")

        run_id = self.run_ids.get(job.name)
        hold(run_id is not None and self.has_ended(judge, job), "it did not come to an end")
        if self.told.wrong or run_id is None:
            return
        hold(judge.store.find_run(run_id).status == "completed", f"it is {judge.store.find_run(run_id).status}")
        for asked in job.calls:
            if asked.skill_id in (*HONOUR_KEY, *HELD):
                keys, acts = self.ledger.keys[asked.name], self.ledger.acts[asked.name]
                hold(len(keys) == 1, f"{asked.name} arrived under {keys}")
                hold(acts == 1, f"{asked.name} was done {acts} times")

    async def check_replay(self, judge: Executor, job: Job) -> None:
        """It verifies, its answer is the oracle's, and it replays."""
        if self.told.wrong:
            return
        try:
            recording = load_recording(judge.store, self.run_ids[job.name])
            got = sorted(str(recording.output(step_id)) for step_id in recording.steps)
            if got != sorted(result(asked.name) for asked in job.calls):
                self.told.wrong.append(f"{job.name}: it answers {got}")
            replayed = await mock_replay(recording, self.skills)
            if replayed.verdict != "matched":
                self.told.wrong.append(f"{job.name}: its replay {replayed.verdict}: {replayed.divergence}")
        except ReenactError as error:
            self.told.wrong.append(f"{job.name}: {type(error).__name__}: {error}")

    def run(self) -> Told:
        with OneThread(self.loop, self.draw):
            try:
                self.loop.run_until_complete(self.whole())
            except Exception as error:  # a schedule that fails tells of its seed
                self.told.wrong.append(f"{type(error).__name__}: {error}")
            finally:
                self.bury()
        self.told.turns, self.told.interleaving = self.loop.turns, self.loop.taken.digest()
        return self.told

    def bury(self) -> None:
        """Of whoever died nothing runs any more: their stores are closed first."""
        for executor in self.living:
            executor.store.close()
        self.loop.bury()


class Template:
    """A store to begin with, made once: each schedule has a copy of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="reenact-simulation-", dir=memory_folder()))
        SqliteStore(str(self.folder / "new" / "store.db")).close()
        self._count = 0

    def copy(self) -> Path:
        self._count += 1
        at = self.folder / str(self._count)
        shutil.copytree(self.folder / "new", at)
        return at / "store.db"

    def remove(self, path: Path) -> None:
        shutil.rmtree(path.parent, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def simulate(seed: int, template: Template) -> Told:
    path = template.copy()
    try:
        return Schedule(seed, path).run()
    finally:
        template.remove(path)
