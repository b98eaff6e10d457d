"""Tool classes from a registry, with the stable codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reenact import Registry, Runtime, skill
from reenact.contracts.tool_registry import read_tool_registry
from reenact.errors import PlanError
from reenact.policy.tool_class import check_tool_class

REGISTRY = {
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
