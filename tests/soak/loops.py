"""Random agent loops, each a program that may be killed and is started again until it has ended.

`python -m tests.soak.loops FOLDER SEED FORM` is one start. What a loop does, and how its tools misbehave, follows from
the seed and the names of its calls alone: so a loop that is never killed is the oracle for one that is.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from hashlib import sha256
from pathlib import Path
from typing import Any

from reenact import Runtime, SkillContext, skill
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.session.session import Session
from reenact.runtime.session.sync import SyncSession
from tests.crash.harness import MANY_DEATHS

FOLDER, SEED = "LOOP_FOLDER", "LOOP_SEED"
SESSION = "loop"
TIMEOUT_MS = 400
PATIENCE_S = 0.3
"""Of a caller with a limit of its own."""
WRITES = ("charge", "post", "pay", "sign")


# -- the scripted tool -------------------------------------------------------------------------------------------------


def drawn(*parts: object) -> random.Random:
    """Randomness that belongs to `parts`, in every process."""
    return random.Random(sha256(repr(parts).encode()).digest())


def fault_of(seed: str, name: str, skill_id: str) -> str:
    """What goes wrong with a call, by its name: in an oracle's run nobody dies of it."""
    kinds = ["none"] * 10 + ["die_after"] * 4 + ["die_before"]
    if skill_id in ("charge", "post"):
        kinds += ["timeout", "cut"]
    return drawn(seed, name, "fault").choice(kinds)


class Ledger:
    """What reached the world, a line for each, however its process ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def acts(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == "act"]

    def write(self, event: str, name: str, key: str) -> None:
        line = json.dumps({"event": event, "name": name, "key": key}) + "\n"
        with self.path.open("ab", buffering=0) as file:
            file.write(line.encode())


def once(name: str) -> bool:
    """True the first time that anybody asks, in any process."""
    marks = Path(os.environ[FOLDER]) / "marks"
    marks.mkdir(exist_ok=True)
    try:
        (marks / name.replace(":", "_")).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def die(name: str) -> None:
    if os.environ.get("LOOP_ORACLE") is None and once(f"{name}.died"):
        Ledger(Path(os.environ[FOLDER])).write("died", name, "")
        os.kill(os.getpid(), signal.SIGKILL)


def act(ctx: SkillContext, skill_id: str, name: str, value: int) -> int:
    """One effect, and what is scripted around it."""
    ledger, fault = Ledger(Path(os.environ[FOLDER])), fault_of(os.environ[SEED], name, skill_id)
    ledger.write("arrive", name, ctx.idempotency_key)
    if fault == "die_before":
        die(name)
    honoured = skill_id == "pay" and any(line["key"] == ctx.idempotency_key for line in ledger.acts())
    if not honoured:
        ledger.write("act", name, ctx.idempotency_key)
    if fault == "die_after":
        die(name)
    if fault == "timeout" and once(f"{name}.slow"):
        time.sleep(TIMEOUT_MS / 1000 + 0.2)
    if fault == "cut" and once(f"{name}.cut"):
        raise ConnectionResetError(104, "cut off")
    return result(name, value)


def result(name: str, value: int) -> int:
    return int.from_bytes(sha256(f"{name}/{value}".encode()).digest()[:3], "big")


def was_done(ctx: SkillContext, name: str, value: int) -> dict[str, object]:
    done = any(line["name"] == name for line in Ledger(Path(os.environ[FOLDER])).acts())
    return {"done": done, "output": result(name, value)}


@skill("look", version="1.0.0", tool_class="read", idempotent=False)
def look(name: str, value: int) -> int:
    return result(name, value)


@skill("charge", version="1.0.0", tool_class="write", idempotent=False, in_doubt="hold", timeout_ms=TIMEOUT_MS)
def charge(ctx: SkillContext, name: str, value: int) -> int:
    return act(ctx, "charge", name, value)


@skill(
    "post", version="1.0.0", tool_class="write", idempotent=False, in_doubt="reconcile", reconcile=was_done,
    timeout_ms=TIMEOUT_MS,
)  # fmt: skip
def post(ctx: SkillContext, name: str, value: int) -> int:
    return act(ctx, "post", name, value)


@skill("pay", version="1.0.0", tool_class="write", idempotent=False, honours_key=True)
def pay(ctx: SkillContext, name: str, value: int) -> int:
    return act(ctx, "pay", name, value)


@skill("sign", version="1.0.0", tool_class="write", idempotent=False, in_doubt="hold")
def sign(ctx: SkillContext, name: str, value: int) -> int:
    """Needs a person's word first."""
    return act(ctx, "sign", name, value)


@skill("muse", version="1.0.0", tool_class="write", idempotent=False, in_doubt="hold")
def muse(ctx: SkillContext, name: str, value: int) -> int:
    """Takes longer than its caller waits."""
    answer = act(ctx, "muse", name, value)
    time.sleep(PATIENCE_S + 0.5)
    return answer


def supervisor(proposal: Proposal) -> bool | str:
    return "ask" if proposal.skill_id == "sign" else True


# -- loops -------------------------------------------------------------------------------------------------------------


