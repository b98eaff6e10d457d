"""The sweeps by name; imported only where the shim is loaded."""

from __future__ import annotations

from tests.torture import faults, frozen, lost_keys, power, restores
from tests.torture.campaign import WORKERS, campaign

ALL = {"faults": faults, "power": power, "frozen": frozen, "restores": restores, "keys": lost_keys}


def run(name: str, count: int | None, only: str | None) -> bool:
    module = ALL[name]
    workers = frozen.WORKERS if module is frozen else WORKERS
    return campaign(name, module.cases, module.run, count=count, only=only, workers=workers)
