"""A POST whose answer is lost is not sent twice, whether the connection or the process has died; a GET is."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reenact import Runtime
from tests.crash.harness import in_child

RETRY = {"max_retries": 2, "backoff_base_ms": 1}


class Mute:
    """A server that takes requests, counts them, and hangs up without a word."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._line = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._line.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._line.accept()
            except OSError:
                return
            with caller:
                self.heard.append(caller.recv(65536).split(b" ")[0].decode())

    def close(self) -> None:
        self._line.shutdown(socket.SHUT_RDWR)  # so that whoever waits for a caller hears of it
        self._thread.join()
        self._line.close()


@contextmanager
def mute() -> Iterator[Mute]:
    server = Mute()
    try:
        yield server
    finally:
        server.close()


def plan(server: Mute, method: str, version: str | None = None) -> dict[str, object]:
    step = {
        "step_id": "s",
        "skill_id": "http_call",
        "parameters": {"url": f"http://{server.host}/", "method": method},
        "retry": RETRY,
    }
    pinned = {} if version is None else {"skill_version": version}
    return {
        "plan_id": "p",
        "agent_id": "a",
        "steps": [{**step, **pinned}],
        "context": {"allow_hosts": [server.host]},
    }


def runtime(folder: Path) -> Runtime:
    return Runtime(str(folder / "store.db"), policy={"private_hosts": ["127.0.0.1"], "hosts": ["*"]})


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_whose_connection_is_cut_is_in_doubt_and_sent_once(tmp_path: Path, method: str) -> None:
    with mute() as server:
        result = runtime(tmp_path).run(plan(server, method))
        assert (result.status, server.heard) == ("held", [method])
        assert runtime(tmp_path).resume("last").status == "held"
    assert server.heard == [method]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_write_whose_process_died_is_in_doubt_and_sent_once(tmp_path: Path, method: str) -> None:
    with mute() as server:
        killed = in_child(lambda: runtime(tmp_path).run(plan(server, method)), crash_at="after_dispatch")
        assert killed == signal.SIGKILL
        (result,) = runtime(tmp_path).recover()
        assert (result.status, server.heard) == ("held", [method])
        assert "this skill is not sent twice" in str(result.reason)


def test_a_read_is_sent_again_either_way(tmp_path: Path) -> None:
    with mute() as server:
        in_child(lambda: runtime(tmp_path).run(plan(server, "GET")), crash_at="after_dispatch")
        (result,) = runtime(tmp_path).recover()
    assert result.status == "failed"
    assert server.heard == ["GET"] * 4, "once, again after the crash, and two retries"


def test_the_version_of_before_keeps_its_rule(tmp_path: Path) -> None:
    with mute() as server:
        in_child(lambda: runtime(tmp_path).run(plan(server, "POST", "1.2.0")), crash_at="after_dispatch")
        (result,) = runtime(tmp_path).recover()
    assert (result.status, server.heard) == ("failed", ["POST", "POST"])
