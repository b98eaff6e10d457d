"""Tool classes from a registry, with the stable codes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, skill
from reenact.contracts.tool_registry import read_tool_registry
from reenact.errors import PlanError, ReenactError, UsageError
from reenact.policy.tool_class import check_tool_class
from reenact.runtime.people import decisions as people
from reenact.store.base import Store

REGISTRY: dict[str, Any] = {
    "schema_id": "talos.mcp.tool_registry",
    "schema_version": "v1",
    "server_id": "shop",
    "server_version": "1.0.0",
    "tools": [
        {"tool_name": "look", "tool_class": "read", "is_document_op": False},
        {"tool_name": "buy", "tool_class": "write", "is_document_op": False, "requires_idempotency_key": True},
    ],
}


def test_the_shared_registry_cases(shared: Path) -> None:
    cases = json.loads((shared / "vectors/tga/related/tool_registry_vectors.json").read_text())
    for case in cases["valid_cases"]:
        assert read_tool_registry(case["data"]).tools, case["description"]
    for case in cases["invalid_cases"]:
        with pytest.raises(PlanError):
            read_tool_registry(case["data"])


@pytest.mark.parametrize(
    ("tool", "declared", "read_only", "key", "code"),
    [
        ("look", "read", True, "k", None),
        ("look", None, True, None, None),
        ("buy", "write", False, "k", None),
        ("steal", "read", True, "k", "TOOL_UNCLASSIFIED_DENIED"),
        ("buy", "read", True, "k", "TOOL_CLASS_DECLARATION_MISMATCH"),
        ("buy", None, True, "k", "TOOL_CLASS_MISMATCH"),
        ("buy", "write", False, None, "IDEMPOTENCY_KEY_REQUIRED"),
        ("buy", "write", False, "", "IDEMPOTENCY_KEY_REQUIRED"),
    ],
)
def test_each_refusal_has_its_code(
    tool: str, declared: str | None, read_only: bool, key: str | None, code: str | None
) -> None:
    registry = read_tool_registry(REGISTRY)
    assert check_tool_class(registry, tool, declared=declared, read_only=read_only, idempotency_key=key) == code


def test_a_plan_with_a_registry_refuses_what_it_does_not_list_or_lists_otherwise() -> None:
    @skill("shop.look", version="1.0.0", tool_class="read")
    async def look() -> int:
        return 1

    @skill("shop.buy", version="1.0.0", tool_class="read")
    async def buy() -> int:
        return 1

    @skill("shop.steal", version="1.0.0", tool_class="write")
    async def steal() -> int:
        return 1

    runtime = Runtime(":memory:", skills=Registry([look, buy, steal]))
    with runtime.session(context={"tool_registries": [REGISTRY]}) as session:
        codes = [session.call(f"shop.{name}").code for name in ("look", "buy", "steal")]
    assert codes == ["OK", "TOOL_CLASS_DECLARATION_MISMATCH", "TOOL_UNCLASSIFIED_DENIED"]


def test_a_registry_with_a_mistake_refuses_the_plan_as_a_whole() -> None:
    broken = {**REGISTRY, "tools": []}
    plan = {"plan_id": "p", "agent_id": "a", "steps": [], "context": {"tool_registries": [broken]}}
    with pytest.raises(PlanError, match="tool_registries"):
        Runtime(":memory:").run(plan)


# -- in force ---------------------------------------------------------------------------------------------------------


@skill("shop.look", version="1.0.0", tool_class="read")
async def look_up() -> int:
    """Reads."""
    return 1


@skill("shop.buy", version="1.0.0", tool_class="write")
async def buy() -> int:
    """Writes, and is registered as a tool that needs a key."""
    return 1


@skill("shop.either", version="1.0.0", tool_class="write", read_when={"method": ("GET",)})
async def either(method: str = "GET") -> str:
    """Reads or writes."""
    return method


@skill("shop.unsaid", version="1.0.0")
async def unsaid() -> int:
    """Declares nothing."""
    return 1


@skill("shop.steal", version="1.0.0", tool_class="write")
async def steal() -> int:
    """Stands in no registry."""
    return 1


@skill("other.look", version="1.0.0", tool_class="read")
async def elsewhere() -> int:
    """Of a server that has no registry."""
    return 1


@skill("own", version="1.0.0", tool_class="write")
async def own() -> int:
    """Of no server."""
    return 1


@skill("shop.pretends", version="1.0.0", tool_class="read")
async def pretends() -> int:
    """Says that it reads, and is registered as a write."""
    return 1


SKILLS = Registry([look_up, buy, either, unsaid, steal, elsewhere, own, pretends])
IN_FORCE = {
    **REGISTRY,
    "tools": [
        *REGISTRY["tools"],
        {"tool_name": "either", "tool_class": "write", "is_document_op": False},
        {"tool_name": "unsaid", "tool_class": "read", "is_document_op": False},
        {"tool_name": "pretends", "tool_class": "write", "is_document_op": False},
    ],
}
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("shop.look", {}, "OK"),
    ("shop.buy", {}, "IDEMPOTENCY_KEY_REQUIRED"),
    ("shop.buy", {"idempotency_key": "order-1"}, "OK"),
    ("shop.either", {"parameters": {"method": "GET"}}, "TOOL_CLASS_MISMATCH"),
    ("shop.either", {"parameters": {"method": "PUT"}}, "OK"),
    ("shop.pretends", {}, "TOOL_CLASS_DECLARATION_MISMATCH"),
    ("shop.unsaid", {}, "OK"),
    ("shop.steal", {}, "TOOL_UNCLASSIFIED_DENIED"),
    ("other.look", {}, "TOOL_UNCLASSIFIED_DENIED"),
    ("own", {}, "OK"),
]


@pytest.fixture
def registry_file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(IN_FORCE), encoding="utf-8")
    return path


def replays(store: Store, run_id: str) -> None:
    """Without the registry's file: it is part of the plan by now."""
    for skills in (SKILLS, Registry()):
        result = Runtime(store, skills=skills).replay(run_id)
        assert result.verdict == "matched", result.divergence


