"""A command on a fresh store."""

from tests.cli.conftest import reenact

__all__ = ["reenact"]
