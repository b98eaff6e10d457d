"""The one door to time, ids and randomness."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.values.clock import Clock, FixedClock, SystemClock, Uuid7Sequence, format_ts, parse_ts
from reenact.values.ids import is_uuid7


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (999, "1970-01-01T00:00:00.999Z"),
        (1_735_689_600_007, "2025-01-01T00:00:00.007Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_written_in_one_form_and_read_back(ms: int, text: str) -> None:
    assert format_ts(ms) == text
    assert parse_ts(text) == ms


@given(st.integers(0, 253_402_300_799_999))
def test_every_millisecond_is_read_back_and_sorts_as_text(ms: int) -> None:
    assert parse_ts(format_ts(ms)) == ms
    assert (format_ts(ms) < format_ts(1_735_689_600_000)) == (ms < 1_735_689_600_000)


@pytest.mark.parametrize("ms", [-1, 253_402_300_800_000])
def test_times_outside_the_calendar_are_refused(ms: int) -> None:
    with pytest.raises(UsageError, match="no time between"):
        format_ts(ms)


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-01T00:00:00Z",
        "2025-01-01T00:00:00.00Z",
        "2025-01-01T00:00:00.0000Z",
        "2025-01-01 00:00:00.000Z",
        "2025-01-01T00:00:00.000+00:00",
        "2025-01-01T00:00:00.000Z\n",
        "2025-02-30T00:00:00.000Z",
        "2025-01-01T24:00:00.000Z",
        "2025-01-01T00:00:60.000Z",
        "٢٠٢٥-01-01T00:00:00.000Z",
        "",
    ],
)
def test_times_in_any_other_form_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_ts(text)


def test_the_system_clock_tells_the_time_of_the_system() -> None:
    clock: Clock = SystemClock()
    before = datetime.now(UTC).timestamp() * 1000
    assert before - 1 <= clock.now_ms() <= datetime.now(UTC).timestamp() * 1000
    assert parse_ts(clock.timestamp()) >= before - 1
    assert clock.monotonic() <= clock.monotonic()
    assert len(clock.random_bytes(32)) == 32
    assert clock.random_bytes(32) != clock.random_bytes(32)


def test_ids_rise_without_end_in_one_process() -> None:
    ids = [clock.uuid7() for _ in range(20_000) for clock in (SystemClock(),)]
    assert ids == sorted(set(ids))
    assert all(map(is_uuid7, ids))


def test_ids_carry_the_time_they_were_made() -> None:
    clock = SystemClock()
    before = clock.now_ms()
    made = int(clock.uuid7().replace("-", "")[:12], 16)
    assert before <= made <= clock.now_ms() + 1


def test_ids_rise_also_when_the_clock_stands_still_or_goes_back() -> None:
    times = iter([5000, 5000, 4000, 3000, 5001, 10] * 100)
    sequence = Uuid7Sequence(lambda: next(times) * 1_000_000, os.urandom)
    ids = [sequence.next() for _ in range(600)]
    assert ids == sorted(set(ids))


def test_ids_rise_also_when_the_counter_overflows() -> None:
    sequence = Uuid7Sequence(lambda: 1000 * 1_000_000, bytes)
    first = sequence.next()
    sequence._counter = 2**42 - 2
    last, moved = sequence.next(), sequence.next()
    assert first < last < moved
    assert int(moved[:8] + moved[9:13], 16) == 1001
    assert all(map(is_uuid7, (first, last, moved)))


def test_ids_rise_also_where_the_lower_part_of_the_counter_is_full() -> None:
    sequence = Uuid7Sequence(lambda: 1000 * 1_000_000, bytes)
    first = sequence.next()
    sequence._counter = 2**30 - 2
    ids = [first, *(sequence.next() for _ in range(3))]
    assert ids == sorted(set(ids))
    assert all(map(is_uuid7, ids))


def test_ids_of_threads_are_all_different() -> None:
    made: list[list[str]] = [[] for _ in range(4)]

    def make(into: list[str]) -> None:
        into.extend(SystemClock().uuid7() for _ in range(5000))

    threads = [threading.Thread(target=make, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each for into in made for each in into}) == 20_000
    assert all(into == sorted(into) for into in made)


FORK = """
import os
from reenact.values.clock import SystemClock
clock = SystemClock()
clock.uuid7()
reader, writer = os.pipe()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        os.write(writer, "".join(clock.uuid7() + "\\n" for _ in range(50)).encode())
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
ids = os.read(reader, 65536).decode().split() + [clock.uuid7() for _ in range(50)]
print(len(ids), len(set(ids)), len({each[-8:] for each in ids}))
"""


def test_ids_of_forked_children_are_not_their_parents_again() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=60)
    count, different, tails = map(int, done.stdout.split())
    assert count == different == 200
    assert tails > 190  # the random parts differ too, not only the time


def test_the_fixed_clock_gives_the_same_answers_in_every_process() -> None:
    script = (
        "from reenact.values.clock import FixedClock\n"
        "clock = FixedClock(start_ms=1000, seed='s')\n"
        "print(clock.uuid7(), clock.uuid7(), clock.random_bytes(8).hex(), clock.timestamp())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    clock = FixedClock(start_ms=1000, seed="s")
    assert runs == {f"{clock.uuid7()} {clock.uuid7()} {clock.random_bytes(8).hex()} {clock.timestamp()}\n"}


def test_fixed_clocks_differ_by_their_seed_and_their_streams_do_not_touch() -> None:
    assert FixedClock(seed=1).uuid7() != FixedClock(seed=2).uuid7()
    assert FixedClock(seed=1).random_bytes(8) != FixedClock(seed="1").random_bytes(8)
    one, other = FixedClock(), FixedClock()
    other.random_bytes(100)
    assert one.uuid7() == other.uuid7()


def test_sleeping_behind_the_fixed_clock_moves_both_clocks_at_once() -> None:
    clock = FixedClock(start_ms=1_000_000)

    async def sleep() -> None:
        await asyncio.wait_for(clock.sleep(3600.25), timeout=5)
        await clock.sleep(0)

    asyncio.run(sleep())
    assert clock.slept == [3600.25, 0]
    assert clock.now_ms() == 1_000_000 + 3_600_250
    assert clock.monotonic() == 3600.25
    clock.advance(0.75)
    assert clock.monotonic() == 3601.0
    assert clock.timestamp() == format_ts(1_000_000 + 3_601_000)


def test_ids_of_the_fixed_clock_rise_within_a_millisecond() -> None:
    clock = FixedClock()
    ids = [clock.uuid7() for _ in range(1000)]
    assert ids == sorted(set(ids))
    assert all(map(is_uuid7, ids))


@pytest.mark.parametrize(("ns", "is_refused"), [(-1, False), (0, False), (2**48 * 1_000_000, True)])
def test_ids_of_odd_times_are_ids_or_refused(ns: int, is_refused: bool) -> None:
    ids = Uuid7Sequence(lambda: ns, os.urandom)
    if is_refused:
        with pytest.raises(UsageError, match="no room"):
            ids.next()
    else:
        first, second = ids.next(), ids.next()
        assert is_uuid7(first)
        assert first < second
