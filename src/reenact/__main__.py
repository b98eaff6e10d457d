"""`python -m reenact`, and the command itself: Ctrl-C is heard before anything else is imported."""

import os
import sys


def main() -> None:
    """The command. Interrupted while it still imports, it says so like anywhere else."""
    open_missing_streams()
    try:
        from reenact.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    run()


def open_missing_streams() -> None:
    """Started with a standard stream closed (`>&-`), the command does its work all the same, and nobody reads of it.

    The descriptors are taken before anything else is opened: a store that got one of them would be written to by every
    message.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - takes no keywords
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115 - it stays open


if __name__ == "__main__":
    main()
