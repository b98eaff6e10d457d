"""Servers of every version that is here."""

from tests.postgres.conftest import any_server

__all__ = ["any_server"]
