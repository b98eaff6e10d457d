"""Facts of an attempt: all that classification and cost need, and no more."""

from __future__ import annotations

import msgspec


class ExceptionFact(msgspec.Struct, frozen=True, gc=False):
    """One link of a cause chain. `type` is `module.qualname`; `errno` is Linux's number, whatever the machine."""

    errno: int | None
    type: str


class Usage(msgspec.Struct, frozen=True, gc=False):
    """The tokens that a provider billed."""

    input_tokens: int
    output_tokens: int


class Facts(msgspec.Struct, frozen=True):
    """Recorded with each attempt, so that a replay classifies and prices it again instead of trusting the record."""

    exceptions: tuple[ExceptionFact, ...] = ()  # outermost first
    finish_reason: str | None = None
    http_status: int | None = None
    usage: Usage | None = None
