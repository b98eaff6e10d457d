"""Silencing the logs of HTTP libraries while they work for a skill: they would tell headers, addresses, bodies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

# Each logs under these names itself: a filter on a parent would not see what its children say.
TALKATIVE: Final = (
    "anthropic", "anthropic._base_client", "anthropic._legacy_response", "anthropic._response",
    "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpx2",
    "openai", "openai._base_client", "openai._legacy_response", "openai._response",
)  # fmt: skip
_inside: ContextVar[bool] = ContextVar("reenact_inside_an_exchange", default=False)


class _Silence(logging.Filter):
    """Drops what is below a warning, and only while an exchange of ours is going on."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or not _inside.get()


_SILENCE: Final = _Silence()


@contextmanager
def quiet() -> Iterator[None]:
    """Secrets are in what goes over the wire, and nothing takes them out of another library's log."""
    for name in TALKATIVE:
        logging.getLogger(name).addFilter(_SILENCE)
    before = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(before)
