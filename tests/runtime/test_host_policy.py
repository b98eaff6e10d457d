"""The policy in force: found, told, recorded with a run, and obeyed by a run that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Policy, Runtime, skill
from reenact.contracts.plan import plan_hash
from reenact.errors import BeyondPolicy, PlanError, PolicyError, UsageError, WaitingForPerson
from reenact.record.outcomes import said
from reenact.record.reader import RunReader
from reenact.runtime.host_policy import find_policy
from reenact.runtime.people.decisions import cancel, vote
from tests.engines.places import store_at
from tests.runtime.running import Bench, plan, step


@skill("write", version="1.0.0", tool_class="write")
def write(text: str = "") -> str:
    """Writes."""
    return text


def waiting(folder: Path, policy: dict[str, Any] | None = None, **context: object) -> str:
    began = Bench(folder, write, policy=policy).run(step(write), step(write), supervisor="ask", **context)
    assert began.status == "waiting"
    return began.run_id


def approve(bench: Bench, run_id: str) -> None:
    asyncio.run(vote(bench.runtime, run_id, None, approve=True, reason="good"))


TIGHTER = [
    {"agents": ["another"]},
    {"skills": ["json_transform"]},
    {"hosts": ["a.example"]},
    {"money": {"budget_cents": 1}},
    {"supervisors": ["auto"]},
]


@pytest.mark.parametrize("policy", TIGHTER)
def test_a_run_that_goes_on_obeys_the_policy_of_today(tmp_path: Path, policy: dict[str, Any]) -> None:
    run_id = waiting(tmp_path)
    tight = Bench(tmp_path, write, policy=policy)
    approve(tight, run_id)
    held = tight.runtime.resume(run_id)
    assert held.status == "held"
    assert "policy" in str(held.reason)
    assert held.outcomes == []
    tight.check(run_id, exit_code=4)
    loose = Bench(tmp_path, write)
    assert loose.runtime.resume(run_id).status == "waiting"  # the first step was made, the second asks
    asyncio.run(cancel(tight.runtime, run_id, reason="no more"))
    assert tight.runtime.resume(run_id).status == "cancelled"
    tight.check(run_id)


def test_a_wider_policy_changes_nothing_in_a_run_that_has_begun(tmp_path: Path) -> None:
    run_id = waiting(tmp_path, {"money": {"budget_cents": 7}, "hosts": ["a.example"]})
    bench = Bench(tmp_path, write, policy={"hosts": ["*"]})
    result = bench.runtime.resume(run_id)
    assert result.status == "waiting"
    document = recorded(bench, run_id)
    assert document["context"]["profile"] == {"hosts": ["a.example"]}
    assert document["context"]["budget_cents"] == 7


def recorded(bench: Bench, run_id: str) -> dict[str, Any]:
    return RunReader(bench.store, run_id).plan()[1]


def test_the_plan_on_record_names_the_policy_where_one_was_set(tmp_path: Path) -> None:
    policy = Policy(agents=["agent"])
    bench = Bench(tmp_path, write, policy=policy)
    done = bench.run(step(write))
    assert recorded(bench, done.run_id)["context"]["pins"]["policy"] == find_policy(policy).digest
    free = Bench(tmp_path, write)
    assert "policy" not in recorded(free, free.run(step(write)).run_id)["context"]["pins"]


def test_a_pinned_plan_that_needs_no_narrowing_keeps_its_hash(tmp_path: Path) -> None:
    pinned = Bench(tmp_path, write).runtime.pinned(plan(step(write), budget_cents=5))
    for policy, same in (({"skills": ["write"]}, False), ({"secrets": ["A"]}, True), ({"agents": ["agent"]}, True)):
        bench = Bench(tmp_path, write, policy=policy)
        assert (plan_hash(bench.runtime.pinned(pinned)) == plan_hash(pinned)) is same


def test_a_session_is_held_to_what_the_policy_says_and_to_nothing_else(tmp_path: Path) -> None:
    policy = {"skills": ["write"], "money": {"budget_cents": 10}}
    bench = Bench(tmp_path, write, policy=policy)
    wish: dict[str, Any] = {"workspace": "/", "shell": {"allow": True}, "budget_cents": 50}
    for _ in range(2):  # the second start finds the first by its id
        with bench.runtime.session(id="one", agent_id="agent", context=wish) as session:
            assert session.call("write", {"text": "x"}).ok
            assert session.call("file_read", {"path": "etc/hostname"}).code == "ERR_PERMISSION_DENIED"
    bench.check(session.run_id)


def test_a_mistake_in_the_context_of_a_session_is_told_under_a_policy_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, write, policy={"skills": ["write"]})
    with pytest.raises(UsageError, match="max_retries"), bench.runtime.session(context={"retry": {"max_retries": "3"}}):
        pass


def test_a_session_that_is_started_again_obeys_the_policy_of_today(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Bench(tmp_path, write).runtime.session(id="one") as session:
        session.call("write")
        raise KeyError
    tight = Bench(tmp_path, write, policy={"skills": ["json_transform"]})
    with pytest.raises(WaitingForPerson, match=r"allows less today .* context\.profile"):
        tight.runtime.session(id="one").__enter__()
    (held,) = tight.runtime.recover()
    assert held.status == "held"
    with Bench(tmp_path, write).runtime.session(id="one") as session:
        assert session.call("write").ok


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("skils = []", r"policy.toml:1: a policy has no key skils; did you mean skills\?"),
        ("\n[shell]\nallow = 1", r"policy.toml:3: shell.allow: expected `bool`, got `int`"),
        ("[money]\nbudget_cents = -1", r"policy.toml:2: money.budget_cents: expected `int` >= 0"),
        ("zz = 1", r"policy.toml:1: a policy has no key zz; known are agents, skills"),
        ("skills = [[", r"policy.toml: the policy is not TOML: "),
        ('hosts = "a"', r"policy.toml:1: hosts: expected `array`, got `str`"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(PolicyError, match=told):
        find_policy(file)
    with pytest.raises(PolicyError, match="cannot be read"):
        find_policy(tmp_path / "nowhere.toml")


def test_a_mistake_in_a_mapping_is_told_too(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"policy: a policy has no key shell.alow; did you mean shell.allow\?"):
        Runtime(store_at(tmp_path / "store.db"), policy={"shell": {"alow": True}})


def test_folders_are_beneath_the_file_and_secrets_do_not_stand_in_what_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "policy.toml"
    file.write_text('workspaces = ["data"]')
    monkeypatch.setenv("REENACT_POLICY", str(file))
    monkeypatch.chdir("/")
    assert find_policy().for_plans.workspaces == (str(tmp_path / "data"),)
    bench = Bench(tmp_path, write)
    put = step("file_write", {"path": "a", "content": "x"})
    assert bench.run(put, workspace=str(tmp_path / "data")).status == "completed"
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    for folder in (str(tmp_path), f"/{token}"):
        with pytest.raises(PlanError) as refused:
            bench.run(put, workspace=folder)
        assert isinstance(refused.value, BeyondPolicy) is (folder == str(tmp_path))
        assert token not in str(refused.value)


# -- calls that the policy refuses -------------------------------------------------------------------------------------


@skill("reach", version="1.0.0", tool_class="write", side_effects=["post"], cost_estimate_cents=5)
def reach(url: str = "https://b.example/") -> str:
    """Reaches out."""
    return url


REFUSES = [
    ('denied_skills = ["reach"]', "denied_skills", "ERR_PERMISSION_DENIED"),
    ('skills = ["write"]', "skills", "ERR_PERMISSION_DENIED"),
    ('hosts = ["a.example"]', "hosts", "ERR_BLOCKED_HOST"),
    ('disallowed_side_effects = ["post"]', "disallowed_side_effects", "ERR_PERMISSION_DENIED"),
    ("max_external_calls = 0", "max_external_calls", "ERR_QUOTA_EXCEEDED"),
    ("[money]\nbudget_cents = 3", "money.budget_cents", "ERR_BUDGET_EXCEEDED"),
    ("[money]\nper_step_cents = 3", "money.per_step_cents", "ERR_BUDGET_EXCEEDED"),
    ("[money]\nper_day_cents = 3", "money.per_day_cents", "ERR_BUDGET_EXCEEDED"),
]


@pytest.mark.parametrize(("text", "key", "code"), REFUSES, ids=lambda value: str(value).replace("\n", " "))
def test_a_refusal_names_the_key_and_the_line_that_decide(tmp_path: Path, text: str, key: str, code: str) -> None:
    file = tmp_path / "reenact.toml"
    file.write_text(f"# of this host\n{text}\n")
    line = 2 + text.count("\n")
    bench = Bench(tmp_path, write, reach, policy=file)
    parameters = {"url": "https://b.example/"}
    result = bench.run(step(reach, parameters))
    with bench.runtime.session() as session:
        outcome = session.call("reach", parameters)
    for refused in (*result.outcomes, outcome):
        assert refused.code == code
        assert f"; {key} in the host's policy decides ({file}:{line})" in said(refused)
    replayed = bench.runtime.replay(result.run_id)
    assert (replayed.verdict, replayed.content) == ("matched", ())
    in_code = Bench(tmp_path, write, reach, policy={"denied_skills": ["reach"]}).run(step(reach, parameters))
    assert "denied_skills in the host's policy decides (Runtime(policy=…))" in said(in_code.outcomes[0])


def test_what_a_plan_itself_refuses_is_not_said_to_be_the_policys(tmp_path: Path) -> None:
    bench = Bench(tmp_path, write, reach, policy={"denied_skills": ["other"], "money": {"budget_cents": 900}})
    profile = bench.run(step(reach), profile={"denied_skills": ["reach"]})
    budget = bench.run(step(reach), budget_cents=1)
    assert all("policy" not in said(each) for each in (*profile.outcomes, *budget.outcomes))


@pytest.mark.parametrize("budget", [{}, {"budget": {"mode": "hard"}}], ids=["a sum alone", "a budget"])
def test_a_run_whose_own_budget_is_within_a_limit_of_today_goes_on(tmp_path: Path, budget: dict[str, Any]) -> None:
    run_id = waiting(tmp_path, budget_cents=100, **budget)
    for policy in ({"budget_cents": 99}, {"budget_cents": 100, "per_step_cents": 5}, {"per_day_cents": 1_000}):
        tight = Bench(tmp_path, write, policy={"money": policy})
        assert tight.runtime.resume(run_id).status == "held", policy
    approve(tight, run_id)
    assert Bench(tmp_path, write, policy={"money": {"budget_cents": 100}}).runtime.resume(run_id).status == "waiting"


# -- pins of a run that goes on ----------------------------------------------------------------------------------------


@skill("fetch", version="1.0.0", tool_class="write", side_effects=["http_request"], cost_estimate_cents=60)
def fetch() -> str:
    return "fetched"


@skill("ask_model", version="1.0.0", tool_class="write", cost_model="tokens")
def ask_model(prompt: str, model: str = "gpt-4o") -> str:
    return prompt


LIMITS: dict[str, Any] = {"budget_cents": 200, "budget": {"mode": "hard"}, "profile": {"max_external_calls": 2}}
A_PRICE = {"models": {"gpt-4o": {"input": "2500000", "output": "10000000"}}, "version": "ours"}


def begun_with(folder: Path, made: Any, change: Callable[[dict[str, Any]], None], **parameters: Any) -> str:
    """A run that waits, of a plan that came pinned, under no policy."""
    bench = Bench(folder, made)
    context = {**LIMITS, "supervisor": "ask", **({"prices": A_PRICE} if made is ask_model else {})}
    pinned = bench.runtime.pinned(plan(step(made, parameters), step(made, parameters), **context))
    change(pinned["context"]["pins"])
    began = bench.runtime.run(pinned)
    assert began.status == "waiting"
    return began.run_id


def nothing(_: dict[str, Any]) -> None: ...


def counts_none(pins: dict[str, Any]) -> None:
    pins["side_effects"] = []


def costs_nothing(pins: dict[str, Any]) -> None:
    pins["prices"]["skills"]["fetch@1.0.0"]["cost_estimate_cents"] = 0


def is_cheap(pins: dict[str, Any]) -> None:
    pins["prices"]["models"]["gpt-4o"] = {"input": "1", "output": "1"}


@pytest.mark.parametrize(
    ("made", "change", "policy"),
    [
        (fetch, counts_none, {"max_external_calls": 5}),
        (fetch, costs_nothing, {"money": {"budget_cents": 500}}),
        (ask_model, is_cheap, {"money": {"budget_cents": 500}, "prices": A_PRICE}),
    ],
)
def test_a_run_whose_pins_would_get_round_a_limit_of_today_is_held(
    tmp_path: Path, made: Any, change: Callable[[dict[str, Any]], None], policy: dict[str, Any]
) -> None:
    run_id = begun_with(tmp_path, made, change, **({"prompt": "x"} if made is ask_model else {}))
    tight = Bench(tmp_path, made, policy=policy)
    approve(tight, run_id)
    held = tight.runtime.resume(run_id)
    assert (held.status, held.outcomes) == ("held", [])
    assert "pins" in str(held.reason) or "its own price" in str(held.reason)
    assert "in the host's policy decides" in str(held.reason)
    tight.check(run_id, exit_code=4)
    assert Bench(tmp_path, made).runtime.resume(run_id).status == "waiting"  # the first step was made


@pytest.mark.parametrize(
    "policy", [{"max_external_calls": 5}, {"money": {"budget_cents": 500}}, {"hosts": ["*"]}], ids=str
)
def test_a_run_whose_pins_are_the_hosts_own_goes_on(tmp_path: Path, policy: dict[str, Any]) -> None:
    run_id = begun_with(tmp_path, fetch, nothing)
    tight = Bench(tmp_path, fetch, policy=policy)
    approve(tight, run_id)
    went_on = tight.runtime.resume(run_id)
    assert went_on.status == "waiting", went_on.reason


def test_a_price_that_was_pinned_stays_where_only_a_list_knows_another(tmp_path: Path) -> None:
    run_id = begun_with(tmp_path, ask_model, is_cheap, prompt="x")
    tight = Bench(tmp_path, ask_model, policy={"money": {"budget_cents": 500}})
    approve(tight, run_id)
    went_on = tight.runtime.resume(run_id)
    assert went_on.status == "waiting", went_on.reason
