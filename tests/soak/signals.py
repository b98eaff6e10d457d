"""Sends real signals at random instants to a program in synchronous sessions: `python -m tests.soak.signals N [SEED]`.

Some come in bursts: right after one another, while the first is still being cleared up.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field

from tests import ctrl_c
from tests.shares import part_of
from tests.soak.interrupted import RAISED

PAUSES_S = (0.005, 0.04, 0.12)
BURST_S = 0.0005


@dataclass
class Signalled:
    """What came of it."""

    sent: int = 0
    seconds: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        raised = sum(count for name, count in self.seen.items() if name.startswith("SIG"))
        return (
            f"{self.sent} signals sent, {raised} of them raised in {self.seen['blocks']} blocks of "
            f"{self.seen['sessions']} sessions with {self.seen['effects']} effects, {self.seen['looks']} looks, "
            f"{len(self.wrong)} wrong, {self.seconds:.0f} s"
        )


def campaign(signals: int, seed: int, *, limit_s: float = 3000.0) -> Signalled:
    draw, result, began = random.Random(seed), Signalled(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="reenact-signals-") as folder, ctrl_c.heard():
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.interrupted", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        while result.sent < signals and program.poll() is None and time.monotonic() - began < limit_s:
            time.sleep(draw.uniform(0, draw.choice(PAUSES_S)))
            for _ in range(draw.choice((1, 1, 1, 2, 3))):
                os.kill(program.pid, draw.choice(list(RAISED)))
                result.sent += 1
                time.sleep(draw.uniform(0, BURST_S))
        told, _ = program.communicate(timeout=120)
        found = json.loads(told)
    result.seen, result.wrong = Counter(found["seen"]), found["wrong"]
    result.seconds = time.monotonic() - began
    return result


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**8)
    wanted, chosen = part_of(wanted, chosen)
    print(f"seed {chosen}", flush=True)
    done = campaign(wanted, chosen)
    print(done)
    for each in done.wrong:
        print(each)
    sys.exit(bool(done.wrong))
