"""An agent with a list of hosts reaches no other one: by no argument, no secret, no default and no redirect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, skill
from reenact.contracts.outcome import StructuredOutcome
from tests.builtin.servers import Server, answer, by_path
from tests.builtin.test_email_send import Inbox, serving

ELSEWHERE = {"profile": {"hosts": ["good.example.com"]}}
MAIL = {
    "to": ["ann@example.org"], "subject": "Hello", "body": "text", "sender": "agent@example.com", "security": "none",
}  # fmt: skip
CALLED: list[str] = []


@skill("fetch", version="1.0.0", tool_class="read")
async def fetch(url: str, hook_url: str = "", host: str = "", port: int = 80) -> str:
    """Would open a connection of its own."""
    CALLED.append(url or host)
    return url


class Host:
    """A runtime in a folder, and what its session's only call comes to."""

    def __init__(self, folder: Path) -> None:
        self.runtime = Runtime(str(folder / "store.db"), secrets={"KEY": "sk-1234567"})
        self.runtime.registry.register(fetch)

    def call(
        self, name: str, parameters: dict[str, Any], context: dict[str, Any], secrets: dict[str, str] | None = None
    ) -> StructuredOutcome:
        with self.runtime.session(context=context) as session:
            outcome = session.call(name, parameters, secrets=secrets)
        for skills in (self.runtime.registry, Registry()):
            assert Runtime(self.runtime.store, skills=skills).replay(session.run_id).verdict == "matched"
        return outcome


@pytest.fixture
def host(tmp_path: Path) -> Host:
    CALLED.clear()
    return Host(tmp_path)


def inside(name: str, **profile: Any) -> dict[str, Any]:
    return {"allow_hosts": [name], **profile}


@pytest.mark.parametrize("security", ["none", "starttls"])
def test_no_mail_goes_to_another_server(security: str, host: Host) -> None:
    inbox = Inbox()
    with serving(inbox) as port:
        parameters = {**MAIL, "smtp_host": "127.0.0.1", "smtp_port": port, "security": security}
        outcome = host.call("email_send", parameters, inside(f"127.0.0.1:{port}", **ELSEWHERE))
    assert (outcome.code, outcome.status) == ("ERR_BLOCKED_HOST", "failure")
    assert inbox.messages == []


def test_mail_goes_to_a_server_of_the_list_through_its_port_and_no_other(host: Host) -> None:
    inbox = Inbox()
    with serving(inbox) as port:
        parameters = {**MAIL, "smtp_host": "127.0.0.1", "smtp_port": port}
        here = {"profile": {"hosts": [f"127.0.0.1:{port}"]}}
        assert host.call("email_send", parameters, inside("127.0.0.1", **here)).ok
        other = {**MAIL, "smtp_host": "127.0.0.1"}
        assert host.call("email_send", other, inside("127.0.0.1", **here)).code == "ERR_BLOCKED_HOST"
    assert len(inbox.messages) == 1


def test_a_secret_does_not_lead_elsewhere(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(answer()) as server:
        monkeypatch.setenv("HOOK", server.url + "/x")
        for name in ("http_call", "fetch"):
            outcome = host.call(name, {"url": ""}, inside(server.name, **ELSEWHERE), {"/url": "HOOK"})
            assert outcome.code == "ERR_BLOCKED_HOST"
            assert server.name not in outcome.message
    assert server.requests == []
    assert CALLED == []


def test_a_secret_may_lead_to_a_host_of_the_list(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(answer(body=b"{}")) as server:
        monkeypatch.setenv("HOOK", server.url + "/x")
        here = inside(server.name, profile={"hosts": [server.name]})
        assert host.call("http_call", {"url": ""}, here, {"/url": "HOOK"}).ok
    assert len(server.requests) == 1


@pytest.mark.parametrize("model", ["claude-sonnet-4-6", "gpt-4o"])
def test_a_model_at_its_providers_own_host_counts_too(model: str, host: Host) -> None:
    parameters = {"prompt": "hi", "model": model, "api_key": ""}
    assert host.call("llm_invoke", parameters, ELSEWHERE, {"/api_key": "KEY"}).code == "ERR_BLOCKED_HOST"


def test_a_redirect_does_not_lead_elsewhere(host: Host) -> None:
    with Server(answer()) as other:
        away = by_path(a=answer(302, headers={"location": other.url}))
        with Server(away) as server:
            context = {"allow_hosts": [server.name, other.name], "profile": {"hosts": [server.name]}}
            assert not host.call("http_call", {"url": server.url + "/a"}, context).ok
    assert other.requests == []


@pytest.mark.parametrize(("parameters", "code"), [
    ({"url": "https://good.example.com/"}, "OK"),
    ({"url": "https://good.example.com:8443/"}, "OK"),
    ({"url": "https://evil.example.com/"}, "ERR_BLOCKED_HOST"),
    ({"url": "https://good.example.com@evil.example.com/"}, "ERR_BLOCKED_HOST"),
    ({"url": "https://good.example.com/", "hook_url": "http://evil.example.com"}, "ERR_BLOCKED_HOST"),
    ({"url": "/relative"}, "ERR_BLOCKED_HOST"),
    ({"url": "https://good.example.com/", "host": "good.example.com"}, "OK"),
    ({"url": "https://good.example.com/", "host": "evil.example.com"}, "ERR_BLOCKED_HOST"),
])  # fmt: skip
def test_what_a_skill_of_ones_own_is_told_to_reach_is_on_the_list(
    parameters: dict[str, Any], code: str, host: Host
) -> None:
    assert host.call("fetch", parameters, ELSEWHERE).code == code
    assert bool(CALLED) is (code == "OK")


def test_a_default_of_a_skill_of_ones_own_counts_beside_an_argument(host: Host) -> None:
    only = {"profile": {"hosts": ["good.example.com:81", "good.example.com:443"]}}
    url = "https://good.example.com/"
    assert host.call("fetch", {"url": url, "host": "good.example.com"}, only).code == "ERR_BLOCKED_HOST"
    assert host.call("fetch", {"url": url, "host": "good.example.com", "port": 81}, only).code == "OK"
