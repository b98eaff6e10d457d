"""`python -m benchmarks [NAME …]`: figures, with their guards where they have one; exit 1 when a guard fails.

`python -m benchmarks compare COMMIT` holds the present against a commit.
"""

from __future__ import annotations

import importlib
import sys

from benchmarks import compare
from benchmarks.figure import Figure

GUARDED = ("plan", "size", "conversation", "canonical", "help", "in_flight", "answers", "signing")
NAMES = (*GUARDED, "disks", "recover", "postgres")


def main(names: list[str]) -> int:
    if names[:1] == ["compare"]:
        return compare.main(names[1:])
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        print(f"error: no benchmark {unknown[0]}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or GUARDED:
        for figure in importlib.import_module(f"benchmarks.{name}").measure():
            print(line(figure), flush=True)
            failed += not figure.holds
    return 1 if failed else 0


def line(figure: Figure) -> str:
    value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"
    cells = f"{figure.name:<48} {value + ' ' + figure.unit:>14}  {figure.guard:<14} {figure.verdict:<6} {figure.note}"
    return cells.rstrip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
