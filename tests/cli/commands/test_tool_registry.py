"""`--tool-registry`: what the tools of a server are, from a file, for `run` and `pin`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import Command

SHOP = """
from reenact import skill


@skill("shop.look", version="1.0.0", tool_class="read")
def look() -> str:
    return "seen"


@skill("shop.steal", version="1.0.0", tool_class="write")
def steal() -> str:
    return "stolen"
"""
REGISTRY = {
    "schema_id": "talos.mcp.tool_registry", "schema_version": "v1", "server_id": "shop", "server_version": "1.0.0",
    "tools": [{"tool_name": "look", "tool_class": "read", "is_document_op": False}],
}  # fmt: skip


@pytest.fixture
def shop(reenact: Command) -> tuple[Path, Path]:
    skills, registry = reenact.folder / "shop.py", reenact.folder / "tools.json"
    skills.write_text(SHOP, encoding="utf-8")
    registry.write_text(json.dumps(REGISTRY), encoding="utf-8")
    return skills, registry


def test_a_tool_that_does_not_stand_in_the_file_is_refused(reenact: Command, shop: tuple[Path, Path]) -> None:
    skills, registry = shop
    plan = reenact.plan({"skill_id": "shop.look"}, {"skill_id": "shop.steal"})
    ran = reenact("run", plan, "--skills", skills, "--tool-registry", registry, "--json")
    assert ran.code == 1
    assert [step["code"] for step in ran.json["steps"]] == ["OK", "TOOL_UNCLASSIFIED_DENIED"]
    assert reenact("replay", "last").code == 0


def test_a_pinned_plan_has_the_registry_in_it(reenact: Command, shop: tuple[Path, Path]) -> None:
    skills, registry = shop
    plan, pinned = reenact.plan({"skill_id": "shop.look"}), reenact.folder / "pinned.json"
    assert reenact("pin", plan, "-o", pinned, "--skills", skills, "--tool-registry", registry).code == 0
    assert json.loads(pinned.read_text())["context"]["tool_registries"] == [REGISTRY]
    assert reenact("run", pinned, "--skills", skills, "--tool-registry", registry).code == 0
    assert reenact("pin", plan, "-o", pinned, "--skills", skills).code == 0
    refused = reenact("run", pinned, "--skills", skills, "--tool-registry", registry)
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_a_file_with_a_mistake_is_refused_in_one_line(reenact: Command, shop: tuple[Path, Path]) -> None:
    skills, registry = shop
    registry.write_text(json.dumps({**REGISTRY, "tools": [{}]}), encoding="utf-8")
    refused = reenact("run", reenact.plan({"skill_id": "shop.look"}), "--skills", skills, "--tool-registry", registry)
    assert refused.code == 2
    assert refused.err.startswith("error: ")
    assert "tools.json" in refused.err
