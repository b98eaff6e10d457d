"""Structured output: the JSON Schema that an answer is held to, in each provider's words, and the check of it."""

from __future__ import annotations

from typing import Any

from reenact.builtin.llm.messages import ModelReply
from reenact.errors import SkillDeclarationError, SkillError, UsageError
from reenact.skills.schema.signature import SchemaCheck
from reenact.values.canonical import parse_json

Document = dict[str, Any]
NAME = "answer"
WHERE = "response_format"
CUT_OFF = ("length", "max_tokens")


def schema_of(response_format: Document) -> Document | None:
    """The schema that is asked for, however it is wrapped; None where any JSON object will do."""
    kind = response_format.get("type")
    if kind == "json_object":
        return None
    wrapped = response_format.get("json_schema", response_format) if kind == "json_schema" else None
    schema = response_format if wrapped is None else wrapped.get("schema") if isinstance(wrapped, dict) else None
    if not isinstance(schema, dict):
        raise SkillError.of("ERR_VALIDATION_FAILED", f"{WHERE}: there is no schema in it")
    return schema


def for_openai(response_format: Document) -> Document:
    if response_format.get("type") == "json_object" or "json_schema" in response_format:
        return response_format
    schema = schema_of(response_format)
    assert schema is not None
    # Strict output takes closed objects only, and refuses the whole request otherwise.
    strict = schema.get("additionalProperties") is False
    return {"type": "json_schema", "json_schema": {"name": NAME, "schema": schema, "strict": strict}}


def for_anthropic(response_format: Document) -> Document:
    schema = schema_of(response_format)
    if schema is None:
        raise SkillError.of("ERR_VALIDATION_FAILED", f"{WHERE}: Anthropic's models want a schema, not json_object")
    return {"type": "json_schema", "schema": schema}


class StructuredOutput:
    """Checks that an answer is what was asked for. A schema that is none is refused before anything is sent."""

    def __init__(self, response_format: Document) -> None:
        try:
            self._check = SchemaCheck(schema_of(response_format) or {"type": "object"}, WHERE)
        except SkillDeclarationError as error:
            raise SkillError.of("ERR_VALIDATION_FAILED", str(error)) from None

    def parsed(self, reply: ModelReply) -> Any:
        """The value; None where the model asks for tools first. `ERR_LLM_INVALID_RESPONSE` for anything else."""
        if reply.tool_calls:
            return None
        try:
            value = parse_json(reply.text, what="the answer")
        except UsageError as error:
            cut = "; it was cut off at max_tokens" if reply.finish_reason in CUT_OFF else ""
            raise SkillError.of("ERR_LLM_INVALID_RESPONSE", f"{error}{cut}") from None
        if problems := self._check.problems(value):
            raise SkillError.of("ERR_LLM_INVALID_RESPONSE", f"the answer does not fit {WHERE}: {problems[0]}")
        return value
