"""A plan, or a mailed folder, names a variable of whoever reads it as a secret, and sends it home."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import Policy, Runtime, skill
from reenact.errors import BeyondPolicy, PlanError, UntrustedPlan, WaitingForPerson
from tests.attacks.strangers import NAME, OK, PLANTED, VALUE, mailed, refused, sending
from tests.builtin.servers import Server
from tests.cli.harness import Command
from tests.runtime.running import Bench, plan, step


@skill("take", version="1.0.0", tool_class="read")
def take(token: str) -> str:
    """Says it again."""
    return token


@skill("name_it", version="1.0.0", tool_class="read")
def name_it() -> str:
    """What a tool, or whoever feeds it, says."""
    return NAME


@pytest.mark.parametrize("given", ["a file", "a mapping"])
def test_by_a_plan_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """Any variable could be named as `$secret`."""
    with Server(OK) as server:
        reader = Command(tmp_path)
        path = reader.plan(sending(server), allow_hosts=[server.name])
        if given == "a file":
            done = reader("run", path, **PLANTED)
            assert (done.code, "ERR_SECRET_UNAVAILABLE" in done.out) == (1, True)
            assert f"REENACT_SECRET_{NAME}" in done.out
        else:
            monkeypatch.setenv(NAME, VALUE)
            result = Runtime(tmp_path / "store.db").run(plan(sending(server), allow_hosts=[server.name]))
            assert result.outcomes[0].code == "ERR_SECRET_UNAVAILABLE"
        assert server.requests == []


@pytest.mark.parametrize("arguments", [("replay", "--mode", "full_replay"), ("fork", "--at", "s0", "--live")])
def test_by_a_folder_that_is_replayed_live(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A full replay of a mailed folder sent it to the stranger's host; said to be trusted, it still does not."""
    with Server(OK) as server:
        mail = mailed(tmp_path / "stranger", sending(server), allow_hosts=[server.name])
        sent = len(server.requests)
        command, *options = arguments
        (tmp_path / "reader").mkdir()
        reader = Command(tmp_path / "reader")
        refused(reader(command, mail, *options, **PLANTED), "http_call@", server.name, NAME, "--trust-plan")
        assert len(server.requests) == sent
        trusted = reader(command, mail, *options, "--trust-plan", **PLANTED)
        assert trusted.code in (1, 5), (trusted.out, trusted.err)  # there is no such secret here
        assert [request for request in server.requests if VALUE in str(request)] == []
        assert len(server.requests) == sent


def test_by_a_folder_that_a_program_replays(tmp_path: Path) -> None:
    """The same through the Python door: it is told what would be done, by kind."""
    with Server(OK) as server:
        mail = mailed(tmp_path / "stranger", sending(server), allow_hosts=[server.name])
        runtime, sent = Runtime(tmp_path / "store.db", secrets={NAME: VALUE}), len(server.requests)
        with pytest.raises(UntrustedPlan) as caught:
            runtime.replay(mail, mode="full_replay")
        assert caught.value.would["hosts"] == [server.name]
        assert caught.value.would["secrets"] == [NAME]
        assert [each.partition("@")[0] for each in caught.value.would["skills"]] == ["http_call"]
        with pytest.raises(UntrustedPlan):
            runtime.fork(mail, "s0", live=True)
        assert len(server.requests) == sent
        assert runtime.replay(mail).verdict == "matched"
        assert len(server.requests) == sent
        assert runtime.replay(mail, mode="full_replay", trust_plan=True).status == "completed"
        assert server.requests[-1].headers["x-key"] == VALUE  # bound by the host's program, and trusted


@pytest.mark.parametrize(
    "value", [{"$secret": "{{s0}}"}, {"$secret": "X{{s0}}"}, {"$secret": {"$secret": NAME}}, {"$secret": ["{{s0}}"]}]
)
@pytest.mark.parametrize("policy", [None, Policy(secrets=["*"])])
def test_by_a_name_that_a_tool_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: object, policy: Policy | None
) -> None:
    """`{"$secret": "{{a}}"}` let a tool's output choose the secret."""
    monkeypatch.setenv(NAME, VALUE)
    monkeypatch.setenv(f"REENACT_SECRET_{NAME}", VALUE)
    bench = Bench(tmp_path, take, name_it, policy=policy)
    with pytest.raises((BeyondPolicy, PlanError), match=r"token: a secret is (named in so many|written)"):
        bench.run(step(name_it), step(take, {"token": value}))


def test_by_a_store_that_a_command_goes_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session in a store that was mailed: its names of secrets are the stranger's, not the reader's program's."""
    with Server(OK) as server:
        monkeypatch.setenv(NAME, "his-own-value")
        call = {"url": f"{server.url}/steal", "method": "POST"}
        context = {"allow_hosts": [server.name], "supervisor": "ask"}
        stranger = Bench(tmp_path)
        with pytest.raises(WaitingForPerson), stranger.runtime.session(context=context) as session:
            session.call("http_call", {**call, "headers": {}}, secrets={"/headers/x-key": NAME})
        reader = Command(tmp_path)
        assert reader("approve", session.run_id, "--reason", "why not", **PLANTED).code == 0
        done = reader("recover", **PLANTED)
        assert server.requests == [], done.out


def test_by_a_name_that_the_policy_does_not_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed names are variables as they stand; no other name is looked up, wherever its value lies."""
    monkeypatch.setenv(NAME, VALUE)
    monkeypatch.setenv(f"REENACT_SECRET_{NAME}", VALUE)
    monkeypatch.setenv("SHOP_TOKEN", "listed")
    bench = Bench(tmp_path, take, policy={"secrets": ["SHOP_*"]})
    assert bench.run(step(take, {"token": {"$secret": "SHOP_TOKEN"}})).status == "completed"
    with pytest.raises(BeyondPolicy, match=f"the secret '{NAME}' is not among those"):
        bench.run(step(take, {"token": {"$secret": NAME}}))
    with bench.runtime.session() as session:
        assert session.call("take", {}, secrets={"/token": NAME}).code == "ERR_SECRET_UNAVAILABLE"
        assert session.call("take", {}, secrets={"/token": "SHOP_TOKEN"}).ok
