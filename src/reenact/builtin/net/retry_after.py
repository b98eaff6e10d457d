"""`Retry-After`: seconds, or a date (RFC 9110, section 10.2.3)."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

MAX_MS = 86_400_000
LONGEST_DATE = 100


def retry_after_ms(value: str | None, now_ms: int) -> int | None:
    """How long the server asked to wait; None when it did not say, or said what nobody understands."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1000, MAX_MS)
    try:
        moment = parsedate_to_datetime(text[:LONGEST_DATE])
        return min(max(0, round(moment.timestamp() * 1000) - now_ms), MAX_MS)
    except (ValueError, OverflowError):
        return None
