"""A place in a YAML text: white space, comments, indentation, and the checks that depend on them."""

from __future__ import annotations

import re
from typing import NoReturn

from reenact.errors import Undecidable, Unparseable

_BLANKS = re.compile(r"[ \t]*")
_SPACES = re.compile(r" *")
_COMMENT = re.compile(r"[^\n]*")
_MARKER = re.compile(r"(?:---|\.\.\.)(?=[ \t\n]|\Z)")


class Cursor:
    """Moves over a text whose line breaks are all `\\n`. `line_start` is always that of the line of `position`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.length = len(text)
        self.position = 0
        self.line_start = 0
        # How many lines were skipped that hold no more than a comment, with a tab in front.
        self.tabbed_lines = 0

    @property
    def column(self) -> int:
        return self.position - self.line_start

    def at_end(self) -> bool:
        return self.position >= self.length

    def char(self, ahead: int = 0) -> str:
        """The character there, or nothing at the end of the text."""
        place = self.position + ahead
        return self.text[place] if place < self.length else ""

    def move_to(self, position: int) -> None:
        last_break = self.text.rfind("\n", self.position, position)
        if last_break >= 0:
            self.line_start = last_break + 1
        self.position = position

    def move_back(self, position: int) -> None:
        """To an earlier place."""
        if position < self.line_start:
            self.line_start = self.text.rfind("\n", 0, position) + 1
        self.position = position

    def skip_blanks(self) -> None:
        match = _BLANKS.match(self.text, self.position)
        assert match
        self.position = match.end()

    def skip_to_content(self) -> bool:
        """Over white space, line breaks and comments; whether a line break was among them."""
        crossed = False
        while True:
            self.skip_blanks()
            char = self.char()
            if char not in ("#", "\n", ""):
                return crossed
            if crossed and self.tab_before():
                self.tabbed_lines += 1
            if char == "#":
                self._skip_comment()
            if self.at_end():
                return crossed
            self.position += 1
            self.line_start = self.position
            crossed = True

    def _skip_comment(self) -> None:
        if self.position > self.line_start and self.text[self.position - 1] not in " \t":
            self.fail("a comment needs white space before it")
        match = _COMMENT.match(self.text, self.position)
        assert match
        self.position = match.end()

    def at_marker(self) -> bool:
        """Whether `---` or `...` stands here as a marker of the document's start or end."""
        return self.position == self.line_start and self.marker_at(self.position)

    def marker_at(self, line_start: int) -> bool:
        return _MARKER.match(self.text, line_start) is not None

    @property
    def indentation(self) -> int:
        """How many spaces this line starts with."""
        match = _SPACES.match(self.text, self.line_start)
        assert match
        return match.end() - self.line_start

    def at_indicator(self, indicator: str) -> bool:
        """Whether `indicator` stands here, with white space or the end behind it."""
        return self.char() == indicator and self.char(1) in ("", " ", "\t", "\n")

    def tab_before(self) -> bool:
        """Whether a tab stands between the start of the line and here."""
        return "\t" in self.text[self.line_start : self.position]

    def line_of(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        where = self.position if position is None else position
        raise Unparseable(message, line=self.line_of(where))

    def undecided(self, message: str, position: int | None = None) -> NoReturn:
        where = self.position if position is None else position
        raise Undecidable(message, line=self.line_of(where))
