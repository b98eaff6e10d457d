"""How much a worker grows while it runs. A process of its own: `python -m tests.soak.memory STEPS`."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from reenact import Runtime, SkillContext, skill
from tests.conftest import ROOT

WARM_UP = 2_000
STEPS_PER_RUN = 50


@skill("work", version="1.0.0", tool_class="write", honours_key=True)
def work(ctx: SkillContext, n: int, text: str) -> dict[str, int | str]:
    """As a tool does: it takes some text and gives some back, each time another."""
    ctx.side_effect("written", f"row {n}")
    return {"n": n, "text": text[::-1]}


def resident_kb() -> int:
    """What the process holds now, not what it once held."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // 1024


def plan(number: int, steps: int) -> dict[str, object]:
    parts = [
        {"step_id": f"s{k}", "skill_id": "work", "parameters": {"n": k, "text": f"run {number} step {k} " * 20}}
        for k in range(steps)
    ]
    return {"plan_id": f"p{number}", "agent_id": "a", "steps": parts}


def grow(steps: int) -> int:
    """Kilobytes that a worker grows by after its first 2,000 steps."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        runtime = Runtime(f"sqlite:///{folder}/store.db", skills=[work])
        warm = 0
        for number in range(steps // STEPS_PER_RUN):
            assert runtime.run(plan(number, STEPS_PER_RUN)).status == "completed"
            if (number + 1) * STEPS_PER_RUN == WARM_UP:
                warm = resident_kb()
        return resident_kb() - warm


def measure(steps: int) -> int:
    """The same in a fresh process, so that nothing else of this one counts."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.memory", str(steps)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return int(done.stdout)


if __name__ == "__main__":
    print(grow(int(sys.argv[1])))
