"""A streamed answer in OpenAI's language: its pieces, put together into the completion that they are pieces of."""

from __future__ import annotations

from typing import Any

from reenact.builtin.llm.translation import texts_of
from reenact.errors import SkillError

Document = dict[str, Any]
OF_A_CALL = frozenset({"id", "type", "function"})
PUT_TOGETHER = frozenset({"role", "content", "refusal", "tool_calls"})


class StreamedCompletion:
    """What has arrived so far."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self._about: Document = {}
        self._refusals: list[str] = []
        self._texts: list[str] = []
        self._further: Document = {}
        """What else a server says, such as a model's reasoning: it may want that back."""
        self._calls: list[Document] = []
        self._arguments: list[list[str]] = []
        """Of each call, in pieces."""
        self._open: dict[int, int] = {}
        """By the index that the stream gives them, which call its pieces now belong to."""

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def add(self, piece: Document) -> str:
        """The text in a chunk."""
        try:
            return self._add(piece)
        except (AttributeError, KeyError, TypeError) as error:
            raise SkillError.of("ERR_LLM_INVALID_RESPONSE", "a piece of the answer has not its form") from error

    def _add(self, piece: Document) -> str:
        self._about.update({name: piece[name] for name in ("id", "created", "model", "usage") if piece.get(name)})
        new = ""
        for choice in piece.get("choices") or ():
            delta = choice.get("delta") or {}
            new += texts_of(delta.get("content"))
            add_to(self._further, {name: item for name, item in delta.items() if name not in PUT_TOGETHER})
            if delta.get("refusal"):
                self._refusals.append(delta["refusal"])
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
        at = self._open.get(index)
        another = at is not None and piece.get("id") not in (None, "", self._calls[at]["id"]) and function.get("name")
        if at is None or another:
            at = self._open[index] = len(self._calls)
            self._calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
            self._arguments.append([])
        call = self._calls[at]
        call["id"] = call["id"] or piece.get("id") or ""
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        add_to(call, {name: item for name, item in piece.items() if name not in {"index", *OF_A_CALL}})
        self._arguments[at].append(function.get("arguments") or "")

    def completion(self) -> Document:
        try:
            return self._completion()
        except TypeError as error:
            raise SkillError.of("ERR_LLM_INVALID_RESPONSE", "pieces of the answer are no texts") from error

    def _completion(self) -> Document:
        message: Document = {"role": "assistant", "content": self.text, **self._further}
        if self._refusals:
            message["refusal"] = "".join(self._refusals)
        for call, pieces in zip(self._calls, self._arguments, strict=True):
            call["function"]["arguments"] = "".join(pieces)
        if self._calls:
            message = {**message, "content": self.text or None, "tool_calls": self._calls}
        choices = [{"index": 0, "message": message, "finish_reason": self.finish_reason}]
        return {**self._about, "object": "chat.completion", "choices": choices}


def add_to(whole: Document, pieces: Document) -> None:
    """Texts and lists come in pieces; of anything else the last word counts."""
    for name, piece in pieces.items():
        before = whole.get(name)
        if piece is not None:
            together = type(before) is type(piece) and isinstance(before, str | list)
            whole[name] = before + piece if together else piece
