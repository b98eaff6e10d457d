"""`python -m reenact`, and the command itself: Ctrl-C is heard before anything else is imported."""

import sys


def main() -> None:
    """The command. Interrupted while it still imports, it says so like anywhere else."""
    try:
        from reenact.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