@pytest.mark.parametrize(("name", "call", "code"), CASES)
def test_a_registry_from_a_file_is_in_force_in_plans_and_sessions(
    name: str, call: dict[str, Any], code: str, registry_file: Path
) -> None:
    runtime = Runtime(":memory:", skills=SKILLS, tool_registries=[registry_file])
    result = runtime.run({"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": name, **call}]})
    with runtime.session(agent_id="a") as session:
        outcome = session.call(name, **call)
    assert (result.outcomes[0].code, outcome.code) == (code, code)
    replays(runtime.store, result.run_id)
    replays(runtime.store, session.run_id)


def test_a_registry_of_local_holds_our_own_skills_too() -> None:
    local = {**REGISTRY, "server_id": "local"}
    runtime = Runtime(":memory:", skills=SKILLS, tool_registries=[local])
    with runtime.session() as session:
        assert session.call("own").code == "TOOL_UNCLASSIFIED_DENIED"
        assert session.call("shop.look").code == "TOOL_UNCLASSIFIED_DENIED"


def test_where_a_plan_and_its_host_have_registries_both_hold(registry_file: Path) -> None:
    wide = {**IN_FORCE, "tools": [*IN_FORCE["tools"], {**REGISTRY["tools"][0], "tool_name": "steal"}]}
    runtime = Runtime(":memory:", skills=SKILLS, tool_registries=[registry_file])
    with runtime.session(context={"tool_registries": [wide]}) as session:
        assert session.call("shop.look").ok
        assert session.call("shop.steal").code == "TOOL_CLASS_DECLARATION_MISMATCH"


def test_a_session_may_say_its_registries_again_when_it_goes_on(registry_file: Path) -> None:
    own = {"tool_registries": [{**REGISTRY, "server_id": "bank"}]}
    runtime = Runtime(":memory:", skills=SKILLS, tool_registries=[registry_file])
    with pytest.raises(KeyError), runtime.session(context=own) as session:
        raise KeyError
    with pytest.raises(UsageError, match=r"another context\.tool_registries"):
        runtime.session(resume=session.run_id, context={"tool_registries": []}).__enter__()
    with runtime.session(resume=session.run_id, context=own) as session:
        assert session.call("shop.steal").code == "TOOL_UNCLASSIFIED_DENIED"


def test_a_run_goes_on_with_the_registries_that_it_began_with(registry_file: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    plan = {
        "plan_id": "p", "agent_id": "a", "context": {"supervisor": "ask", "on_error": "continue"},
        "steps": [{"step_id": "w", "skill_id": "own"}, {"step_id": "s", "skill_id": "shop.steal"}],
    }  # fmt: skip
    result = Runtime(store, skills=SKILLS, tool_registries=[registry_file]).run(plan)
    assert result.status == "waiting"
    later = Runtime(store, skills=SKILLS)
    asyncio.run(people.vote(later, result.run_id, "w", approve=True, reason="fine", who="ada"))
    assert later.resume(result.run_id).outcomes[1].code == "TOOL_UNCLASSIFIED_DENIED"


def test_a_pinned_plan_has_the_registries_in_force_or_is_refused(registry_file: Path) -> None:
    plan = {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": "shop.look"}]}
    with_it = Runtime(":memory:", skills=SKILLS, tool_registries=[registry_file])
    assert with_it.run(with_it.pinned(plan)).status == "completed"
    without = Runtime(":memory:", skills=SKILLS).pinned(plan)
    with pytest.raises(PlanError, match="pinned without the registries"):
        with_it.run(without)


@pytest.mark.parametrize(("text", "said"), [
    (None, "cannot be read|No such file"),
    ("{", "line 1"),
    ("[]", "shop.json"),
    (json.dumps({**REGISTRY, "tools": []}), r"shop.json.*\$.tools"),
])  # fmt: skip
def test_a_file_that_is_no_registry_is_refused_with_its_name_and_place(
    text: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "shop.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ReenactError, match=said):
        Runtime(":memory:", tool_registries=[path])
