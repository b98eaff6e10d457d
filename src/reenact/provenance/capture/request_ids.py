"""Provider request ids, from a response's headers: by them a provider can be asked about a request later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

HEADERS: Final = ("request-id", "x-request-id", "cf-ray", "x-goog-request-id")


def request_id_from_headers(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> str | None:
    """The first non-empty of the providers' headers, whatever the case of its name; None where there is none.

    A header that comes twice is joined with a comma, as HTTP says.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name.lower(), []).append(value.strip(" \t\r\n"))
    for name in HEADERS:
        value = ", ".join(found.get(name, ()))
        if value:
            return value
    return None
