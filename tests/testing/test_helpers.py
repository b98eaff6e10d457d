"""What tests of agents are given: plans, mocked HTTP, a shut network."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from reenact.errors import PlanError, UsageError
from reenact.testing import NetworkShut, Reply, execute, load_plan, mock_http, replay, shut_network


def get(url: str = "https://api.example.com/x", **parameters: object) -> dict[str, object]:
    step = {"step_id": "get", "skill_id": "http_call", "parameters": {"url": url, **parameters}}
    return {"plan_id": "p", "agent_id": "a", "steps": [step], "context": {"retry": {"max_retries": 1}}}


def test_load_plan_finds_a_file_beside_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(PlanError, match=r"no_such_plan\.json"):
        load_plan("no_such_plan.json")
    beside = Path(__file__).with_name("beside.json")
    assert load_plan("beside.json")["plan_id"] == "beside"
    assert load_plan(beside) == load_plan(str(beside))


def test_routes_answer_by_method_and_url() -> None:
    routes = {"GET https://api.example.com/x": Reply(200, {"n": 1}), "https://api.example.com/y": 404}
    with mock_http(routes) as http:
        assert execute(get()).outcomes[0].output["body"] == {"n": 1}  # type: ignore[index]
        assert execute(get("https://api.example.com/y")).final_code == "ERR_HTTP_404"
        assert execute(get("https://other.example/")).final_code == "ERR_BLOCKED_HOST"
    assert http.calls[0] == ("GET", "https://api.example.com/x")


def test_a_list_of_replies_ends_with_its_last_one_again_and_again() -> None:
    with mock_http({"https://api.example.com/x": [503, 200, 500]}):
        codes = [execute(get()).final_code for _ in range(2)]
    assert codes == ["OK_HTTP_CALL", "ERR_HTTP_500"]


def test_a_function_may_answer() -> None:
    with mock_http(always=lambda request: Reply(200, request.headers["user-agent"])):
        assert execute(get()).outcomes[0].output["body"] == "reenact"  # type: ignore[index]


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(TypeError, match="sometimes_503"), mock_http(sometimes_503=True):
        pass


def test_a_mocked_request_reports_its_side_effect_once_per_attempt() -> None:
    with mock_http(always_503=True):
        outcome = execute(get()).outcomes[0]
    assert [(effect.type, effect.target, effect.attempt) for effect in outcome.side_effects] == [
        ("http_request", "api.example.com", 0),
        ("http_request", "api.example.com", 1),
    ]


def test_a_name_that_cannot_be_resolved_touches_nothing() -> None:
    with mock_http(always="dns"):
        outcome = execute(get()).outcomes[0]
    assert (outcome.code, outcome.side_effects) == ("ERR_DNS_FAILURE", [])


def test_a_plan_that_was_not_executed_cannot_be_replayed() -> None:
    with pytest.raises(UsageError, match="call execute\\(plan\\) first"):
        replay(get("https://never.example/"))


def test_a_result_can_be_replayed_too() -> None:
    with mock_http(always=204):
        result = execute(get())
    assert replay(result).matches


def test_a_shut_network_stops_asyncio_and_datagrams_and_opens_again() -> None:
    async def connect() -> None:
        await asyncio.open_connection("127.0.0.1", 9)

    with shut_network():
        with pytest.raises(NetworkShut):
            asyncio.run(connect())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, pytest.raises(NetworkShut):
            datagrams.sendto(b"x", ("127.0.0.1", 9))
        left, right = socket.socketpair()
        left.sendall(b"between processes")
        assert right.recv(20) == b"between processes"
        left.close()
        right.close()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass
