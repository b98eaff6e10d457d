"""A secret that only the name of its field gives away stays one where it goes next, under a name that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import skill
from reenact.record.reader import RunReader
from reenact.replay import replay
from tests.runtime.running import Bench, step

TOKEN = "morning has broken 81"  # no rule about shapes finds it
GOT: list[str] = []


@skill("log_in", version="1.0.0", tool_class="read")
def log_in() -> dict[str, str]:
    """Gives a session."""
    return {"session_token": TOKEN}


@skill("use", version="1.0.0", tool_class="read")
def use(session: str, words: str) -> dict[str, str]:
    """Needs it, and says it again."""
    GOT.append(session)
    return {"heard": words}


STEPS = (
    step(log_in, step_id="log_in"),
    step(use, {"session": "{{log_in.session_token}}", "words": "by {{log_in.session_token}}"}, step_id="use"),
    step(use, {"session": "{{use.heard}}", "words": "-"}, step_id="again"),
)


@pytest.fixture(autouse=True)
def with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_SEAL_KEY", "a key that is long enough")
    GOT.clear()


def test_what_was_decrypted_for_a_step_is_encrypted_again_in_its_parameters_and_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, log_in, use)
    result = bench.run(*STEPS)
    assert (result.status, GOT) == ("completed", [TOKEN, f"by {TOKEN}"])
    bench.check(result)
    monkeypatch.delenv("REENACT_SEAL_KEY")
    for recorded in RunReader(bench.store, result.run_id).steps():
        assert TOKEN not in str((recorded.parameters(), recorded.outcome()))


def test_a_replay_finds_the_same_behaviour_with_the_key_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, log_in, use)
    run_id = bench.run(*STEPS).run_id
    assert replay(bench.store, run_id).verdict == "matched"
    monkeypatch.delenv("REENACT_SEAL_KEY")
    assert replay(bench.store, run_id).verdict == "matched"


def test_the_caller_of_a_session_still_gets_what_the_tool_returned(tmp_path: Path) -> None:
    bench = Bench(tmp_path, log_in, use)
    with bench.runtime.session(agent_id="a") as session:
        token = session.call("log_in").output
        assert token == {"session_token": TOKEN}
        assert session.call("use", {"session": "x", "words": "y"}).output == {"heard": "y"}
