"""What a conversation costs that every call carries whole: the values that it stores, and the end of its session."""

from __future__ import annotations

import gc
import random
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure
from benchmarks.plan import check
from benchmarks.plans import runtime, workplace
from reenact import skill
from reenact.values.canonical import canonicalize

MOST_STORED = 3
MOST_CLOSING = 5
MOST_MEMORY = 100
TURN_BYTES = 430
"""The last of 200 requests has about 87 kB then."""
CALL_BYTES = 2_000
ANSWER_BYTES = 2_500
ANSWERS = 5

Message = dict[str, str]


@skill("ask", version="1.0.0", tool_class="read")
async def ask(messages: list[Message], length: int) -> str:
    """A model that says something else each time."""
    return words(random.Random(len(messages)), length)


@skill("look_up", version="1.0.0", tool_class="read")
async def look_up(number: int) -> str:
    """A tool whose answers are as large as what is looked for in other values."""
    return words(random.Random(-number - 1), ANSWER_BYTES)


def words(chance: random.Random, length: int) -> str:
    """Text of made-up words, which compresses about as well as people's."""
    letters = "etaoinshrdlucmfw"
    text = " ".join("".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(length // 5))
    return text[:length]


class Talk:
    """A loop that sends all that was said so far with each call."""

    def __init__(self, length: int, *, clock: bool = False, only_last: bool = False) -> None:
        self.length = length // 2 - 30  # besides the names of its fields
        self._clock = clock
        self._only_last = only_last
        self._said: list[Message] = []

    def request(self, number: int) -> dict[str, Any]:
        told = f"It is {number // 60:02}:{number % 60:02}." if self._clock else "You are a clerk."
        self._said.append({"role": "user", "content": words(random.Random(number), self.length)})
        said = self._said[-1:] if self._only_last else self._said
        return {"messages": [{"role": "system", "content": told}, *said], "length": self.length}

    def hear(self, answer: str) -> None:
        self._said.append({"role": "assistant", "content": answer})


def measure(turns: int = 200, calls: int = 640) -> list[Figure]:
    with workplace() as folder:
        plain = stored_ratio(folder, "plain", turns)
        whole, evidence = file_and_evidence(folder / "plain.db")
        crowded = stored_ratio(folder, "crowded", turns, clock=True, answers=ANSWERS)
        few, _ = closing(folder / "few.db", calls // 4)
        many, added = closing(folder / "many.db", calls)
    return [
        Figure(
            name="values that a conversation stores",
            value=plain,
            most=MOST_STORED,
            note=f"beside its last request: {turns} turns of about {TURN_BYTES} bytes, answers and outcomes counted in",
        ),
        Figure(name="the whole file of it", value=whole / 1000, unit="kB", note="a page or more for each table"),
        Figure(
            name="of that the journal, a turn",
            value=evidence / turns,
            unit="bytes",
            note="digests, ids, signatures, heads: as large for a long message as for a short one",
        ),
        Figure(
            name="the same, a clock in front and tools between",
            value=crowded,
            most=MOST_STORED,
            note=f"beyond what it stores without the conversation; {ANSWERS} answers of {ANSWER_BYTES:,} bytes a turn",
        ),
        Figure(
            name=f"closing a session of {calls} calls",
            value=many / few,
            most=MOST_CLOSING,
            note=f"beside {calls // 4}, each with {CALL_BYTES:,} bytes more of it; {many * 1000:.0f} ms of CPU",
        ),
        Figure(name="memory that this adds", value=added, unit="MB", most=MOST_MEMORY),
    ]


def stored_ratio(folder: Path, name: str, turns: int, *, clock: bool = False, answers: int = 0) -> float:
    stored, last = stored_values(folder / f"{name}.db", Talk(TURN_BYTES, clock=clock), turns, answers)
    if answers:
        without = Talk(TURN_BYTES, clock=clock, only_last=True)
        stored -= stored_values(folder / f"{name}-without.db", without, turns, answers)[0]
    return stored / last


def stored_values(path: Path, talk: Talk, turns: int, answers: int) -> tuple[int, int]:
    """(bytes of all values that the session stored, bytes of its last request)."""
    sizes: list[int] = []
    with runtime(path, (ask, look_up)) as opened, opened.session() as session:
        for size in exchanges(session, talk, turns):
            for number in range(answers):
                check(session.call("look_up", {"number": len(sizes) * answers + number}).ok)
            sizes.append(size)
    db = sqlite3.connect(path)
    ((stored,),) = db.execute("SELECT sum(length(body)) FROM payloads").fetchall()
    db.close()
    return int(stored), sizes[-1]


def file_and_evidence(path: Path) -> tuple[int, int]:
    """(bytes of the whole file, bytes of its journal), which are apart from the values."""
    db = sqlite3.connect(path)
    ((pages,),) = db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchall()
    ((journal,),) = db.execute("SELECT sum(length(body) + length(digest) + length(mac)) FROM commits").fetchall()
    db.close()
    return int(pages), int(journal)


def exchanges(session: Any, talk: Talk, turns: int) -> Iterator[int]:
    """The size of each request, once it was answered."""
    for number in range(turns):
        request = talk.request(number)
        outcome = session.call("ask", request)
        check(outcome.ok)
        talk.hear(outcome.output)
        yield len(canonicalize(request))


def closing(path: Path, calls: int) -> tuple[float, float]:
    """(seconds of CPU that the end of a session takes, megabytes that it adds to the process at its largest)."""
    with runtime(path, (ask,)) as opened:
        with opened.session() as session:
            for _ in exchanges(session, Talk(CALL_BYTES), calls):
                pass
            gc.collect()  # what the calls left is not the end's to clear
            began, before = time.process_time(), largest()
        return time.process_time() - began, (largest() - before) / 1e6


def largest() -> int:
    """Bytes of memory that this process had at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
