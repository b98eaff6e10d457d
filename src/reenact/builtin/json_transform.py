"""`json_transform`: reshaping values between steps, with no code of the user's own."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from reenact.builtin.transform.operations import OPERATIONS, Request
from reenact.builtin.transform.paths import check_limits
from reenact.errors import JsonSyntaxError, SkillError
from reenact.skills.declare import skill
from reenact.values.canonical import parse_json

Operation = Literal["extract", "pick", "omit", "filter", "merge", "flatten", "sort", "map"]


class TransformResult(TypedDict):
    result: Any


@skill(
    "json_transform",
    version="1.0.0",
    idempotent=True,
    tool_class="read",
    stable_fields=["result"],
    failure_modes=[
        "ERR_JSON_INVALID", "ERR_JSON_PATH_INVALID", "ERR_JSON_PATH_NOT_FOUND", "ERR_JSON_DEPTH_EXCEEDED",
        "ERR_JSON_SIZE_EXCEEDED", "ERR_JSON_TRANSFORM_FAILED",
    ],
    tags=["pure"],
)  # fmt: skip
def json_transform(
    data: Any,
    operation: Operation,
    *,
    path: str | None = None,
    default: Any = None,
    fields: list[str] | dict[str, str] | None = None,
    where: list[dict[str, Any]] | dict[str, Any] | None = None,
    other: Any = None,
    by: str | None = None,
    descending: bool = False,
    separator: str = ".",
    parse: bool = False,
) -> TransformResult:
    """Extracts, picks, omits, filters, merges, flattens, sorts or maps JSON. Up to 10 MB and 100 levels deep.

    Paths are written `a.b[0]` or as a JSON Pointer (`/a/b/0`). With `parse`, `data` is a text that holds JSON.
    """
    value = _parsed(data) if parse else data
    check_limits(value)
    request = Request(
        path=path, default=default, fields=fields, where=where, other=other, by=by,
        descending=descending, separator=separator,
    )  # fmt: skip
    result = OPERATIONS[operation](value, request)
    check_limits(result)
    return TransformResult(result=result)


def _parsed(data: Any) -> Any:
    if not isinstance(data, str):
        raise SkillError.of("ERR_JSON_INVALID", "data: with parse, a text is needed")
    try:
        return parse_json(data, what="data")
    except JsonSyntaxError as error:
        raise SkillError.of("ERR_JSON_INVALID", str(error)) from None
