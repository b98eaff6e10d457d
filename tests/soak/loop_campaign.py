"""Kills random agent loops, starts them again, and holds what came of it against an oracle that nobody killed.

`python -m tests.soak.loop_campaign KILLS [SEED]`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from reenact.contracts.records import ENDED
from reenact.errors import ReenactError
from reenact.record.reader import steps_of
from reenact.runtime.people import decisions
from reenact.store.checks.verification import verify_run
from tests.shares import part_of
from tests.soak import loops

LONGEST_S = 120.0
STARTS = 200


@dataclass
class Counted:
    """What a campaign has seen."""

    loops: int = 0
    starts: int = 0
    kills: int = 0
    between_send_and_record: int = 0
    approvals: int = 0
    resolved: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.loops} loops, {self.starts} starts, {self.kills} kills "
            f"({self.between_send_and_record} between send and record), {self.approvals} approvals, "
            f"{self.resolved} calls in doubt resolved, {len(self.wrong)} wrong"
        )


@dataclass
class Trial:
    """One loop in a folder of its own."""

    folder: Path
    seed: str
    form: str
    counted: Counted

    def process(self, *, oracle: bool = False) -> subprocess.Popen[bytes]:
        env = {**os.environ, loops.FOLDER: str(self.folder), loops.SEED: self.seed}
        env.pop("LOOP_ORACLE", None)
        if oracle:
            env["LOOP_ORACLE"] = "1"
        command = [sys.executable, "-m", "tests.soak.loops", str(self.folder), self.seed, self.form]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def help(self) -> None:
        """What people do between two starts: approve what waits, and look into the ledger for what is in doubt."""
        engine = loops.runtime(self.folder)
        try:
            row = engine.store.find_run(loops.SESSION)
        except ReenactError:
            return
        if row.status in ENDED:
            return
        done = {line["name"] for line in loops.Ledger(self.folder).acts()}
        for step in steps_of(engine.store, row.run_id).values():
            parameters = step.parameters()
            assert isinstance(parameters, dict)
            name = str(parameters.get("name"))
            if step.trace.state == "PENDING" and self.is_asked(engine, row.run_id, step.step_id):
                self.counted.approvals += 1
            elif step.trace.state == "EXECUTING" and step.trace.meta("skill_id") in ("charge", "sign", "muse"):
                happened = name in done
                output = loops.result(name, int(str(parameters["value"]))) if happened else None
                asyncio.run(
                    decisions.resolve(
                        engine,
                        row.run_id,
                        step.step_id,
                        "succeeded" if happened else "redispatch",
                        reason="as the ledger says",
                        output=output,
                    )
                )
                self.counted.resolved += 1
        engine.close()

    def is_asked(self, engine: object, run_id: str, step_id: str) -> bool:
        try:
            asyncio.run(decisions.vote(engine, run_id, step_id, approve=True, reason="fine", who="kim"))  # type: ignore[arg-type]
        except ReenactError:
            return False  # it does not wait for anybody
        return True

    def until_the_end(self, draw: random.Random, *, kill: bool) -> int | None:
        """Starts the loop again and again; its final answer."""
        last = ""
        for _ in range(STARTS):
            self.counted.starts += 1
            process = self.process(oracle=not kill)
            at = draw.uniform(0.25, 1.6) if kill and draw.random() < 0.6 else LONGEST_S
            try:
                out, err = process.communicate(timeout=at)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
            if process.returncode == 0 and self.has_ended():
                return int(json.loads(out)["answer"])
            if process.returncode == -9:
                self.counted.kills += 1
            elif b"WaitingForPerson" not in err and process.returncode != 0:
                last = err.decode()[-900:]
                if b"Diverged" in err:
                    break
            self.help()
        self.counted.wrong.append(f"seed {self.seed} ({self.form}): it did not end. {last}")
        return None

    def has_ended(self) -> bool:
        engine = loops.runtime(self.folder)
        try:
            return engine.store.find_run(loops.SESSION).status in ENDED
        finally:
            engine.close()

    def effects(self) -> Counter[str]:
        return Counter(line["name"] for line in loops.Ledger(self.folder).acts())

    def record(self) -> dict[str, tuple[str, str]]:
        """Of each recorded call, its tool and what it was for."""
        engine = loops.runtime(self.folder)
        run_id = engine.store.find_run(loops.SESSION).run_id
        found = {}
        for step in steps_of(engine.store, run_id).values():
            parameters = step.parameters()
            assert isinstance(parameters, dict)
            found[str(parameters["name"])] = (str(step.trace.meta("skill_id")), str(step.trace.meta("step_id")))
        engine.close()
        return found


def compare(killed: Trial, oracle: Trial, answer: int, expected: int) -> list[str]:
    """What is wrong with a loop that was killed."""
    wrong = []
    if answer != expected:
        wrong.append(f"its answer is {answer}, the oracle's {expected}")
    names = {name: skill_id for name, (skill_id, _) in killed.record().items()}
    if names != {name: skill_id for name, (skill_id, _) in oracle.record().items()}:
        wrong.append("it has other calls than the oracle")
    if len(killed.record()) != len({place for _, place in killed.record().values()}):
        wrong.append("a name is there twice")
    if killed.effects() != oracle.effects():
        more = {name: count for name, count in killed.effects().items() if count != oracle.effects()[name]}
        wrong.append(f"effects differ: {more}")
    store = str(killed.folder / "store.db")
    if verify_run(store, loops.SESSION).exit_code != 0:
        wrong.append("it does not verify")
    replayed = loops.runtime(killed.folder).replay(loops.SESSION)
    if replayed.verdict != "matched":
        wrong.append(f"its replay: {replayed.verdict} {replayed.divergence}")
    return wrong


def campaign(kills: int, seed: int, *, tell: bool = False) -> Counted:
    """Loops until so many processes were killed."""
    counted, draw, began = Counted(), random.Random(seed), time.monotonic()
    while counted.kills < kills and len(counted.wrong) < 5:
        own, form = f"{seed}-{counted.loops}", draw.choice(("async", "async", "threads"))
        with tempfile.TemporaryDirectory(prefix="reenact-loops-") as place:
            trials = []
            for name in ("oracle", "killed"):
                folder = Path(place) / name
                folder.mkdir()
                trials.append(Trial(folder, own, form, counted))
            oracle, killed = trials
            expected = oracle.until_the_end(draw, kill=False)
            answer = killed.until_the_end(draw, kill=True)
            counted.loops += 1
            died = [line for line in loops.Ledger(killed.folder).lines() if line["event"] == "died"]
            counted.between_send_and_record += len(died)
            if answer is not None and expected is not None:
                for what in compare(killed, oracle, answer, expected):
                    counted.wrong.append(f"seed {own} ({form}): {what}")
                    keep = Path(tempfile.gettempdir()) / f"reenact-loop-{own}"
                    shutil.copytree(place, keep, dirs_exist_ok=True)
        if tell and counted.loops % 10 == 0:
            print(f"{time.monotonic() - began:5.0f} s  {counted}", flush=True)
    return counted


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**8)
    wanted, chosen = part_of(wanted, chosen)
    print(f"seed {chosen}")
    result = campaign(wanted, chosen, tell=True)
    print(result)
    for each in result.wrong:
        print(each)
    if result.between_send_and_record * 5 < result.kills:
        result.wrong.append("")
        print("fewer than a fifth of the kills fell between send and record")
    sys.exit(bool(result.wrong))
