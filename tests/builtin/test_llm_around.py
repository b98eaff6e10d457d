"""llm_invoke around its providers: the network, keys and limits, the stub, and what is asked wrongly."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from reenact.builtin.limiter import Limiter
from reenact.builtin.llm.adapters import adapter_for
from reenact.builtin.llm.messages import ModelRequest
from reenact.builtin.llm_invoke import llm_invoke
from reenact.errors import SkillError, UnknownPrice
from reenact.policy.cost import DEFAULT_PRICES, PICODOLLARS_PER_CENT
from tests.builtin.calling import call
from tests.builtin.models import CLAUDE, GPT, KEY, ask, claude_message, gpt_completion, says
from tests.builtin.servers import Server, answer, drip, reset_half_way, silence, unused_port

# The SDK warns of models that will be retired; which ones these are changes with its releases.
pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def sdks() -> None:
    """Imported before any clock runs: on a busy machine that alone takes seconds."""
    importlib.import_module("anthropic")
    importlib.import_module("openai")


# --- underneath -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_the_network_fails_in_its_usual_ways(model: str) -> None:
    base = {"prompt": "Hi", "model": model, "api_key": KEY}
    port = unused_port()
    refused = call(
        llm_invoke, {**base, "base_url": f"http://127.0.0.1:{port}"}, context={"allow_hosts": [f"127.0.0.1:{port}"]}
    )
    assert refused.code == "ERR_CONNECTION_REFUSED"
    assert refused.report.side_effects == []
    for behaviour, limit, code in (
        (silence, 300, "ERR_HTTP_TIMEOUT"),
        (drip, 300, "ERR_HTTP_TIMEOUT"),
        (reset_half_way, 30_000, "ERR_CONNECTION_REFUSED"),
    ):
        with Server(behaviour) as server:
            called = call(
                llm_invoke, {**base, "base_url": server.url}, context={"allow_hosts": [server.name]}, timeout_ms=limit
            )
        assert called.code == code


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_a_server_that_the_plan_did_not_allow_is_not_reached(model: str) -> None:
    with Server(says({})) as server:
        called = call(llm_invoke, {"prompt": "Hi", "model": model, "base_url": server.url, "api_key": KEY})
    assert called.code == "ERR_BLOCKED_HOST"
    assert (server.requests, called.report.side_effects) == ([], [])


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_a_redirect_is_not_followed_with_the_key(model: str) -> None:
    with Server(says({})) as other, Server(answer(307, headers={"location": other.url})) as server:
        called = ask(server, model)
    assert called.code != "OK"
    assert other.requests == []


@pytest.mark.parametrize(("model", "variable"), [(CLAUDE, "ANTHROPIC"), (GPT, "OPENAI")])
@pytest.mark.parametrize(
    "credentials", [(), ("Authorization: Bearer planted-machine-secret", "X-Api-Key: planted-machine-secret")]
)
def test_the_machines_own_credentials_do_not_go_to_a_server_that_a_plan_names(
    model: str, variable: str, credentials: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "ORG_ID", "PROJECT_ID", "ADMIN_KEY"):
        monkeypatch.setenv(f"{variable}_{name}", "planted-machine-secret")
    headers = ("X-Corporate: planted-machine-secret", *credentials)
    monkeypatch.setenv(f"{variable}_CUSTOM_HEADERS", "\n".join(headers))
    with Server(says(gpt_completion() if model == GPT else claude_message())) as server:
        base = server.url if model == CLAUDE else f"{server.url}/v1"
        parameters = {"prompt": "Hi", "model": model, "base_url": base}
        assert call(llm_invoke, parameters, context={"allow_hosts": [server.name]}).code == "OK"
    assert "planted-machine-secret" not in str(server.requests)


@pytest.mark.parametrize(("model", "variable"), [(CLAUDE, "ANTHROPIC_API_KEY"), (GPT, "OPENAI_API_KEY")])
def test_without_a_key_nothing_is_sent_and_the_way_to_give_one_is_said(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    called = call(llm_invoke, {"prompt": "Hi", "model": model})
    assert called.code == "ERR_LLM_AUTH_FAILURE"
    assert variable in str(called.error)
    assert called.report.side_effects == []


def test_limits_per_skill_hold_for_models_too() -> None:
    with Server(says(gpt_completion())) as server:
        context = {
            "allow_hosts": [server.name],
            "rate_limits": {"skills": {"llm_invoke": {"per_second": 0.001, "burst": 1}}},
        }
        parameters = {"prompt": "Hi", "model": GPT, "base_url": f"{server.url}/v1", "api_key": KEY}
        services = {"limiter": Limiter()}
        codes = [call(llm_invoke, parameters, context=context, services=services).code for _ in range(2)]
    assert codes == ["OK", "ERR_RATE_LIMIT_INTERNAL"]


# --- the stub, the choice of adapter, and what is asked wrongly -------------------------------------------------


def test_the_stub_says_the_same_to_the_same_question() -> None:
    first, second = (call(llm_invoke, {"prompt": "What is up?"}) for _ in range(2))
    assert first.output == second.output
    assert first.output["text"].endswith("What is up?")
    assert first.output["text"] != call(llm_invoke, {"prompt": "What is up?", "seed": 1}).output["text"]
    assert first.report.side_effects == [("llm_request", "stub/stub")]
    assert first.report.usage is not None
    assert first.report.request_id.startswith("stub-")


def test_the_stub_may_be_lent_a_voice_and_stands_in_for_any_model() -> None:
    def voice(request: ModelRequest) -> str:
        return f"{request.model} heard {len(request.messages)}"

    called = call(llm_invoke, {"prompt": "x", "adapter": "stub", "model": CLAUDE}, services={"llm_stub": voice})
    assert called.output["text"] == f"{CLAUDE} heard 1"
    assert called.report.model == CLAUDE


@pytest.mark.parametrize(
    ("name", "model", "provider"),
    [
        (None, "stub", "stub"),
        (None, "claude-opus-4-20250514", "anthropic"),
        (None, "gpt-4.1", "openai"),
        ("openai-compatible", "claude-like", "openai"),
        ("stub", "gpt-4.1", "stub"),
    ],
)
def test_the_adapter_follows_from_the_model_unless_it_is_named(name: str | None, model: str, provider: str) -> None:
    assert adapter_for(name, model).provider == provider


def test_a_provider_cannot_be_asked_for_the_stub() -> None:
    with pytest.raises(SkillError) as caught:
        adapter_for("openai", "stub")
    assert caught.value.code == "ERR_LLM_INVALID_MODEL"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"prompt": "x", "messages": [{"role": "user", "content": "x"}]},
        {"messages": []},
        {"messages": [{"role": "system", "content": "x"}]},
        {"prompt": "x", "model": CLAUDE, "seed": 1, "api_key": KEY},
    ],
)
def test_a_question_that_is_none_is_refused(parameters: dict[str, Any]) -> None:
    called = call(llm_invoke, parameters)
    assert called.code == "ERR_VALIDATION_FAILED"
    assert called.report.side_effects == []


def test_the_request_never_shows_its_key() -> None:
    request = ModelRequest(model="m", messages=(), api_key=KEY, base_url="http://x.example")
    assert KEY not in repr(request)


def test_a_reservation_covers_the_longest_answer_at_the_pinned_price() -> None:
    parameters = {"prompt": "x" * 300, "model": CLAUDE, "max_tokens": 1000}
    exact = llm_invoke.estimate(parameters, DEFAULT_PRICES)
    price = DEFAULT_PRICES.price(CLAUDE)
    assert exact == (100 + 8) * price.input + 1000 * price.output
    assert llm_invoke.estimate(parameters, DEFAULT_PRICES.to_dict()) == exact
    assert exact > PICODOLLARS_PER_CENT
    default = llm_invoke.estimate({"prompt": "x" * 300, "model": CLAUDE}, DEFAULT_PRICES)
    assert default == 108 * price.input + 1024 * price.output


def test_an_unknown_model_has_no_price_unless_the_plan_gives_one() -> None:
    parameters = {"prompt": "x", "model": "mystery-1"}
    with pytest.raises(UnknownPrice, match="mystery-1"):
        llm_invoke.estimate(parameters, DEFAULT_PRICES)
    given = DEFAULT_PRICES.extended({"models": {"mystery-1": {"input": "5", "output": "7"}}, "version": "mine"})
    assert llm_invoke.estimate(parameters, given) == 9 * 5 + 1024 * 7
    assert llm_invoke.estimate({"prompt": "x"}, DEFAULT_PRICES) == 0
