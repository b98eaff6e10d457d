"""Messages and tools between the two forms that model APIs take, OpenAI's and Anthropic's.

What has the wanted form already is handed on as it is, with whatever only that provider knows in it. What the other
form has no words for is a `UsageError` with the place; only a model's private thinking is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from reenact.builtin.llm.messages import ModelRequest
from reenact.errors import SkillError, UsageError
from reenact.values.canonical import canonicalize, parse_json

Document = dict[str, Any]
DATA_URL: Final = re.compile(r"data:(?P<type>[\w/+.-]+);base64,(?P<data>.*)", re.DOTALL)
OPENAI_PARTS: Final = frozenset({"image_url", "input_audio", "file", "refusal"})
SYSTEM: Final = ("system", "developer")
THINKING: Final = ("thinking", "redacted_thinking")


# -- for Anthropic -----------------------------------------------------------------------------------------------------


def as_anthropic(messages: Sequence[Document]) -> list[Document]:
    """System messages stay where they are: this API takes them beside the messages, and its adapter puts them there."""
    found: list[Document] = []
    for number, message in enumerate(messages):
        added = anthropic_message(message, f"/messages/{number}")
        if found and holds_results(added) and holds_results(found[-1]):  # it wants those of one answer together
            found[-1] = {**found[-1], "content": [*found[-1]["content"], *added["content"]]}
        else:
            found.append(added)
    return found


def anthropic_message(message: Document, where: str) -> Document:
    content = message.get("content")
    if message["role"] in SYSTEM:
        return message
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": content}
        if isinstance(content, list):
            result["content"] = [anthropic_block(part, f"{where}/content/{n}") for n, part in enumerate(content)]
        return {"role": "user", "content": [result]}
    calls = message.get("tool_calls") or ()
    if isinstance(content, list):
        blocks = [anthropic_block(part, f"{where}/content/{n}") for n, part in enumerate(content)]
    elif calls and content:
        blocks = [{"type": "text", "text": content}]
    elif not calls:
        return {"role": message["role"], "content": content}
    else:
        blocks = []
    return {"role": message["role"], "content": [*blocks, *map(tool_use, calls)]}


def anthropic_block(part: Document, where: str) -> Document:
    kind = part.get("type")
    if kind not in OPENAI_PARTS:
        return part
    if kind != "image_url":
        raise UsageError(f"{where}: Anthropic's messages have no part of type {kind}")
    url = str(part["image_url"]["url"])
    held = DATA_URL.fullmatch(url)
    if held is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "image", "source": {"type": "base64", "media_type": held["type"], "data": held["data"]}}


def tool_use(call: Document) -> Document:
    name, arguments = spoken(call)
    given = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return {"type": "tool_use", "id": call.get("id"), "name": name, "input": given}


def holds_results(message: Document) -> bool:
    content = message.get("content")
    return isinstance(content, list) and bool(content) and all(part.get("type") == "tool_result" for part in content)


def anthropic_tool(tool: Document) -> Document:
    if "function" not in tool:
        return tool
    function = tool["function"]
    strict = {"strict": True} if function.get("strict") else {}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": schema,
        **strict,
    }


# -- for OpenAI --------------------------------------------------------------------------------------------------------


def as_openai(messages: Sequence[Document]) -> list[Document]:
    return [said for number, message in enumerate(messages) for said in openai_messages(message, f"/messages/{number}")]


def openai_messages(message: Document, where: str) -> list[Document]:
    """One message of Anthropic's may be several: each result of a tool stands alone here."""
    content = message.get("content")
    if not isinstance(content, list) or all(part.get("type") in {"text", *OPENAI_PARTS} for part in content):
        return [message]
    results: list[Document] = []
    parts: list[Document] = []
    calls: list[Document] = []
    for number, block in enumerate(content):
        at, kind = f"{where}/content/{number}", block.get("type")
        if kind == "tool_result":
            text, images = openai_result(block, at)
            results.append({"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text})
            parts += images
        elif kind == "tool_use":
            function = {"name": block["name"], "arguments": canonicalize(block.get("input") or {}).decode()}
            calls.append({"id": block["id"], "type": "function", "function": function})
        elif kind not in THINKING:
            parts.append(openai_part(block, at))
    if message["role"] == "assistant":
        text = "".join(str(part["text"]) for part in parts if part["type"] == "text")
        return [{"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}]
    return [*results, *([{"role": message["role"], "content": parts}] if parts else [])]


def openai_result(block: Document, where: str) -> tuple[str, list[Document]]:
    """(text, images): a tool's message takes no image there, so that one is shown right behind it."""
    content = block.get("content") or ""
    if isinstance(content, str):
        return content, []
    parts = [openai_part(part, f"{where}/content/{n}") for n, part in enumerate(content)]
    return "".join(part["text"] for part in parts if part["type"] == "text"), [
        part for part in parts if part["type"] != "text"
    ]


def openai_part(block: Document, where: str) -> Document:
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "text": block["text"]}
    source = block.get("source") or {}
    if kind != "image" or source.get("type") not in ("base64", "url"):
        raise UsageError(f"{where}: OpenAI's messages have no part of type {kind} with such a source")
    url = source["url"] if source["type"] == "url" else f"data:{source['media_type']};base64,{source['data']}"
    return {"type": "image_url", "image_url": {"url": url}}


def openai_tool(tool: Document) -> Document:
    if "input_schema" not in tool:
        return tool
    strict = {"strict": True} if tool.get("strict") else {}
    function = {"name": tool["name"], "description": tool.get("description", ""), "parameters": tool["input_schema"]}
    return {"type": "function", "function": {**function, **strict}}


# -- for both ----------------------------------------------------------------------------------------------------------


def messages_and_tools(request: ModelRequest, style: str) -> tuple[list[Document], list[Document]]:
    """What a request says, in one provider's form; a `SkillError` where that cannot be said."""
    all_messages, one_tool = (as_openai, openai_tool) if style == "openai" else (as_anthropic, anthropic_tool)
    try:
        return all_messages(request.messages), [one_tool(tool) for tool in request.tools]
    except UsageError as error:
        raise SkillError.of("ERR_VALIDATION_FAILED", str(error)) from None
    except (AttributeError, KeyError, TypeError) as error:
        why = f"a message or a tool has neither OpenAI's nor Anthropic's form: {error!r}"
        raise SkillError.of("ERR_VALIDATION_FAILED", why) from None


def spoken(call: Document) -> tuple[str, dict[str, Any] | str]:
    """(name, arguments) of a tool call in either form, or in `llm_invoke`'s; a text where they are no JSON object."""
    function = call.get("function") or call.get("custom") or call
    arguments = next((function[name] for name in ("arguments", "input") if name in function), None)
    if isinstance(arguments, str):
        arguments = parsed_object(arguments)
    return str(function["name"]), {} if arguments is None else arguments


def parsed_object(text: str) -> dict[str, Any] | str:
    """The object that a model wrote; its text where it wrote none. No text at all means no arguments."""
    try:
        value = parse_json(text or "{}", what="the arguments")
    except UsageError:
        return text
    return value if isinstance(value, dict) else text


def texts_of(content: object) -> str:
    """The text of a message's content, whatever else is in it."""
    if isinstance(content, str):
        return content
    parts: Iterable[object] = content if isinstance(content, list) else ()
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
