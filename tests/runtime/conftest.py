"""Stores and worlds, as the crash tests have them."""

from tests.crash.conftest import stage

__all__ = ["stage"]
