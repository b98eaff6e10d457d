"""The reader: strict with a place and a code for each thing that is wrong, lenient with a count, never unbounded."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import ReplayLogError, UsageError
from reenact.trace import ReplayHeader, ReplayReader, ReplayWriter, ToolCall, UnknownEvent
from reenact.trace.order import Order
from reenact.trace.seen import Place, SeenIds
from tests.trace.samples import at, call_pair, session, text_of

EVENTS = session()
WHOLE = text_of(EVENTS)
LINES = WHOLE.splitlines(keepends=True)
HEADER, START, PLAN, CALL, RESULT, DONE = LINES[:6]


def with_line(number: int, line: bytes) -> bytes:
    return b"".join([*LINES[: number - 1], line, *LINES[number:]])


DEEP = CALL.replace(b'{"path":"src/1.py"}', b"[" * 300 + b"]" * 300)
CASES: dict[str, tuple[bytes, str, int, str]] = {
    "empty": (b"", "REPLAY_EMPTY", 1, "the file is empty"),
    "an empty line": (with_line(3, b"\n"), "REPLAY_LINE_MALFORMED", 3, "ends where a value is expected"),
    "not JSON": (with_line(4, b"nonsense\n"), "REPLAY_LINE_MALFORMED", 4, "a value is expected (column 1)"),
    "two values": (with_line(2, START[:-1] + b" {}\n"), "REPLAY_LINE_MALFORMED", 2, "after the end of the value"),
    "a list": (with_line(2, b"[]\n"), "REPLAY_EVENT_INVALID", 2, "an event is a JSON object"),
    "a field missing": (
        with_line(6, DONE.replace(b'"iterations":1,', b"")), "REPLAY_EVENT_INVALID", 6, "`iterations`",
    ),
    "a status that is none": (with_line(6, DONE.replace(b"Success", b"Fine")), "REPLAY_EVENT_INVALID", 6, "$.status"),
    "iterations beyond a byte": (
        with_line(6, DONE.replace(b'"iterations":1', b'"iterations":256')), "REPLAY_EVENT_INVALID", 6, "$.iterations",
    ),
    "no header": (b"".join(LINES[1:]), "REPLAY_HEADER_MISSING", 1, "no ReplayHeader"),
    "a second header": (WHOLE + HEADER, "REPLAY_HEADER_REPEATED", len(LINES) + 1, "two logs were put together"),
    "a newer version": (
        with_line(1, HEADER.replace(b'"replay_version":1', b'"replay_version":2')), "REPLAY_VERSION_UNKNOWN", 1,
        "replay_version 2 is newer than 1",
    ),
    "a torn last line": (WHOLE[:-9], "REPLAY_TORN_TAIL", len(LINES), "its end was cut"),
    "a last line without newline": (WHOLE[:-1], "REPLAY_TORN_TAIL", len(LINES), "does not end with a newline"),
    "an orphan": (with_line(4, b""), "REPLAY_RESULT_ORPHAN", 4, "without its ToolCall, 'tc_1'"),
    "a result before its call": (
        b"".join([HEADER, RESULT, CALL]), "REPLAY_RESULT_ORPHAN", 2, "without its ToolCall",
    ),
    "a call twice": (with_line(6, CALL), "REPLAY_ID_REPEATED", 6, "the first is in line 4"),
    "a result twice": (with_line(6, RESULT), "REPLAY_RESULT_REPEATED", 6, "of the ToolCall in line 4"),
    "deep": (with_line(4, DEEP), "REPLAY_LINE_MALFORMED", 4, "nested deeper than 256"),
    "NUL": (with_line(4, CALL[:9] + b"\0" + CALL[9:]), "REPLAY_NUL", 4, "byte 9 of it"),
    "not UTF-8": (with_line(4, CALL.replace(b"src", b"s\xffc")), "REPLAY_LINE_MALFORMED", 4, "not UTF-8"),
    "a lone surrogate": (
        with_line(4, CALL.replace(b"src", b"\\ud800")), "REPLAY_LINE_MALFORMED", 4, "a lone surrogate",
    ),
    "a key twice": (
        with_line(6, DONE[:-2] + b',"iterations":2}\n'), "REPLAY_LINE_MALFORMED", 6, "a key that stands twice",
    ),
    "an integer of 70 digits": (
        with_line(4, CALL.replace(b'"src/1.py"', b"9" * 70)), "REPLAY_LINE_MALFORMED", 4, "an integer beyond",
    ),
    "NaN": (with_line(5, RESULT.replace(b"0.2", b"NaN")), "REPLAY_LINE_MALFORMED", 5, "a value is expected"),
    "CR LF": (WHOLE.replace(b"\n", b"\r\n"), "REPLAY_CRLF", 1, "lines end with LF alone"),
    "a byte order mark": (b"\xef\xbb\xbf" + WHOLE, "REPLAY_BYTE_ORDER_MARK", 1, "a byte order mark"),
    "a byte order mark within": (with_line(3, b"\xef\xbb\xbf" + PLAN), "REPLAY_LINE_MALFORMED", 3, "byte order mark"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_has_its_own_error_with_line_and_byte(name: str) -> None:
    data, code, line, says = CASES[name]
    with pytest.raises(ReplayLogError) as caught:
        list(ReplayReader.from_bytes(data, name="x.jsonl").events)
    error = caught.value
    offset = sum(map(len, data.splitlines(keepends=True)[: line - 1]))
    assert (error.code, error.line, error.offset) == (code, line, offset)
    assert str(error).startswith(f"x.jsonl, line {line} (byte {offset}): ")
    assert says in str(error)
    assert len(str(error)) < 200


@pytest.mark.parametrize("name", CASES)
def test_a_lenient_reader_counts_it_and_goes_on(name: str) -> None:
    data, code, _, _ = CASES[name]
    reader = ReplayReader.from_bytes(data, lenient=True)
    summary = reader.summary()
    assert code in summary.problems
    written_as_lines = ("CR LF", "a byte order mark", "a newer version", "a last line without newline")
    if name in written_as_lines:
        assert (summary.events, summary.skipped) == (len(EVENTS), 0)
    elif data:
        assert summary.events >= 1
        assert summary.events + summary.skipped == len(data.splitlines())


def test_what_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(UsageError, match=r"cannot be read: "):
            ReplayReader.from_file(path)


def test_sums_are_those_of_the_results() -> None:
    reader = ReplayReader.from_bytes(text_of(session(4, failing=2)))
    assert [call.id for call in reader.tool_calls()] == ["tc_1", "tc_2", "tc_3", "tc_4"]
    assert reader.total_latency_ms() == 11 + 12 + 13 + 14
    assert reader.average_step_utility() == pytest.approx((0.2 * 3 - 0.4) / 4)
    assert reader.summary().failed_steps == 1
    none = ReplayReader.from_bytes(HEADER)
    assert (none.total_latency_ms(), none.average_step_utility()) == (0, 0.0)
    assert len(list(reader.events)) == len(list(reader.events)), "read anew each time"


def test_a_call_without_result_and_an_unknown_event_are_read() -> None:
    events = [*EVENTS[:4], UnknownEvent({"event": "Later", "x": 1})]
    assert list(ReplayReader.from_bytes(text_of(events)).events) == events


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 8))
def test_an_id_that_comes_again_is_found_however_far_apart(ids: list[int], most: int) -> None:
    seen = SeenIds(most)
    places = [Place(number + 1, number * 10) for number in range(len(ids))]
    early = [seen.add(str(name), place) for name, place in zip(ids, places, strict=True)]
    found = next((place for place in early if place is not None), None) or seen.repeated()
    assert (found is not None) == (len(set(ids)) < len(ids))
    for name in set(ids):
        assert seen.find(str(name)) == places[ids.index(name)] or any(early)
    assert seen.find("other") is None
    seen.close()


def test_an_id_that_comes_again_far_away_is_told_at_the_end_with_both_lines() -> None:
    order = Order(most=4)
    events = [EVENTS[0], *(event for number in [*range(20), 3] for event in call_pair(number))]
    assert all(order.problem(event, Place(n + 1, n)) is None for n, event in enumerate(events))
    problem = order.at_end()
    order.close()
    assert problem is not None
    assert (problem.code, problem.place, "line 8 " in problem.message) == ("REPLAY_ID_REPEATED", Place(42, 41), True)


BOUNDED = """
import resource, sys
from reenact.errors import ReplayLogError
from reenact.trace import ReplayReader
resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))
for lenient in (False, True):
    try:
        print(ReplayReader.from_file(sys.argv[1], lenient=lenient).summary().problems)
    except ReplayLogError as error:
        print(error.code, error.line, error.offset)
