"""`reenact play`: a log in a pipe, on a real terminal with keys, and as a page that hostile values cannot leave."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import select
import signal
import subprocess
import termios
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from reenact.trace import (
    ReplayEvent,
    ReplayHeader,
    StepComplete,
    StepStatus,
    ToolCall,
    ToolResult,
    UnknownEvent,
    canonical_hash,
)
from tests import ctrl_c
from tests.cli.harness import Command
from tests.trace.samples import EIGHT_LINES, receipt_of, session, text_of

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"'`\x1b]0;owned\x07\x1b[2J\u202e\u2028&amp;"


def log_in(reenact: Command, events: list[ReplayEvent], name: str = "REPLAY.jsonl") -> Path:
    path = reenact.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text_of(events))
    return path


def hostile_session() -> list[ReplayEvent]:
    params = {HOSTILE: [HOSTILE, {"onload": "javascript:alert(1)"}], "wide": 2**63 + 1}
    return [
        ReplayHeader(producer=HOSTILE, created_at="2026-01-13T10:00:00Z"),
        ToolCall(
            t="2026-01-13T10:00:00Z", id=HOSTILE, tool=HOSTILE, params=params, params_hash=HOSTILE, step_id=HOSTILE
        ),
        ToolResult(
            t="2026-01-13T10:00:00Z", id=HOSTILE, output_hash=HOSTILE, step_utility=-1, latency_ms=1,
            output_preview=HOSTILE,
        ),
        StepComplete(t="2026-01-13T10:00:00Z", step_id=HOSTILE, status=StepStatus.Failed, iterations=1),
        UnknownEvent({"event": HOSTILE, "x": HOSTILE, "t": HOSTILE}),
    ]  # fmt: skip


def hostile_lines() -> bytes:
    """As another producer writes it: an integer of 64 bits has no canonical form."""
    import json

    return "".join(json.dumps(event.members()) + "\n" for event in hostile_session()).encode()


def test_a_log_is_shown_line_by_line_in_a_pipe(reenact: Command) -> None:
    done = reenact("play", EIGHT_LINES)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "10:00:00Z     replay log of adjutant@1.2.3, 2026-01-13T10:00:00Z",
        "10:00:00Z     session sess_abc123  policy v1.2.3  issue 42",
        "10:00:01Z     plan abc123...  3 steps",
        '10:00:02Z     file_read  step-1  tc_001  {"path":"src/auth.rs"}',
        "10:00:02Z     file_read  ok  45 ms  utility 0.8",
        "10:00:03Z     step-1  Success  1 iteration",
        "10:05:30Z     verification +3  cargo check → 0, cargo test → 0",
        "10:05:32Z     session Success  confidence 0.92  5 calls  5320 ms",
        "8 events, 1 call, 0 failed steps; 45 ms in tools, average step utility 0.8",
    ]
    assert reenact("play", EIGHT_LINES, "--no-tty").out == done.out


def test_no_name_in_a_log_forges_a_line_of_what_is_shown(reenact: Command) -> None:
    forged = "x\nreceipt: fits, 2 calls"
    events: list[ReplayEvent] = [
        ReplayHeader(producer=forged, created_at="2026-01-13T10:00:00Z"),
        ToolCall(
            t="2026-01-13T10:00:00Z", id=forged, tool=forged, params={}, params_hash=forged, step_id=forged
        ),
        UnknownEvent({"event": forged}),
    ]  # fmt: skip
    done = reenact("play", log_in(reenact, events), "--no-tty")
    assert done.code == 0
    assert len(done.out.splitlines()) == len(events) + 1, done.out
    assert r"x\nreceipt: fits, 2 calls" in done.out


def test_a_folder_is_played_and_held_against_its_receipt(reenact: Command) -> None:
    events = session(3, failing=2)
    log_in(reenact, events, "bundle/REPLAY.jsonl")
    receipt = reenact.folder / "bundle" / "RECEIPT.json"
    receipt.write_text(receipt_of(events).to_canonical_json() + "\n")
    done = reenact("play", "bundle")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "receipt: fits, 3 calls (parameters hashed again: 3 by RFC 8785)"
    receipt.write_text(receipt.read_text().replace("tc_3", "tc_4"))
    done = reenact("play", "bundle/", "--json")
    assert done.code == 1
    assert done.json["receipt"]["success"] is False
    assert done.json["summary"]["tool_calls"] == 3
    assert reenact("play", "bundle/REPLAY.jsonl").code == 0, "a log alone has no receipt"
    assert reenact("play", "bundle/REPLAY.jsonl", "--receipt", receipt).code == 1


def test_a_run_is_played_as_its_export_is(recorded: Command) -> None:
    assert recorded("export", "last", "--to", "evidence").code == 0
    if not (recorded.folder / "evidence" / "REPLAY.jsonl").is_file():
        pytest.skip("an export holds no replay log")
    run, folder = recorded("play", "last"), recorded("play", "evidence")
    assert (run.code, run.out) == (0, folder.out)
    assert run.out.splitlines()[-1].startswith("receipt: fits, ")


def test_what_is_shown_can_be_narrowed(reenact: Command) -> None:
    events = session(3, failing=2)
    events[3:5] = [
        call if not isinstance(call, ToolCall) else ToolCall(
            t=call.t, id=call.id, tool="shell", params=call.params, params_hash=call.params_hash, step_id=call.step_id
        )
        for call in events[3:5]
    ]  # fmt: skip
    log = log_in(reenact, events)
    out = reenact("play", log, "--tool", "shell").out
    assert "shell  step-1" in out
    assert "file_read" not in out
    assert "step-2" not in out
    failed = reenact("play", log, "--failures").out.splitlines()
    assert len(failed) == 4
    assert "file_read  failed  12 ms  utility -0.4" in failed[0]
    assert "step-2  Failed" in failed[1]


def test_a_damaged_log_is_not_played_unless_it_is_asked_for(reenact: Command) -> None:
    log = log_in(reenact, session())
    log.write_bytes(log.read_bytes().replace(b'"event":"PlanStart"', b'"event":"PlanStart'))
    done = reenact("play", log)
    assert (done.code, done.out) == (1, "")
    assert re.fullmatch(r"error: \S+REPLAY.jsonl, line 3 \(byte \d+\): .*\[REPLAY_LINE_MALFORMED\]\n", done.err)
    done = reenact("play", log, "--lenient")
    assert done.code == 0
    assert done.err == "damaged: 1 line left out (REPLAY_LINE_MALFORMED 1)\n"


def test_mistakes_are_one_line(reenact: Command) -> None:
    for arguments, says in (
        (["nope.jsonl"], "nope.jsonl: cannot be read: No such file or directory [USAGE]"),
        (["./nope"], "nope/REPLAY.jsonl: cannot be read: No such file or directory [USAGE]"),
        (["."], ". holds no REPLAY.jsonl: export the run once more, or name the log itself [USAGE]"),
        ([str(EIGHT_LINES), "--html", str(EIGHT_LINES)], "is the log itself: name another file for the page [USAGE]"),
        ([str(EIGHT_LINES), "--receipt", str(EIGHT_LINES)], "[RECEIPT_INVALID]"),
        ([str(EIGHT_LINES), "--speed", "0"], "[USAGE]"),
    ):
        done = reenact("play", *arguments)
        assert done.code in (1, 2)
        assert done.err.count("\n") == 1
        assert done.err.endswith(says + "\n"), done.err


def test_a_pipe_is_refused_and_not_waited_for(reenact: Command) -> None:
    """A log is read twice."""
    os.mkfifo(reenact.folder / "pipe.jsonl")
    done = reenact("play", "pipe.jsonl")
    assert (done.code, done.err) == (
        2,
        "error: pipe.jsonl is no plain file, and a log is read twice: write it to one first [USAGE]\n",
    )


def test_replay_says_that_play_is_meant(reenact: Command) -> None:
    done = reenact("replay", EIGHT_LINES)
    assert done.code == 2
    assert f"`reenact play {EIGHT_LINES}`" in done.err


def test_no_value_speaks_to_the_terminal(reenact: Command) -> None:
    log = reenact.folder / "hostile.jsonl"
    log.write_bytes(hostile_lines())
    done = reenact("play", log)
    assert done.code == 0
    assert done.out.count("\n") == 6, "no value makes a line of its own"
    for character in ("\x1b", "\x07", "\u202e", "\u2028"):
        assert character not in done.out
    terminal = Terminal(reenact, "play", log, "--speed", "4096")
    text = terminal.end()
    assert "\x1b]0;" not in text
    assert "\x1b[2J" not in text
    assert "\\x1b]0;owned" in text


# -- keys on a terminal ------------------------------------------------------------------------------------------------


class Terminal:
    """A command on a terminal of its own, with somebody at the keys."""

    def __init__(self, reenact: Command, *arguments: str | Path) -> None:
        self.ours, theirs = os.openpty()
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        with ctrl_c.heard():
            self.process = subprocess.Popen(
                reenact.argv(*arguments),
                cwd=reenact.folder,
                env=reenact.env(TERM="xterm-256color", COLUMNS="120", LINES="30", NO_COLOR="1"),
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        self.seen = ""

    def until(self, text: str, limit_s: float = 30) -> None:
        """Read on to what is expected next; what was before it is forgotten."""
        end = time.monotonic() + limit_s
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} does not come; seen: {self.seen[-600:]!r}"
            if select.select([self.ours], [], [], 0.2)[0]:
                self.seen += os.read(self.ours, 65536).decode("utf-8", "replace")
        self.seen = self.seen.partition(text)[2]

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def end(self, limit_s: float = 30) -> str:
        """Everything to the end; the terminal must be as it was."""
        end = time.monotonic() + limit_s
        while self.process.poll() is None or select.select([self.ours], [], [], 0)[0]:
            assert time.monotonic() < end, self.seen[-600:]
            if select.select([self.ours], [], [], 0.1)[0]:
                self.seen += os.read(self.ours, 65536).decode("utf-8", "replace")
        assert termios.tcgetattr(self.theirs) == self.before
        os.close(self.ours)
        os.close(self.theirs)
        return self.seen


@pytest.fixture
def slow_log(reenact: Command) -> Path:
    """A session with hours between its events: without keys nothing would come."""
    events = session(6, failing=4)
    for number, event in enumerate(events):
        field = "created_at" if isinstance(event, ReplayHeader) else "t"
        time_text = f"2026-01-13T{number % 24:02}:00:00Z"
        events[number] = type(event)(**{**fields(event), field: time_text})  # type: ignore[arg-type]
    return log_in(reenact, events)


def fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def test_keys_step_pause_jump_filter_and_quit(reenact: Command, slow_log: Path) -> None:
    terminal = Terminal(reenact, "play", slow_log, "--longest-wait", "3600")
    terminal.until("replay log of reenact")
    terminal.until("1×  1/23")
    terminal.press("+")
    terminal.until("2×  1/23")
    terminal.press("--")
    terminal.until("0.5×  1/23")
    terminal.press(" ")
    terminal.until("paused  1/23")
    terminal.press("n")
    terminal.until("session sess_1  policy v1")
    terminal.press("\x1b[C")  # the arrow to the right
    terminal.until("6 steps")
    terminal.press("x?")  # keys that mean nothing
    terminal.press("f")
    terminal.until("file_read  failed  14 ms")
    terminal.until("paused")
    terminal.press("f")
    terminal.until("step-4  Failed")
    terminal.press("t")
    terminal.until("file_read")
    terminal.press("e")
    terminal.until("session Failed")
    assert "23 events, 6 calls, 1 failed step" in terminal.end()
    assert terminal.process.returncode == 0


def test_q_and_an_interrupt_leave_the_terminal_as_it_was(reenact: Command, slow_log: Path) -> None:
    terminal = Terminal(reenact, "play", slow_log, "--longest-wait", "3600")
    terminal.until("1×  1/23")
    terminal.press("q")
    terminal.end()
    assert terminal.process.returncode == 0
    terminal = Terminal(reenact, "play", slow_log, "--longest-wait", "3600")
    terminal.until("1×  1/23")
    terminal.process.send_signal(signal.SIGINT)
    assert "interrupted" in terminal.end()
    assert terminal.process.returncode == 130


def test_without_a_terminals_ways_it_is_plain_lines_at_once(reenact: Command, slow_log: Path) -> None:
    text = Terminal(reenact, "play", slow_log, "--no-tty").end()
    assert "\x1b" not in text
    assert text.count("\r\n") == 24


def test_a_long_log_is_read_under_a_bar(reenact: Command) -> None:
    events = session(1)
    events[-1] = UnknownEvent({"event": "Long", "text": "x" * (9 << 20)})
    text = Terminal(reenact, "play", log_in(reenact, events), "--no-tty").end()
    assert "reading" in text
    assert "100%" in text


def test_it_is_played_as_fast_as_it_is_told_to(reenact: Command, slow_log: Path) -> None:
    terminal = Terminal(reenact, "play", slow_log, "--longest-wait", "0.01")
    assert "session Failed" in terminal.end()


# -- the page ----------------------------------------------------------------------------------------------------------

TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "p", "svg", "text", "rect", "label", "select", "option",
    "input", "table", "tbody", "tr", "td", "details", "summary", "pre", "script",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "viewbox", "role", "aria-label", "x", "y", "width",
    "height", "id", "hidden", "value", "type", "data-row", "data-tool",
}  # fmt: skip


class Seen(HTMLParser):
    """What a browser would see of the page: its tags, its attributes, and the text of each script and style."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.inline: dict[str, list[str]] = {"script": [], "style": []}
        self.policy = ""
        self.text = ""
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in self.inline:
            self._in = tag
            self.inline[tag].append("")
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = str(dict(attrs)["content"])

    def handle_endtag(self, tag: str) -> None:
        self._in = "" if tag == self._in else self._in

    def handle_data(self, data: str) -> None:
        if self._in:
            self.inline[self._in][-1] += data
        else:
            self.text += data


