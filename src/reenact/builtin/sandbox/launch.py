"""The launcher of the sandbox: `python -I -S launch.py DESCRIPTOR EXECUTABLE [ARGUMENT …]`.

A program of its own, started with an empty environment. It runs what lies beside it, and nothing else of Reenact: the
packages on the way are made empty here, so that their own code is not run.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType


def main() -> int:
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in ("reenact.builtin.sandbox", "reenact.builtin", "reenact"):
        package = ModuleType(name)
        package.__path__ = [folder]
        sys.modules[name] = package
        folder = os.path.dirname(folder)
    from reenact.builtin.sandbox.supervisor import supervise

    return supervise(int(sys.argv[1]), sys.argv[2:])


if __name__ == "__main__":
    os._exit(main())
