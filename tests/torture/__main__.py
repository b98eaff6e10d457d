"""`python -m tests.torture [SWEEP …] [--short] [--only CASE]`: see the package."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.torture import shim

MARK = "TORTURE_SHIM"
SWEEPS = ("faults", "power", "frozen", "restores", "keys")
SHORT = {"faults": 30, "power": 28, "frozen": 4, "restores": 6, "keys": 2}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("sweeps", nargs="*", help=f"of {', '.join(SWEEPS)}; all where none is named")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--count", type=int, help="so many cases, some of every kind")
    parser.add_argument("--only")
    asked = parser.parse_args()
    if unknown := [name for name in asked.sweeps if name not in SWEEPS]:
        parser.error(f"there is no sweep {unknown[0]}")
    if MARK not in os.environ:
        return with_shim()
    from tests.torture.sweeping import run

    well = [run(name, SHORT[name] if asked.short else asked.count, asked.only) for name in asked.sweeps or SWEEPS]
    return 0 if all(well) else 1


def with_shim() -> int:
    """This same command once more, with the shim between it and the system."""
    if not shim.is_possible():
        print("skipped: the shim needs Linux and a compiler of C (cc)")
        return 0
    with tempfile.TemporaryDirectory(prefix="torture-shim-") as folder:
        library = shim.build(Path(folder))
        env = {**os.environ, "LD_PRELOAD": str(library), MARK: "1"}
        for name in [name for name in env if name.startswith("REENACT_")]:
            del env[name]
        return subprocess.run([sys.executable, "-m", "tests.torture", *sys.argv[1:]], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
