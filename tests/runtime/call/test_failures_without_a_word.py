"""A write fails in a client that nobody knows: something may have been sent, so it is in doubt and not sent again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import SkillError
from tests.engines.places import store_at

CLIENT = """
class RpcError(Exception): ...
class HttpError(Exception):
    def __init__(self, status_code): self.status_code = status_code
class ReadTimeoutError(Exception): ...
class EndpointConnectionError(Exception): ...
class OperationalError(Exception): ...

def send(how):
    SENT.append(how)
    if how == "fallback":
        try:
            raise EndpointConnectionError("the first of two hosts")
        except EndpointConnectionError:
            raise ReadTimeoutError("the second")
    if how in globals():
        raise globals()[how](how)
    if how.isdigit():
        raise HttpError(int(how))
    if how == "exit":
        raise SystemExit(3)
    return {"no": "id"}
"""
SENT: list[str] = []


@pytest.fixture(autouse=True)
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A library in a file of its own."""
    SENT.clear()
    made = ModuleType("strange_client")
    exec(compile(CLIENT, str(tmp_path / "strange_client.py"), "exec"), made.__dict__)
    made.SENT = SENT  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "strange_client", made)
    return made


def send(how: str) -> Any:
    import strange_client  # type: ignore[import-not-found]

    return strange_client.send(how)


def body(how: str) -> Any:
    if how == "refuse":
        raise ValueError("no such account")
    if how == "look up":
        try:
            return {}["account"]
        except KeyError:
            raise ValueError("no such account") from None
    if how == "say":
        try:
            return send("RpcError")
        except Exception as error:
            raise SkillError.of("ERR_HTTP_503", "it did not take it") from error
    if how == "wrapped":
        try:
            return send("OperationalError")
        except Exception as error:
            raise RuntimeError("the bank is down") from error
    return send(how)["id"] if how == "answer" else send(how)


hold = skill("hold", version="1.0.0", tool_class="write", in_doubt="hold")(body)
again = skill("again", version="1.0.0", tool_class="write")(body)
keyed = skill("keyed", version="1.0.0", tool_class="write", in_doubt="hold", honours_key=True)(body)
read = skill("read", version="1.0.0", tool_class="read", in_doubt="hold")(body)
UNKNOWN = ["RpcError", "ReadTimeoutError", "OperationalError", "answer", "exit", "wrapped", "fallback", "200", "504"]
SAID = {
    "refuse": "ERR_INTERNAL",
    "look up": "ERR_INTERNAL",
    "say": "ERR_HTTP_503",
    "EndpointConnectionError": "ERR_INTERNAL",
    "422": "ERR_HTTP_4XX",
    "500": "ERR_HTTP_500",
}


def call(path: Path, made: Any, how: str) -> tuple[str, bool]:
    with Runtime(store_at(path / "store.db"), skills=[made]).session() as session:
        outcome = session.call(made.skill_id, {"how": how}, idempotency_key=how)
        if outcome.code == "ERR_IN_DOUBT":
            second = session.call(made.skill_id, {"how": how}, idempotency_key=how)
            assert second.code == "ERR_IN_DOUBT"
    return outcome.code, outcome.retryable


@pytest.mark.parametrize("how", UNKNOWN)
def test_any_exception_of_a_library_leaves_a_doubt(tmp_path: Path, how: str) -> None:
    assert call(tmp_path, hold, how) == ("ERR_IN_DOUBT", False)
    assert len(SENT) == 1, "it was sent once"


@pytest.mark.parametrize("how", SAID)
def test_what_the_skill_says_and_what_was_never_sent_is_a_failure(tmp_path: Path, how: str) -> None:
    assert call(tmp_path, hold, how)[0] == SAID[how]


@pytest.mark.parametrize("made", [again, keyed, read], ids=lambda made: made.skill_id)
def test_what_may_be_sent_again_fails_as_before(tmp_path: Path, made: Any) -> None:
    assert call(tmp_path, made, "RpcError")[0] == "ERR_INTERNAL"


def test_an_async_one_and_a_foreign_function_too(tmp_path: Path) -> None:
    @skill("hold_async", version="1.0.0", tool_class="write", in_doubt="hold")
    async def hold_async(how: str) -> Any:
        return body(how)

    assert call(tmp_path, hold_async, "RpcError")[0] == "ERR_IN_DOUBT"
    assert call(tmp_path, hold_async, "refuse")[0] == "ERR_INTERNAL"
    function: Callable[..., Any] = send
    with Runtime(store_at(tmp_path / "other.db")).session(id="order-42") as session:
        assert session.step(function, "OperationalError", skill_id="library").code == "ERR_IN_DOUBT"
        assert session.step(body, "refuse", skill_id="own").code == "ERR_INTERNAL"


def test_a_process_of_its_own_tells_as_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "own_process.py"
    module.write_text(
        "import json\n"
        "from reenact import skill\n\n\n"
        '@skill("own_process", version="1.0.0", tool_class="write", in_doubt="hold", isolation="process")\n'
        "def own_process(how: str) -> dict:\n"
        '    if how == "refuse":\n'
        '        raise ValueError("no such account")\n'
        "    return json.loads(how)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_process  # type: ignore[import-not-found]

    assert call(tmp_path, own_process.own_process, "not json") == ("ERR_IN_DOUBT", False)
    assert call(tmp_path, own_process.own_process, "refuse")[0] == "ERR_INTERNAL"
