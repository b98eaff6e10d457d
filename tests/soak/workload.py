"""What the workers of a soak do: random plans and sessions, recoveries, and people who decide."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

from reenact import Runtime, SkillContext, skill
from reenact.contracts.records import UNFINISHED
from reenact.errors import (
    ConcurrentExecution,
    LockAcquireFailed,
    SkillError,
    UsageError,
    WaitingForPerson,
)
from reenact.runtime.people import decisions as people
from reenact.store.base import RunRow
from tests.crash.harness import MANY_DEATHS, SKILLS, Stage
from tests.crash.world import Ledger
from tests.runtime.clocks import HastyClock

HASTY_S = 11.0
"""A worker whose clock is ahead takes every lease for lapsed: what it takes from the living comes back late."""

PLANS = 6
"""Some plans are pinned once and run often: under one salt their keys are the same keys."""


@skill("mail", version="1.0.0", tool_class="write")
def mail(ctx: SkillContext, ledger: str, text: str) -> str:
    """A tool that knows nothing of keys."""
    book = Ledger(ledger)
    book.arrive(ctx)
    book.act(ctx)
    return text


def was_done(ctx: SkillContext, ledger: str, value: int) -> dict[str, object]:
    return {"done": ctx.idempotency_key in Ledger(ledger).effects(), "output": value}


@skill("careful", version="1.0.0", tool_class="write", in_doubt="reconcile", reconcile=was_done)
def careful(ctx: SkillContext, ledger: str, value: int) -> int:
    """Can be asked afterwards whether it acted."""
    book = Ledger(ledger)
    book.arrive(ctx)
    book.act(ctx)
    return value


@skill("precious", version="1.0.0", tool_class="write", in_doubt="hold")
def precious(ctx: SkillContext, ledger: str) -> str:
    """Is never sent twice without a person."""
    book = Ledger(ledger)
    book.arrive(ctx)
    book.act(ctx)
    return "done"


@skill("doomed", version="1.0.0", tool_class="write", honours_key=True, retry={"max_retries": 1, "backoff_base_ms": 1})
def doomed(ctx: SkillContext, ledger: str, code: str) -> None:
    """Fails, each time."""
    Ledger(ledger).arrive(ctx)
    raise SkillError.of(code, "as planned")


ALL_SKILLS = (*SKILLS, mail, careful, precious, doomed)


def random_step(rng: random.Random, index: int, book: str) -> dict[str, Any]:
    """One step of any kind that a run may meet."""
    text = f"{{{{s{rng.randrange(index)}}}}}" if index and rng.random() < 0.2 else f"text {rng.randrange(5)}"
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("act", {"value": rng.randrange(9)}),
        ("flaky", {"failures": rng.randrange(4)}),
        ("note", {"text": text}),
        ("mail", {"text": text}),
        ("careful", {"value": index}),
        ("precious", {}),
        ("doomed", {"code": rng.choice(["ERR_TIMEOUT", "ERR_JSON_INVALID"])}),
        ("nobody", {}),
    ]
    skill_id, parameters = rng.choices(kinds, weights=[6, 6, 6, 3, 3, 1, 2, 2])[0]
    step: dict[str, Any] = {
        "step_id": f"s{index}",
        "skill_id": skill_id,
        "parameters": {"ledger": book, **parameters},
        "on_error": "continue" if rng.random() < 0.8 else "abort",
    }
    if skill_id == "nobody":
        step["skill_version"] = "1.0.0"
    if skill_id == "act" and rng.random() < 0.4:
        step["idempotency_key"] = f"key {rng.randrange(3)}"
        step["parameters"]["value"] = 1
        step["step_id"] = f"k{index}"
    return step


def random_plan(rng: random.Random, book: str) -> dict[str, Any]:
    steps = [random_step(rng, index, book) for index in range(rng.randint(1, 8))]
    names = {f"s{index}": step["step_id"] for index, step in enumerate(steps)}
    for step in steps:  # references follow the names that keyed steps have
        for name, value in step["parameters"].items():
            if isinstance(value, str) and value.startswith("{{"):
                step["parameters"][name] = "{{" + names[value.strip("{}")] + "}}"
    context = {"supervisor": "ask"} if rng.random() < 0.15 else {}
    return {"plan_id": "soak", "agent_id": "soak", "steps": steps, "context": context}


def pinned_plans(stage: Stage, rng: random.Random) -> list[dict[str, Any]]:
    runtime = Runtime(stage.store_path, skills=ALL_SKILLS)
    plans = [runtime.pinned(random_plan(rng, stage.ledger_path)) for _ in range(PLANS)]
    runtime.close()
    return plans


class Worker:
    """One process: works until it is killed."""

    def __init__(self, stage: Stage, plans: list[dict[str, Any]], seed: int, *, hasty: bool) -> None:
        self.stage = stage
        self.plans = plans
        self.rng = random.Random(seed)
        self.hasty = hasty
        clock = HastyClock(HASTY_S) if hasty else None
        self.runtime = Runtime(stage.store_path, skills=ALL_SKILLS, max_redispatches=MANY_DEATHS, clock=clock)

    def work(self, *, until_idle: bool = False) -> None:
        """For ever, or until nothing is left to do."""
        while True:
            if until_idle and not self.go_on():
                return
            if not until_idle:
                self.act_at_random()

    def act_at_random(self) -> None:
        choices = [self.run_plan, self.run_pinned_plan, self.run_session, self.go_on]
        self.expecting_trouble(self.rng.choices(choices, weights=[3, 4, 3, 6 if self.hasty else 4])[0])

    def expecting_trouble(self, act: Any) -> None:
        """A lease that was taken, or is in other hands, is life. Anything else ends the soak."""
        try:
            act()
        except (ConcurrentExecution, LockAcquireFailed, WaitingForPerson):
            pass
        except UsageError as error:
            if not expected(str(error)):
                raise

    def run_plan(self) -> None:
        self.done(self.runtime.run(random_plan(self.rng, self.stage.ledger_path)).run_id)

    def run_pinned_plan(self) -> None:
        self.done(self.runtime.run(self.rng.choice(self.plans)).run_id)

    def run_session(self) -> None:
        asyncio.run(self.session())

    async def session(self, resume: str | None = None) -> None:
        interrupted = self.rng.choice(["synthesize", "settle"])
        opening = self.runtime.session(goal="soak", agent_id="soak", resume=resume, interrupted=interrupted)
        async with opening as s:
            for _ in range(self.rng.randint(0, 3)):
                calls = [random_step(self.rng, 0, self.stage.ledger_path) for _ in range(self.rng.randint(1, 4))]
                await asyncio.gather(
                    *(
                        s.call(call["skill_id"], call["parameters"], idempotency_key=call.get("idempotency_key"))
                        for call in calls
                    ),
                    return_exceptions=False,
                )
                await s.turn()
        self.done(s.run_id)

    def go_on(self) -> bool:
        """Some run that has not ended: resumed, or a person's word given. False when there is none."""
        rows = self.runtime.store.runs(status=UNFINISHED)
        if not rows:
            return False
        row = self.rng.choice(rows)
        self.expecting_trouble(lambda: self.go_on_with(row))
        return True

    def go_on_with(self, row: RunRow) -> None:
        if row.status == "waiting" and self.rng.random() < 0.9:
            self.decide(row)
        elif row.status == "held" and self.rng.random() < 0.9:
            self.resolve(row)
        elif row.kind == "session" and self.rng.random() < 0.8:
            asyncio.run(self.session(resume=row.run_id))
        else:
            self.runtime.resume(row.run_id)

    def decide(self, row: RunRow) -> None:
        approve = self.rng.random() < 0.7
        try:
            asyncio.run(people.vote(self.runtime, row.run_id, None, approve=approve, reason="soak", who="soak"))
        except UsageError as error:
            if not expected(str(error)):
                raise
        self.runtime.resume(row.run_id)

    def resolve(self, row: RunRow) -> None:
        found = self.runtime.resume(row.run_id)
        if found.status != "held" or found.reason is None:
            return
        step_id = found.reason.split()[1]
        resolution: Any = self.rng.choice(["succeeded", "failed", "redispatch"])
        asyncio.run(people.resolve(self.runtime, row.run_id, step_id, resolution, reason="soak", who="soak"))

    def done(self, run_id: str) -> None:
        """What the caller was told has to stand, whatever comes after."""
        status = self.runtime.store.find_run(run_id).status
        line = f"{run_id} {status}\n".encode()
        descriptor = os.open(acknowledged(self.stage.folder), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)


def acknowledged(folder: Path) -> Path:
    return folder / "acknowledged.txt"


def expected(message: str) -> bool:
    """Two workers did the same at the same time, and the second was told."""
    return any(
        part in message for part in ("does not wait", "voted on already", "has ended", "not in doubt", "waits about")
    )
