"""A conversation that grows by a message does not store its beginning again."""

from __future__ import annotations

import random
import string
from pathlib import Path

from benchmarks.plans import workplace

from benchmarks import conversation
from reenact import Runtime
from reenact.builtin.llm.stub import STUB_SERVICE
from reenact.store.checks.verification import verify_run
from tests.engines.places import store_at

TURNS = 200
BYTES_A_TURN = 2000
LIMIT = 3_000_000


def noise(chance: random.Random, length: int) -> str:
    """Text that nothing compresses much."""
    return "".join(chance.choices(string.ascii_letters + string.digits, k=length))


def test_two_hundred_turns_of_two_kilobytes_take_less_than_three_megabytes(tmp_path: Path) -> None:
    chance = random.Random(4)
    path = tmp_path / "store.db"
    runtime = Runtime(store_at(path))
    answers = [noise(chance, BYTES_A_TURN // 2) for _ in range(TURNS)]
    runtime.services[STUB_SERVICE] = lambda _: answers.pop(0)
    messages: list[dict[str, str]] = []
    with runtime.session(goal="talk") as session:
        for _ in range(TURNS):
            messages.append({"role": "user", "content": noise(chance, BYTES_A_TURN // 2)})
            reply = session.call("llm_invoke", {"messages": messages})
            assert reply.ok, reply
            messages.append({"role": "assistant", "content": reply.output["text"]})  # type: ignore[index]
            session.turn()
    runtime.close()
    stored = sum(file.stat().st_size for file in tmp_path.iterdir())
    raw = sum(len(message["content"]) for message in messages)
    assert raw >= TURNS * BYTES_A_TURN
    assert stored < LIMIT, f"{stored:,} bytes for {raw:,} bytes of conversation"
    assert verify_run(store_at(path), session.run_id).exit_code == 0


def test_the_values_of_two_hundred_turns_are_less_than_three_times_the_last_request() -> None:
    """What grows with a conversation. The evidence of its calls is apart from that."""
    with workplace() as folder:
        assert conversation.stored_ratio(folder, "plain", TURNS) < conversation.MOST_STORED
        assert conversation.stored_ratio(folder, "crowded", 40, clock=True, answers=5) < 2


def test_the_evidence_of_a_call_is_as_large_for_a_long_conversation_as_for_a_short_one() -> None:
    with workplace() as folder:
        evidence = []
        for name, length in (("short", 430), ("long", 8_600)):
            conversation.stored_values(folder / f"{name}.db", conversation.Talk(length), 20, 0)
            evidence.append(conversation.file_and_evidence(folder / f"{name}.db")[1])
    assert evidence[1] / evidence[0] < 1.02, evidence
