"""A time in the evidence is one that a clock can show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.vectors.scenarios import three_steps

from reenact.errors import UsageError
from reenact.values.clock import format_ts, parse_ts
from reenact.verify import verify_lines
from reenact.verify.shapes import Time
from tests.verify.test_tampering import Kept


def is_time(text: str) -> bool:
    try:
        msgspec.convert(text, Time)
    except msgspec.ValidationError:
        return False
    return True


def is_read(text: str) -> bool:
    try:
        parse_ts(text)
    except UsageError:
        return False
    return True


def test_every_day_of_four_centuries_is_one_and_no_other_is() -> None:
    day, days = datetime(1900, 1, 1, tzinfo=UTC), set()
    while day.year < 2301:
        days.add(day.strftime("%Y-%m-%d"))
        day += timedelta(days=1)
    for year in range(1900, 2301):
        for month in range(14):
            for number in (0, 1, 28, 29, 30, 31, 32):
                text = f"{year}-{month:02d}-{number:02d}"
                assert is_time(f"{text}T00:00:00.000Z") == (text in days), text


@pytest.mark.parametrize("text", ["24:00:00.000", "00:60:00.000", "00:00:60.000", "29:00:00.000"])
def test_a_time_of_no_day_is_none(text: str) -> None:
    assert not is_time(f"2026-01-01T{text}Z")


@given(st.integers(0, 253402300799999))
def test_every_time_that_can_be_written_is_one(ms: int) -> None:
    assert is_time(format_ts(ms))


@given(st.from_regex(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\Z"))
def test_the_verifier_and_the_clock_agree_on_what_is_a_time(text: str) -> None:
    assert is_time(text) == is_read(text)


def test_an_entry_at_a_time_that_never_was_is_found() -> None:
    run = three_steps(seal=False)
    bodies = [body.replace(b"2026-01-01T", b"2026-13-45T") for body in run.bodies]
    assert bodies != run.bodies
    first = verify_lines(bodies, Kept(run)).first_break
    assert first is not None
    assert (first.code, first.where.line) == ("LINE_MALFORMED", 2)
