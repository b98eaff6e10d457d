"""The long form: `make soak`, or `python -m tests.soak`.

SOAK_KILLS (2,000) says how many workers are killed, SOAK_SEED repeats a campaign, SOAK_MINUTES ends it early. A crowd
of twenty processes then writes to one file for a minute, and a worker runs 20,000 steps. What failed is kept in a
folder whose name is printed.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.campaign import soak
from tests.soak.memory import measure
from tests.store.sqlite.crowd import check, gather

KILLS = int(os.environ.get("SOAK_KILLS", "2000"))
SEED = int(os.environ.get("SOAK_SEED") or random.randrange(2**32))
MINUTES = os.environ.get("SOAK_MINUTES")
CROWD_S = 60.0
STEPS = 20_000
MOST_KB = 5_000


def main() -> int:
    print(f"seed {SEED}: SOAK_SEED={SEED} SOAK_KILLS={KILLS} repeats it", flush=True)
    began = time.monotonic()
    deadline = began + float(MINUTES) * 60 if MINUTES else None
    tally = soak(SEED, kills=KILLS, deadline=deadline)
    print(f"{tally}; {time.monotonic() - began:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="reenact-crowd-") as folder:
        print(check(Path(folder), gather(Path(folder), processes=20, seconds=CROWD_S)), flush=True)
    grown = measure(STEPS)
    print(f"a worker of {STEPS} steps grew by {grown} kB after its first 2,000", flush=True)
    return 0 if grown < MOST_KB else 1


if __name__ == "__main__":
    sys.exit(main())
