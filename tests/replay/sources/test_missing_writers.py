"""What a call wrote counts where its skill has no code, too: a read after it is no repetition."""

from __future__ import annotations

import asyncio

import pytest

from reenact import Registry, skill
from reenact.replay import load_recording
from tests.replay.recording import memory_runtime, mocked


@skill("look", version="1.0.0", tool_class="read", idempotent=True, reads=["shelf:{place}"], public=["place"])
async def look(place: str) -> str:
    return place


@skill("put", version="1.0.0", tool_class="write", writes=["shelf:{place}"], public=["place"])
async def put(place: str) -> str:
    return place


@skill("count", version="1.0.0", tool_class="write", reads=["shelf:a"], writes=["shelf:b"])
async def count() -> int:
    return 1


@skill("plain", version="1.0.0", tool_class="write")
async def plain() -> int:
    return 1


SKILLS = (look, put, count, plain)
MADE, REPEATED = "OK", "DENIED_DUPLICATE"


@pytest.mark.parametrize("here", [SKILLS, (), (look,), (put, count)], ids=["all", "none", "the reader", "the writers"])
@pytest.mark.parametrize(
    ("calls", "codes"),
    [
        ("look a, put a, look a", [MADE, MADE, MADE]),
        ("look a, look a, put a, look a, look a", [MADE, REPEATED, MADE, MADE, REPEATED]),
        ("look a, put b, look a, put a, look a", [MADE, MADE, REPEATED, MADE, MADE]),
        ("look a, look b, count, look a, look b", [MADE, MADE, MADE, REPEATED, MADE]),
        ("look a, plain, look a", [MADE, MADE, REPEATED]),
        ("look {b, put {b, look {b, look {b", [MADE, MADE, MADE, REPEATED]),
    ],
)
def test_reads_between_writes_are_decided_as_they_were(calls: str, codes: list[str], here: tuple[object, ...]) -> None:
    runtime = memory_runtime(Registry(SKILLS))

    async def session() -> str:
        async with runtime.session() as opened:
            for call in calls.split(", "):
                name, _, place = call.partition(" ")
                await opened.call(name, {"place": place} if place else {})
            return opened.run_id

    recording = load_recording(runtime.store, asyncio.run(session()))
    assert [recording.outcome(step_id).code for step_id in recording.steps] == codes
    result = mocked(recording, Registry(here))  # type: ignore[arg-type]  # skills
    assert result.verdict == "matched", result.divergence
