"""The long form; with a COUNT of 1, one schedule with all that happened.

python -m tests.simulation [COUNT] [SEED]      SHARE=1/2 takes every second batch of seeds, and half of COUNT
"""

from __future__ import annotations

import sys

from tests.shares import share
from tests.simulation.campaign import Counted, campaign, quiet
from tests.simulation.schedule import Template, simulate


def one(seed: int) -> Counted:
    counted, template = Counted(), Template()
    try:
        with quiet():
            told = simulate(seed, template)
    finally:
        template.close()
    print("\n".join(told.log))
    counted.add(told)
    return counted


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 20261116
    counted = one(seed) if count == 1 else campaign(count, seed, share())
    print("\n".join(counted.wrong[:10]))
    print(counted)
    sys.exit(bool(counted.wrong))