def page_of(reenact: Command, log: Path) -> tuple[str, Seen]:
    done = reenact("play", log, "--html", "out.html")
    assert done.code == 0, done.err
    text = (reenact.folder / "out.html").read_text(encoding="utf-8")
    seen = Seen()
    seen.feed(text)
    return text, seen


def test_no_script_comes_in_through_recorded_values(reenact: Command) -> None:
    log = reenact.folder / "hostile.jsonl"
    log.write_bytes(hostile_lines())
    text, seen = page_of(reenact, log)
    assert set(seen.tags) <= TAGS
    assert {name for name, _ in seen.attributes} <= ATTRIBUTES, "no on…, no href, no src, no style"
    assert [len(found) for found in seen.inline.values()] == [1, 1]
    for kind, [content] in seen.inline.items():
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in seen.policy
        assert "alert" not in content
    for rule in ("default-src 'none'", "base-uri 'none'", "form-action 'none'"):
        assert rule in seen.policy
    assert "unsafe" not in seen.policy
    assert text.index("Content-Security-Policy") < text.index("<title>"), "before anything foreign"
    assert seen.text.count("<script>alert(1)</script>") >= 8, "it is there, as text"
    for character in ("\x1b", "\x07", "\u202e", "\u2028", "\x00"):
        assert character not in text
    assert not re.search(r"https?:|//[a-z]|url\(|@import|javascript:(?!alert)", text.replace(HOSTILE, ""))


def test_the_page_shows_the_session_with_its_picture_and_filter(reenact: Command) -> None:
    text, seen = page_of(reenact, log_in(reenact, session(4, failing=2)))
    assert seen.tags.count("rect") == 4
    assert text.count('class="bad"') == 4  # the rows of result, step and end; and a bar
    assert seen.tags.count("tr") == len(session(4))
    assert ("data-tool", "file_read") in seen.attributes
    assert "session Failed  confidence 0.92" in seen.text
    assert "average step utility" in seen.text
    assert (reenact.folder / "out.html").stat().st_mode & 0o777 == 0o600
    again, _ = page_of(reenact, reenact.folder / "REPLAY.jsonl")
    assert again == text, "the same log gives the same page"


def test_a_very_long_log_gives_a_page_of_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    from reenact.cli.screens import play_page
    from tests.trace.samples import reader_of

    monkeypatch.setattr(play_page, "MOST_EVENTS", 5)
    reader = reader_of(session(4))
    text = play_page.page("log", reader.events, reader.summary(), None)
    assert f"and {len(session(4)) - 5} more events" in text
    assert canonical_hash("plan")[7:19] in text
