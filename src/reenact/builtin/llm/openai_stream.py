"""A streamed answer in OpenAI's language: its pieces, put together into the completion that they are pieces of."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


class StreamedCompletion:
    """What has arrived so far."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self._about: Document = {}
        self._said: Document = {}
        self._texts: list[str] = []
        self._calls: list[Document] = []
        self._open: dict[int, Document] = {}
        """By the index that the stream gives them, the call that its pieces now belong to."""

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def add(self, piece: Document) -> str:
        """The text in a chunk."""
        self._about.update({name: piece[name] for name in ("id", "created", "model", "usage") if piece.get(name)})
        new = ""
        for choice in piece.get("choices") or ():
            delta = choice.get("delta") or {}
            new += delta.get("content") or ""
            if delta.get("refusal"):
                self._said["refusal"] = self._said.get("refusal", "") + delta["refusal"]
            for call in delta.get("tool_calls") or ():
                self._add_call(call)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if new:
            self._texts.append(new)
        return new

    def _add_call(self, piece: Document) -> None:
        """Id and name come first, the arguments in pieces after them.

        Some servers give every call the same index: another id with a name is another call.
        """
        index, function = piece.get("index") or 0, piece.get("function") or {}
        call = self._open.get(index)
        another = call is not None and piece.get("id") not in (None, "", call["id"]) and function.get("name")
        if call is None or another:
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            self._open[index] = call
            self._calls.append(call)
        call["id"] = call["id"] or piece.get("id") or ""
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""

    def completion(self) -> Document:
        message: Document = {"role": "assistant", "content": self.text, **self._said}
        if self._calls:
            message = {**message, "content": self.text or None, "tool_calls": self._calls}
        choices = [{"index": 0, "message": message, "finish_reason": self.finish_reason}]
        return {**self._about, "object": "chat.completion", "choices": choices}
