"""One store file with runs of every kind; each test works on a copy."""

from tests.store.checks.conftest import original

__all__ = ["original"]