class Loop:
    """A program of a given seed; `call` makes a call and gives its outcome."""

    limited_writes: tuple[str, ...] = ()

    def __init__(self, seed: str) -> None:
        self.seed = seed

    def plan(self, lane: str, depth: int) -> list[tuple[str, Any]]:
        """What a lane does: calls one after the other, calls side by side, lanes under it."""
        draw = drawn(self.seed, lane, "plan")
        found: list[tuple[str, Any]] = []
        for number in range(draw.randint(2, 4)):
            kinds = ["call"] * 5 + ["gather"] + (["lanes"] * 2 if depth < 2 else [])
            kind = draw.choice(kinds)
            if kind == "call":
                found.append((kind, draw.choice(("look", "look", *WRITES, *self.limited_writes))))
            elif kind == "gather":
                found.append(
                    (kind, [draw.choice(("look", "charge", "post", "pay")) for _ in range(draw.randint(2, 3))])
                )
            else:
                found.append((kind, [f"w{number}{letter}" for letter in "ab"[: draw.randint(1, 2)]]))
        return found

    def heard(self, skill_id: str, name: str, outcome: Any) -> int:
        """What the program goes on with: of a call whose answer may be lost, nothing."""
        if fault_of(self.seed, name, skill_id) in ("timeout", "cut"):
            return 0
        if outcome.output is None:
            raise RuntimeError(f"{name} ended with {outcome.code}: {outcome.message}")
        return int(outcome.output)


class AsyncLoop(Loop):
    limited_writes = ("muse",)

    async def run(self, session: Session) -> int:
        return await self.lane(session, "main", 0, 7)

    async def lane(self, session: Session, lane: str, depth: int, value: int) -> int:
        for number, (kind, what) in enumerate(self.plan(lane, depth)):
            if kind == "call":
                value += await self.call(session, what, f"{lane}.{number}", value)
            elif kind == "gather":
                calls = [self.call(session, each, f"{lane}.{number}.{place}", value) for place, each in enumerate(what)]
                value += sum(await asyncio.gather(*calls))
            else:
                under = [self.under(session, lane, name, depth, value) for name in what]
                value += sum(await asyncio.gather(*under))
        return value

    async def under(self, session: Session, lane: str, name: str, depth: int, value: int) -> int:
        with session.lane(name):
            return await self.lane(session, f"{lane}.{name}", depth + 1, value)

    async def call(self, session: Session, skill_id: str, name: str, value: int) -> int:
        if skill_id == "muse":
            return await self.limited(session, name, value)
        key = f"{self.seed}/{name}" if skill_id == "pay" else None
        outcome = await session.call(skill_id, {"name": name, "value": value}, idempotency_key=key)
        return self.heard(skill_id, name, outcome)

    async def limited(self, session: Session, name: str, value: int) -> int:
        """Gives up on it, and says so to the next; where an earlier start died before that, it may be answered."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await session.call("muse", {"name": name, "value": value})
            came = 1
        except TimeoutError:
            came = 0
        return int((await session.call("look", {"name": f"{name}.after", "value": came})).ok)


class ThreadLoop(Loop):
    """The same with threads, which are in the lane of whoever starts them."""

    def run(self, session: SyncSession) -> int:
        return self.lane(session, "main", 0, 7)

    def lane(self, session: SyncSession, lane: str, depth: int, value: int) -> int:
        for number, (kind, what) in enumerate(self.plan(lane, depth)):
            if kind == "call":
                value += self.call(session, what, f"{lane}.{number}", value)
            elif kind == "gather":
                names = [f"{lane}.{number}.{place}" for place in range(len(what))]
                calls = [self.calling(session, *each, value) for each in zip(what, names, strict=True)]
                value += sum(side_by_side(calls))
            else:
                value += sum(side_by_side([self.under(session, lane, name, depth, value) for name in what]))
        return value

    def calling(self, session: SyncSession, skill_id: str, name: str, value: int) -> Callable[[], int]:
        return lambda: self.call(session, skill_id, name, value)

    def under(self, session: SyncSession, lane: str, name: str, depth: int, value: int) -> Callable[[], int]:
        def work() -> int:
            with session.lane(name):
                return self.lane(session, f"{lane}.{name}", depth + 1, value)

        return work

    def call(self, session: SyncSession, skill_id: str, name: str, value: int) -> int:
        key = f"{self.seed}/{name}" if skill_id == "pay" else None
        outcome = session.call(skill_id, {"name": name, "value": value}, idempotency_key=key)
        return self.heard(skill_id, name, outcome)


def side_by_side(works: list[Callable[[], int]]) -> list[int]:
    """Each in a thread; the first trouble is raised when all have ended."""
    found: list[int] = [0] * len(works)
    troubles: list[BaseException] = []

    def run(place: int) -> None:
        try:
            found[place] = works[place]()
        except BaseException as error:
            troubles.append(error)

    here = [copy_context() for _ in works]
    threads = [threading.Thread(target=here[place].run, args=(run, place)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if troubles:
        raise troubles[0]
    return found


def runtime(folder: Path) -> Runtime:
    skills = [look, charge, post, pay, sign, muse]
    return Runtime(str(folder / "store.db"), skills=skills, supervisor=supervisor, max_redispatches=MANY_DEATHS)


def start(folder: Path, seed: str, form: str) -> int:
    """One start of the loop, from its top; its final answer."""
    engine = runtime(folder)
    if form == "threads":
        with engine.session(id=SESSION) as session:
            return ThreadLoop(seed).run(session)

    async def run() -> int:
        async with engine.session(id=SESSION) as session:
            return await AsyncLoop(seed).run(session)

    return asyncio.run(run())


if __name__ == "__main__":
    at, seed, form = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.environ[FOLDER], os.environ[SEED] = str(at), seed
    print(json.dumps({"answer": start(at, seed, form)}))
