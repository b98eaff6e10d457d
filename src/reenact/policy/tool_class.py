"""Tool classes: may a tool be called as what it claims to be? The registry's word counts, an unknown one is refused."""

from __future__ import annotations

from typing import Literal

from reenact.contracts.tool_registry import ToolRegistry

ToolClassCode = Literal[
    "TOOL_UNCLASSIFIED_DENIED",
    "TOOL_CLASS_MISMATCH",
    "TOOL_CLASS_DECLARATION_MISMATCH",
    "IDEMPOTENCY_KEY_REQUIRED",
]


def check_tool_class(
    registry: ToolRegistry,
    tool_name: str,
    *,
    declared: str | None,
    read_only: bool,
    idempotency_key: str | None,
) -> ToolClassCode | None:
    """None when the call may go on. `read_only` is what its capability allows, `declared` what the call says it is."""
    tool = registry.find(tool_name)
    if tool is None:
        return "TOOL_UNCLASSIFIED_DENIED"
    if declared is not None and declared != tool.tool_class:
        return "TOOL_CLASS_DECLARATION_MISMATCH"
    if read_only and tool.tool_class == "write":
        return "TOOL_CLASS_MISMATCH"
    if tool.tool_class == "write" and not idempotency_key:
        return "IDEMPOTENCY_KEY_REQUIRED"
    return None
