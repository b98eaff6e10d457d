"""A command on a fresh store, and on one that was recorded into."""

from tests.cli.conftest import recorded, reenact

__all__ = ["recorded", "reenact"]
