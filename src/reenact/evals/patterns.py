"""Regular expressions in linear time: what an evaluation looks for in answers that anybody may have written.

A pattern is a set of states, and a text is read once: the time is that of its length, whatever pattern and text are.
Known are literals, `.`, classes, `\\d \\w \\s` and their opposites, `\\b \\B ^ $`, groups, `|`, `* + ? {m,n}`; there
are no look-arounds and no back references, which cannot be read so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from reenact.errors import UsageError

LONGEST: Final = 1_000
MOST_STATES: Final = 1_000
MOST_REMEMBERED: Final = 1_000
_WORDS: Final[dict[str, Callable[[str], bool]]] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}

Chars = Callable[[str], bool]
Edge = tuple[str, int]
"""An assertion, or nothing at all, and the state that it leads to."""


class _State:
    """Either takes a character that `chars` knows and goes to `to`, or leads on along `edges` without one."""

    __slots__ = ("chars", "edges", "to")

    def __init__(self) -> None:
        self.chars: Chars | None = None
        self.to = 0
        self.edges: list[Edge] = []


class _Part(NamedTuple):
    """States from `first` to `last`."""

    first: int
    last: int


class Pattern:
    """A pattern, ready to search texts."""

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        if len(text) > LONGEST:
            raise UsageError(f"a pattern has at most {LONGEST} characters, not {len(text)}")
        reader = _Reader(text, ignore_case=ignore_case)
        self._states = reader.states
        part = reader.whole()
        self._first, self._last = part
        self._next: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}

    def search(self, text: str) -> bool:
        """Whether the pattern is somewhere in the text."""
        before = ""
        states = frozenset[int]()
        for after in (*text, ""):
            at = self._closed(states | {self._first}, before, after)
            if self._last in at:
                return True
            states = self._taken(at, after) if after else states
            before = after
        return False

    def _closed(self, states: frozenset[int], before: str, after: str) -> frozenset[int]:
        """All states that are reached between two characters."""
        key = (states, before, after)
        found = self._next.get(key)
        if found is None:
            if len(self._next) > MOST_REMEMBERED:
                self._next.clear()
            found = self._next[key] = frozenset(self._reached(states, before, after))
        return found

    def _reached(self, states: frozenset[int], before: str, after: str) -> set[int]:
        seen, todo = set(states), sorted(states)
        while todo:
            for what, to in self._states[todo.pop()].edges:
                if to not in seen and (not what or _holds(what, before, after)):
                    seen.add(to)
                    todo.append(to)
        return seen

    def _taken(self, states: frozenset[int], char: str) -> frozenset[int]:
        known = (self._states[each] for each in states)
        return frozenset(state.to for state in known if state.chars is not None and state.chars(char))


def _holds(what: str, before: str, after: str) -> bool:
    if what == "^":
        return not before
    if what == "$":
        return not after
    is_edge = _is_word(before) != _is_word(after)
    return is_edge if what == "b" else not is_edge


def _is_word(char: str) -> bool:
    return char != "" and _WORDS["w"](char)


class _Reader:
    """Reads a pattern into states."""

    def __init__(self, text: str, *, ignore_case: bool) -> None:
        self.text = text
        self.at = 0
        self.ignore_case = ignore_case
        self.states: list[_State] = []

    def whole(self) -> _Part:
        part = self.either(0)
        if self.at < len(self.text):
            raise self.wrong("a ) that nothing opened")
        return part

    def wrong(self, what: str) -> UsageError:
        return UsageError(f"the pattern {self.text!r} has {what} at character {self.at + 1}")

    def state(self) -> int:
        if len(self.states) >= MOST_STATES:
            raise self.wrong(f"more than {MOST_STATES} states: repeat less")
        self.states.append(_State())
        return len(self.states) - 1

    def join(self, first: int, last: int, what: str = "") -> None:
        self.states[first].edges.append((what, last))

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def took(self, char: str) -> bool:
        if self.peek() == char:
            self.at += 1
            return True
        return False

    def either(self, depth: int) -> _Part:
        if depth > 100:
            raise self.wrong("groups too deep")
        part = _Part(self.state(), self.state())
        while True:
            first, last = self.sequence(depth)
            self.join(part.first, first)
            self.join(last, part.last)
            if not self.took("|"):
                return part

    def sequence(self, depth: int) -> _Part:
        first = last = self.state()
        while self.peek() not in ("", "|", ")"):
            part = self.repeated(depth)
            self.join(last, part.first)
            last = part.last
        return _Part(first, last)

    def repeated(self, depth: int) -> _Part:
        start = self.at
        part = self.single(depth)
        end = self.at
        bounds = self.bounds()
        if bounds is None:
            return part
        least, most = bounds
        self.took("?")  # lazy or not, whether it is there is the same
        after = self.at
        whole = first = self.state()
        for number in range(max(least, most or 1, 1)):
            if number > 0:
                self.at = start
                part = self.single(depth)
                self.at = end
            self.join(whole, part.first)
            if number >= least:
                self.join(whole, part.last)
            whole = part.last
        if most is None:
            self.join(part.last, part.first)
        if most == 0:
            self.states[first].edges = []
            whole = first
        self.at = after
        return _Part(first, whole)

    def bounds(self) -> tuple[int, int | None] | None:
        if self.took("*"):
            return 0, None
        if self.took("+"):
            return 1, None
        if self.took("?"):
            return 0, 1
        closing = self.text.find("}", self.at)
        inside = self.text[self.at + 1 : closing] if self.peek() == "{" and closing > 0 else ""
        least, comma, most = inside.partition(",")
        if not (inside and (least + most).isascii() and (least or "0").isdigit() and (most or "0").isdigit()):
            return None
        if not (least or most) or max(len(least), len(most)) > 4:
            raise self.wrong("a repetition that cannot be counted")
        self.at = closing + 1
        low = int(least or 0)
        high = low if not comma else int(most) if most else None
        if high is not None and high < low:
            raise self.wrong("a repetition whose most is less than its least")
        return low, high

    def single(self, depth: int) -> _Part:
        char = self.peek()
        if char in "*+?":
            raise self.wrong(f"a {char} with nothing to repeat")
        self.at += 1
        if char == "(":
            return self.group(depth)
        if char in "^$":
            return self.assertion(char)
        if char == ".":
            return self.taking(lambda one: one != "\n")
        if char == "[":
            return self.taking(self.char_class())
        if char != "\\":
            return self.taking(self.same(char))
        escaped = self.escaped()
        if escaped in "bB" and escaped:
            return self.assertion(escaped)
        return self.taking(self.meant(escaped))

    def group(self, depth: int) -> _Part:
        if self.took("?") and not self.took(":"):
            raise self.wrong("a group that is not (…) or (?:…)")
        part = self.either(depth + 1)
        if not self.took(")"):
            raise self.wrong("a ( that nothing closes")
        return part

    def assertion(self, what: str) -> _Part:
        part = _Part(self.state(), self.state())
        self.join(part.first, part.last, what)
        return part

    def taking(self, chars: Chars) -> _Part:
        part = _Part(self.state(), self.state())
        self.states[part.first].chars, self.states[part.first].to = chars, part.last
        return part

    def escaped(self) -> str:
        char = self.peek()
        if not char or (char.isascii() and char.isalnum() and char not in "dDwWsSbBntrfv"):
            raise self.wrong("an escape that nobody knows")
        self.at += 1
        return char

    def meant(self, escaped: str) -> Chars:
        if escaped in _WORDS:
            return _WORDS[escaped]
        if escaped.lower() in _WORDS:
            known = _WORDS[escaped.lower()]
            return lambda char: not known(char)
        return self.same(_LETTERS.get(escaped, escaped))

    def same(self, wanted: str) -> Chars:
        if not self.ignore_case:
            return lambda char: char == wanted
        both = {wanted.lower(), wanted.upper(), wanted}
        return lambda char: char in both

    def char_class(self) -> Chars:
        opposite = self.took("^")
        parts: list[Chars] = []
        while self.peek() != "]" or not parts:
            if not self.peek():
                raise self.wrong("a [ that nothing closes")
            parts.append(self.class_part())
        self.at += 1
        return lambda char: any(part(char) for part in parts) is not opposite

    def class_part(self) -> Chars:
        first = self.class_char()
        if not isinstance(first, str):
            return first
        if self.peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return self.same(first)
        self.at += 1
        last = self.class_char()
        if not isinstance(last, str) or last < first:
            raise self.wrong("a range that ends before it begins")
        return self.within(first, last)

    def class_char(self) -> str | Chars:
        char = self.peek()
        self.at += 1
        if char != "\\":
            return char
        escaped = self.escaped()
        if escaped in "bB":
            raise self.wrong("an escape that means nothing in a class")
        if escaped.lower() in _WORDS:
            return self.meant(escaped)
        return _LETTERS.get(escaped, escaped)

    def within(self, first: str, last: str) -> Chars:
        if not self.ignore_case:
            return lambda char: first <= char <= last
        return lambda char: any(first <= one <= last for one in (char, char.lower(), char.upper()))


def quoted(text: str) -> str:
    """The text as a pattern that finds it literally."""
    return "".join(_quoted(text))


def _quoted(text: str) -> Iterator[str]:
    for char in text:
        yield char if char.isalnum() or char.isspace() or char == "_" else f"\\{char}"
