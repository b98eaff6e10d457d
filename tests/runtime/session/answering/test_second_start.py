"""Every start in a process of its own: the second gets what the first got, and one that has ended writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact import Runtime, skill
from reenact.runtime.session.sync import SyncSession
from tests.crash.harness import KILLED, in_child
from tests.engines.places import all_of, store_at
from tests.runtime.session.answering.programs import look, pay

TOKEN = "ghp_" + "aB3dE6fG9hJ2kL5mN8pQ1rS4tU7vW0xY3zA6"
SAYS: dict[str, Any] = {
    "a secret": {"user": "kim", "session_token": "morning has broken 81", "note": f"valid: {TOKEN}"},
    "1 MB": {"zebra": "x" * 1_000_000, "apple": [1.0, {"z": 1, "a": None}]},
    "2^53-1": 2**53 - 1,
    "2^53+1": 2**53 + 1,
    "an image": {"media_type": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"},
    "bytes": b"\x89PNG\r\n",
    "not a number": float("nan"),
}
REFUSED = {"2^53+1", "bytes", "not a number"}
CRASH = "before_dispatch:9"


@skill("say", version="1.0.0", tool_class="read", idempotent=False)
def say(what: str) -> Any:
    return SAYS[what]


def program(session: SyncSession) -> list[Any]:
    """Whatever a session is asked for; plain, so that it can be compared."""
    told: list[Any] = [msgspec.to_builtins(session.call("say", {"what": what})) for what in SAYS]
    with session.lane("researcher"):
        told.append(msgspec.to_builtins(session.call("pay", {"amount": 13})))
        told.append(msgspec.to_builtins(session.call("pay", {"amount": 1}, idempotency_key="order-1")))
    told += [session.turn(), session.now().isoformat(), session.uuid(), session.random()]
    told.append(msgspec.to_builtins(session.call("nobody", {"x": 1})))
    told.append(msgspec.to_builtins(session.call("look", {"wrong": 1})))
    return told


def start(folder: Path, crash_at: str | None = None) -> str | None:
    """The text of all answers; None where the process was killed."""
    answers = folder / "answers.json"

    def whole() -> None:
        runtime = Runtime(store_at(folder / "store.db"), skills=[say, look, pay])
        with runtime.session(id="order-42") as session:
            answers.write_text(json.dumps(program(session)))
        runtime.close()

    answers.unlink(missing_ok=True)
    if in_child(whole, crash_at=crash_at) == KILLED:
        return None
    return answers.read_text()


def test_the_second_start_gets_what_the_first_got_and_an_ended_one_writes_nothing(tmp_path: Path) -> None:
    assert start(tmp_path, CRASH) is None
    assert start(tmp_path, "before_seal") is None, "it has made all calls, and dies before it ends"
    first = (tmp_path / "answers.json").read_text()
    told = start(tmp_path)
    assert told == first
    answers = json.loads(told)
    for what, answer in zip(SAYS, answers, strict=False):
        refused = answer["status"] == "failure"
        assert refused is (what in REFUSED), (what, answer)
        if not refused:
            assert answer["details"]["output"] == SAYS[what]
        else:
            assert answer["message"], "a clear refusal at the first"
    ended = all_of(tmp_path / "store.db")
    assert ended
    for _ in range(3):
        assert start(tmp_path) == told
        assert all_of(tmp_path / "store.db") == ended, "an ended one wrote something"


@pytest.mark.parametrize("crash_at", [f"after_commit:{n}" for n in (2, 9, 14, 19)])
def test_wherever_it_died_the_answers_are_those_of_one_start(tmp_path: Path, crash_at: str) -> None:
    assert start(tmp_path, crash_at) is None
    kept, drawn = start(tmp_path), start(tmp_path)
    assert kept is not None
    assert kept == drawn
