"""A plan names hosts, skills, agents and amounts that its host never allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Policy, Runtime, SkillContext, skill
from reenact.errors import BeyondPolicy, PolicyError
from tests.attacks.strangers import OK
from tests.builtin.servers import Server
from tests.runtime.running import Bench, plan, step


@skill("costly", version="1.0.0", tool_class="read", cost_estimate_cents=60)
def costly() -> str:
    """Costs."""
    return "done"


@skill("touching", version="1.0.0", tool_class="read", side_effects=["http_request"])
def touching() -> str:
    """A read that others see."""
    return "done"


@skill("asking", version="1.0.0", tool_class="read", cost_model="tokens")
def asking(prompt: str, model: str = "gpt-4o") -> str:
    """Asks."""
    return prompt


@skill("said", version="1.0.0", tool_class="read")
def said(text: str) -> str:
    """What a tool says."""
    return text


@pytest.mark.parametrize(
    "entry",
    ["169.254.169.254", "10.0.0.1:80", "inner.example", "[fd00::1]:80", "127.0.0.1@10.0.0.1", "localhost/x", "0x7f.1"],
)
def test_hosts_inside_the_network(tmp_path: Path, entry: str) -> None:
    """`allow_hosts` opened any address of the inner network, and names that lead there."""
    with pytest.raises(BeyondPolicy, match=r"\$\.context\.allow_hosts\[0\]: this host does not open"):
        Bench(tmp_path).run(step("http_call", {"url": "http://x.example/"}), allow_hosts=[entry])


@pytest.mark.parametrize("asked", [{}, {"profile": {"hosts": ["127.0.0.1", "evil.example"]}}])
def test_other_hosts_than_the_policy_lists(tmp_path: Path, asked: dict[str, Any]) -> None:
    """Also one that is computed when the step is called."""
    with Server(OK) as server, Server(OK) as other:
        bench = Bench(tmp_path, said, policy={"hosts": [server.name]})
        steps = [
            step("http_call", {"url": other.url}),
            step(said, {"text": other.url}, step_id="said"),
            step("http_call", {"url": "{{said}}"}),
            step("http_call", {"url": server.url}),
        ]
        result = bench.run(*steps, allow_hosts=[server.name, other.name], on_error="continue", **asked)
        codes = [outcome.code for outcome in result.outcomes]
        assert codes == ["ERR_BLOCKED_HOST", "OK", "ERR_BLOCKED_HOST", "OK_HTTP_CALL"]
        assert other.requests == []
        bench.check(result)


def test_skills_and_side_effects_that_it_denies(tmp_path: Path) -> None:
    """What a plan allows itself is what the policy allows too."""
    policy = {"skills": ["json_transform", "http_call"], "disallowed_side_effects": ["http_request"]}
    bench = Bench(tmp_path, costly, policy=policy)
    steps = [step(costly), step("http_call", {"url": "http://a.example/"})]
    result = bench.run(*steps, on_error="continue", allowed_skills=["costly", "http_call"])
    assert [outcome.code for outcome in result.outcomes] == ["ERR_PERMISSION_DENIED"] * 2
    bench.check(result)
    with bench.runtime.session(context={"profile": {"allowed_skills": ["costly"]}}) as session:
        assert session.call("costly").code == "ERR_PERMISSION_DENIED"
    assert bench.runtime.replay(result.run_id).verdict == "matched"
    assert Runtime(bench.path, skills=[costly]).replay(result.run_id).verdict == "matched"


def test_an_agent_that_is_not_his(tmp_path: Path) -> None:
    """An agent has a day's money, keys and values of its own: a plan took any agent's."""
    runtime = Runtime(tmp_path / "store.db", policy={"agents": ["reader-*", "clerk"]})
    for agent_id in ("reader-1", "clerk"):
        assert runtime.run({**plan(), "agent_id": agent_id}).status == "completed"
    for agent_id in ("boss", "clerk@boss"):
        with pytest.raises(BeyondPolicy, match=rf"\$\.agent_id: '{agent_id}' is not among the agents of this host"):
            runtime.run({**plan(), "agent_id": agent_id})
    with pytest.raises(BeyondPolicy, match="'boss' is not among"), runtime.session(agent_id="boss"):
        pass


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ({"denied_skills": ["costly*"]}, "ERR_PERMISSION_DENIED"),
        ({"denied_skills": ["*"]}, "ERR_PERMISSION_DENIED"),
        ({"denied_skills": ["costly@1.0.0"]}, "ERR_PERMISSION_DENIED"),
        ({"skills": ["said*"]}, "ERR_PERMISSION_DENIED"),
        ({"skills": ["cost*"]}, "OK"),
        ({"denied_skills": ["cost"]}, "OK"),
    ],
)
def test_a_skill_that_is_denied_by_how_its_name_begins(tmp_path: Path, policy: dict[str, Any], code: str) -> None:
    """A list with `costly*` denied nothing: only whole names were looked for."""
    runtime = Runtime(tmp_path / "store.db", skills=[costly], policy=policy)
    assert runtime.run(plan(step("costly", {}))).outcomes[0].code == code
    with runtime.session() as session:
        assert session.call("costly", {}).code == code


@pytest.mark.parametrize("declared", [["email_sent"], []])
def test_a_side_effect_that_is_denied_by_how_its_name_begins(tmp_path: Path, declared: list[str]) -> None:
    """Whether it was declared, or is only reported."""

    @skill("mails", version="1.0.0", tool_class="write", side_effects=declared)
    def mails(ctx: SkillContext) -> str:
        """Mails."""
        ctx.side_effect("email_sent", "kim")
        (tmp_path / "sent").touch()
        return "sent"

    runtime = Runtime(tmp_path / "store.db", skills=[mails], policy={"disallowed_side_effects": ["email_*"]})
    assert runtime.run(plan(step("mails", {}))).outcomes[0].code == "ERR_PERMISSION_DENIED"
    assert not (tmp_path / "sent").exists()


@pytest.mark.parametrize(
    "context", [{}, {"budget_cents": 100_000}, {"budget": {"mode": "soft"}, "budget_cents": 100_000}]
)
def test_more_money(tmp_path: Path, context: dict[str, Any]) -> None:
    """No budget, a higher one, or one that only warns."""
    bench = Bench(tmp_path, costly, policy={"money": {"budget_cents": 100}})
    result = bench.run(step(costly), step(costly), **context)
    assert [outcome.code for outcome in result.outcomes] == ["OK", "ERR_BUDGET_EXCEEDED"]
    bench.check(result)


def test_prices_of_its_own(tmp_path: Path) -> None:
    """Priced at nothing, no budget stops it."""
    bench = Bench(tmp_path, costly, policy={"money": {"budget_cents": 100}})
    pinned: dict[str, Any] = bench.runtime.pinned(plan(step(costly), step(costly)))
    pinned["context"]["pins"]["prices"]["skills"]["costly@1.0.0"]["cost_estimate_cents"] = 0
    with pytest.raises(BeyondPolicy, match="priced below what the skill declares here"):
        bench.runtime.run(pinned)
    free = {"models": {"gpt-4o": {"input": "0", "output": "0"}}, "version": "his"}
    call = step("llm_invoke", {"model": "gpt-4o", "prompt": "x"})
    with pytest.raises(BeyondPolicy, match="brings its own price of gpt-4o, and this host knows a higher one"):
        bench.run(call, prices=free)
    unknown = {"models": {"no-such-model": {"input": "0", "output": "0"}}, "version": "his"}
    with pytest.raises(BeyondPolicy, match="this host has no price for it"):
        bench.run(step("llm_invoke", {"model": "no-such-model", "prompt": "x"}), prices=unknown)


@pytest.mark.parametrize("own", [None, {"max_external_calls": 5}])
def test_calls_that_its_pins_do_not_count(tmp_path: Path, own: dict[str, Any] | None) -> None:
    """A plan that came pinned says which skills have side effects: with none of them no call was counted."""
    touches = Bench(tmp_path / "his", touching, policy={"max_external_calls": 1})
    pinned: dict[str, Any] = touches.runtime.pinned(plan(step(touching), step(touching), profile={"hosts": []}))
    assert pinned["context"]["pins"]["side_effects"] == ["touching@1.0.0"]
    codes = [outcome.code for outcome in touches.runtime.run(pinned).outcomes]
    assert codes == ["OK", "ERR_QUOTA_EXCEEDED"]
    pinned["context"]["pins"]["side_effects"] = []
    pinned["context"]["profile"] = own
    with pytest.raises(
        BeyondPolicy, match=r"pins\.side_effects: touching@1\.0\.0 declares side effects here"
    ) as refused:
        touches.runtime.run(pinned)
    assert refused.value.key == "max_external_calls"


def test_the_price_of_another_model_than_is_asked(tmp_path: Path) -> None:
    """A call that names no model asks the skill's own: a plan that came pinned counted with a cheaper one's price."""
    bench = Bench(tmp_path, asking, policy={"money": {"budget_cents": 100}})
    pinned: dict[str, Any] = bench.runtime.pinned(plan(step(asking, {"prompt": "x"})))
    pinned["context"]["pins"]["prices"]["skills"]["asking@1.0.0"]["model"] = "gpt-4o-mini"
    with pytest.raises(BeyondPolicy, match="priced below what the skill declares here"):
        bench.runtime.run(pinned)


def test_approval_by_nobody(tmp_path: Path) -> None:
    """A host that wants to be asked is asked, whatever the plan says of itself."""
    runtime = Runtime(tmp_path / "store.db", policy={"supervisors": ["ask"]})
    write = step("kv_store", {"operation": "set", "key": "a", "value": 1})
    assert runtime.run(plan(write)).status == "waiting"
    assert runtime.run(plan(write, supervisor="auto")).status == "waiting"
    with pytest.raises(BeyondPolicy, match="does not load 'os:system'"):
        runtime.run(plan(write, supervisor="os:system"))


@pytest.mark.parametrize("key", ["agents", "skills", "hosts", "secrets", "supervisors", "workspaces"])
def test_a_text_where_the_policy_lists_names(key: str) -> None:
    """`Policy(hosts="*.example.com")`: each letter was taken for a name, and `*` is anything."""
    with pytest.raises(PolicyError, match=f"{key}: expected `array`, got `str`"):
        Runtime(":memory:", policy=Policy(**{key: "*.example.com"}))  # type: ignore[arg-type]
    assert Runtime(":memory:", policy=Policy(shell={"allow": True})).policy.said.shell.allow is True  # type: ignore[arg-type]
