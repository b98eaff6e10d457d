"""Times that are given, and the monotonic clock for time-outs."""
import time
from datetime import datetime, timedelta, timezone


def due(now: datetime, deadline: datetime) -> bool:
    return now > deadline


def parse(text):
    return datetime.fromisoformat(text) + timedelta(days=1)


def fixed():
    return datetime(2025, 12, 1, tzinfo=timezone.utc), datetime.fromtimestamp(0, timezone.utc)


def with_timeout(work, limit):
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if work():
            return True
    return False


def shown(moment):
    return time.strftime("%Y", time.gmtime(moment))