"""


def test_a_line_of_200_megabytes_is_refused_and_not_held(tmp_path: Path) -> None:
    log = tmp_path / "long.jsonl"
    with log.open("wb") as file:
        file.write(HEADER)
        file.write(b'{"event":"ToolCall","params":"')
        for _ in range(200):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n' + START)
    done = subprocess.run([sys.executable, "-c", BOUNDED, log], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"REPLAY_LINE_TOO_LONG 2 {len(HEADER)}", "{'REPLAY_LINE_TOO_LONG': 1}"], done


MEASURED = """
import resource, sys
from reenact.trace import ReplayReader
seen = []
reader = ReplayReader.from_file(sys.argv[1])
summary = reader.summary(lambda done, total: seen.append((done, total)))
assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] > 0
print(summary.events, summary.total_latency_ms, round(summary.average_step_utility, 12),
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """The long form, a million events: `python -m tests.trace.million`."""
    used = []
    for calls in (1_000, 30_000):
        log = tmp_path / f"{calls}.jsonl"
        with log.open("w") as file:
            file.write(HEADER.decode())
            for number in range(calls):
                file.writelines(event.to_canonical_json() + "\n" for event in call_pair(number))
        done = subprocess.run([sys.executable, "-c", MEASURED, log], capture_output=True, text=True, check=True)
        events, latency, average, kilobytes = done.stdout.split()
        assert (int(events), int(latency)) == (1 + 2 * calls, sum(range(10, 10 + calls)))
        assert float(average) == 0.2
        used.append(int(kilobytes))
    assert used[1] < used[0] + 16_000


# -- the writer --------------------------------------------------------------------------------------------------------


def test_each_event_is_in_the_file_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "REPLAY.jsonl"
    with ReplayWriter(path) as writer:
        for number, event in enumerate(EVENTS, start=1):
            writer.emit(event)
            assert path.read_bytes() == b"".join(LINES[:number])
    assert list(ReplayReader.from_file(path).events) == EVENTS


def test_what_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "REPLAY.jsonl"
    with ReplayWriter(path) as writer:
        for wrong, code in (
            (EVENTS[1], "REPLAY_HEADER_MISSING"),
            (EVENTS[1], "REPLAY_HEADER_MISSING"),
            (ReplayHeader(producer="x", created_at=at(0)), None),
            (ReplayHeader(producer="x", created_at=at(0)), "REPLAY_HEADER_REPEATED"),
            (EVENTS[4], "REPLAY_RESULT_ORPHAN"),
            (ToolCall(t=at(1), id=1, tool="x", params=1, params_hash="", step_id=""), "REPLAY_EVENT_INVALID"),  # type: ignore[arg-type]
        ):
            before = path.read_bytes()
            if code is None:
                writer.emit(wrong)
                continue
            with pytest.raises(ReplayLogError) as caught:
                writer.emit(wrong)
            assert caught.value.code == code
            assert path.read_bytes() == before
    with pytest.raises(ValueError, match="a time is expected"):
        ReplayHeader(producer="x", created_at="now")
    with pytest.raises(UsageError, match="cannot be written"):
        ReplayWriter(tmp_path / "none" / "x")


@pytest.mark.parametrize("cut", range(0, len(WHOLE), 61))
def test_a_log_is_gone_on_with_after_its_last_whole_line(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "REPLAY.jsonl"
    path.write_bytes(WHOLE[:cut])
    with ReplayWriter(path, resume=True) as writer:
        assert writer.lines == WHOLE[:cut].count(b"\n")
        for event in EVENTS[writer.lines :]:
            writer.emit(event)
    assert path.read_bytes() == WHOLE


def test_a_damaged_log_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "REPLAY.jsonl"
    path.write_bytes(HEADER + b"damage\n")
    with pytest.raises(ReplayLogError):
        ReplayWriter(path, resume=True)
    assert path.read_bytes() == HEADER + b"damage\n"


class FullDisk(io.FileIO):
    """Takes so many bytes, and then none."""

    room = len(HEADER) + len(START) + 20

    def write(self, data: Any, /) -> int:
        taken = super().write(memoryview(data)[: max(0, self.room - self.tell())])
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken


def test_where_the_disk_is_full_the_file_ends_with_a_whole_line_and_a_new_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "REPLAY.jsonl"
    with ReplayWriter(path) as writer:
        writer._file = FullDisk(path, "wb")
        writer.emit(EVENTS[0])
        writer.emit(EVENTS[1])
        with pytest.raises(UsageError, match="cannot be written: No space left"):
            writer.emit(EVENTS[2])
        with pytest.raises(UsageError, match="resume=True"):
            writer.emit(EVENTS[2])
        assert (writer.lines, path.read_bytes()) == (2, HEADER + START)
    with ReplayWriter(path, resume=True) as writer:
        for event in EVENTS[2:]:
            writer.emit(event)
    assert path.read_bytes() == WHOLE


def test_a_writer_that_is_killed_leaves_whole_lines_and_at_most_one_torn(tmp_path: Path) -> None:
    path = tmp_path / "REPLAY.jsonl"
    program = (
        "import os, sys, signal\n"
        "from reenact.trace import *\n"
        "from tests.trace.samples import session\n"
        "writer = ReplayWriter(sys.argv[1])\n"
        "for number, event in enumerate(session()):\n"
        "    writer.emit(event)\n"
        "    if number == 6: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], check=False, cwd=Path(__file__).parents[2], env=dict(os.environ)
    )
    assert done.returncode == -9
    assert path.read_bytes() == b"".join(LINES[:7])
