"""A server's registry of tools by class: the source of truth where there is one. Deny by default."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from reenact.errors import PlanError
from reenact.values.threads import build

Pointer = Annotated[str, Meta(pattern=r"^/")]


class DocumentSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    content_encoding: Literal["utf8", "base64"]
    max_read_bytes: Annotated[int, Meta(ge=1, le=10_485_760)]
    max_write_bytes: Annotated[int, Meta(ge=1, le=5_242_880)]
    max_batch_bytes: Annotated[int, Meta(ge=1, le=52_428_800)]
    write_content_pointers: list[Pointer] = []
    read_content_pointers: list[Pointer] = []


class ToolDefinition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    tool_name: Annotated[str, Meta(pattern=r"^[a-z0-9_-]+\Z")]
    tool_class: Literal["read", "write"]
    is_document_op: bool
    requires_idempotency_key: bool = False
    document_spec: DocumentSpec | None = None


class ToolRegistry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema_id: Literal["talos.mcp.tool_registry"]
    schema_version: Literal["v1"]
    server_id: Annotated[str, Meta(pattern=r"^[a-z0-9_-]+\Z")]
    server_version: Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+\Z")]
    tools: Annotated[list[ToolDefinition], Meta(min_length=1)]

    def find(self, tool_name: str) -> ToolDefinition | None:
        return next((tool for tool in self.tools if tool.tool_name == tool_name), None)


def read_tool_registry(document: object, *, source: str = "tool registry") -> ToolRegistry:
    """The registry in a document; PlanError that names the place of a mistake."""
    try:
        registry = msgspec.convert(document, ToolRegistry)
    except msgspec.ValidationError as error:
        raise PlanError(f"{source}: {error}") from None
    for index, tool in enumerate(registry.tools):
        where = f"{source}: $.tools[{index}]"
        spec = tool.document_spec
        if tool.is_document_op and spec is None:
            raise PlanError(f"{where}: a document operation needs a document_spec")
        if tool.is_document_op and spec is not None and not (spec.write_content_pointers or spec.read_content_pointers):
            raise PlanError(f"{where}.document_spec: names neither what is read nor what is written")
    return registry


build(ToolRegistry)
