"""Reading YAML flow collections, and what a node of any kind may start with: properties, aliases, scalars."""

from __future__ import annotations

import re
from typing import Final

from reenact.provenance.yaml import scalars as yaml_scalars
from reenact.provenance.yaml.cursor import Cursor
from reenact.provenance.yaml.nodes import Alias, Mapping, Node, Properties, Scalar, Sequence, Steps, Style

_FLOW_INDICATORS: Final = ",[]{}"
_NAME = re.compile(r"[^ \t\n,\[\]{}]*+")
_TAG = re.compile(r"!(?:<[0-9A-Za-z\-#;/?:@&=+$_.!~*'(),\[\]]*+>|[0-9A-Za-z\-#;/?:@&=+$_.!~*'()%]*+)")
_COMMENT_BEHIND = re.compile(r"[ \t]*(?:#[^\n]*)?\n#")
_AFTER_FLOW_COLON: Final = ("", " ", "\t", "\n", *_FLOW_INDICATORS)
_MAX_IMPLICIT_KEY: Final = 1024


class FlowReader(Cursor):
    """Reads flow nodes. `indent` is that of the block collection around them; further lines stand deeper."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._flow_depth = 0

    def properties(self, properties: Properties, *, flow: bool) -> bool:
        """Add the tags and anchors that stand here on this line; whether there were any."""
        found = False
        while self.char() in ("&", "!"):
            found = True
            if self.char() == "&":
                if properties.anchor is not None:
                    self.fail("a node has two anchors")
                self.position += 1
                properties.anchor = self._name()
            else:
                if properties.tag is not None:
                    self.fail("a node has two tags")
                match = _TAG.match(self.text, self.position)
                assert match
                properties.tag = match.group()
                self.position = match.end()
            if self.char() not in (("", " ", "\t", "\n", ",", "]", "}") if flow else ("", " ", "\t", "\n")):
                self.undecided("a tag or an anchor is not followed by white space")
            self.skip_blanks()
        return found

    def _name(self) -> str:
        match = _NAME.match(self.text, self.position)
        assert match
        if not match.group():
            self.fail("an anchor or an alias has no name")
        self.position = match.end()
        return match.group()

    def alias(self, properties: Properties) -> Alias:
        start = self.position
        if properties:
            self.fail("an alias has a tag or an anchor")
        self.position += 1
        return Alias(self._name(), start)

    def scalar(self, indent: int, properties: Properties, *, flow: bool) -> Scalar:
        """The quoted or plain scalar that starts here."""
        start = self.position
        if self.char() in ("'", '"'):
            style = Style.SINGLE if self.char() == "'" else Style.DOUBLE
            return Scalar(yaml_scalars.quoted(self, indent), style, start, properties)
        self._check_plain_start(flow=flow)
        return Scalar(yaml_scalars.plain(self, indent, flow=flow), Style.PLAIN, start, properties)

    def _check_plain_start(self, *, flow: bool) -> None:
        char, behind = self.char(), self.char(1)
        if char in _FLOW_INDICATORS or char in "#&*!|>'\"%@`":
            self.fail("a plain scalar starts with a character that is reserved")
        if char in "-?:" and behind in (_AFTER_FLOW_COLON if flow else ("", " ", "\t", "\n")):
            self.fail("an indicator stands where a value is expected")

    def empty(self, properties: Properties) -> Scalar:
        return Scalar("", Style.EMPTY, self.position, properties)

    def flow_collection(self, indent: int, properties: Properties) -> Steps[Node]:
        """The `[…]` or `{…}` that starts here."""
        start = self.position
        is_map = self.char() == "{"
        closing = "}" if is_map else "]"
        items: list[Node] = []
        pairs: list[tuple[Node, Node]] = []
        self.position += 1
        self._flow_depth += 1
        while True:
            self._flow_gap(indent)
            if self.char() == closing:
                break
            entry = yield self._flow_entry(indent, in_map=is_map)
            if is_map:
                pairs.append(entry)
            else:
                items.append(entry)
            self._flow_gap(indent)
            if self.char() == ",":
                self.position += 1
            elif self.char() != closing:
                self.fail("a flow collection has no comma or end where one is expected")
        self.position += 1
        self._flow_depth -= 1
        if is_map:
            return Mapping(pairs, flow=True, position=start, properties=properties, end=self.position)
        return Sequence(items, flow=True, position=start, properties=properties, end=self.position)

    def _flow_gap(self, indent: int) -> None:
        """Over white space and comments inside a flow collection."""
        if not self.skip_to_content():
            return
        if self.at_marker():
            self.fail("a document marker stands inside a flow collection")
        if self.marker_at(self.position) and self.tab_before():
            self.undecided("a tab and a document marker stand inside a flow collection")
        closes = self._flow_depth == 1 and self.char() in ("]", "}")
        least = indent if closes else indent + 1
        if self.indentation < least and not self.at_end():
            self.fail("a line of a flow collection is not indented deeply enough")

    def _flow_entry(self, indent: int, *, in_map: bool) -> Steps[Node | tuple[Node, Node]]:
        """A pair in a map; in a sequence a node, or a map of the one pair that stands there."""
        start = self.position
        explicit = self.char() == "?" and self.char(1) in _AFTER_FLOW_COLON
        if explicit:
            start_of_line = self.line_start
            self.position += 1
            self._flow_gap(indent)
            if self.char() == "," and self.line_start != start_of_line:
                self.undecided("an explicit key without a value ends its line")
        key: Node = self.empty(Properties())
        adjacent = False
        if not self._at_flow_colon(adjacent=False) and not (explicit and self.char() in (",", "]", "}")):
            properties = Properties()
            leaf = self._flow_leaf(indent, properties)
            key = leaf if leaf is not None else (yield self.flow_collection(indent, properties))
            adjacent = leaf is None or _is_quoted(leaf)
        key_end = self.position
        if (in_map or explicit) and not isinstance(key, Scalar | Alias):
            self._check_comment_behind()
        self._flow_gap(indent)
        if not self._at_flow_colon(adjacent=adjacent):
            if not in_map and not explicit:
                self.move_back(key_end)
                return key
            return self._flow_pair(start, key, Scalar("", Style.ABSENT, key_end, Properties()), in_map=in_map)
        if not in_map and not explicit:
            self._check_implicit_key(start)
        self.position += 1
        self._flow_gap(indent)
        value: Node = self.empty(Properties())
        if self.char() not in (",", "]", "}"):
            properties = Properties()
            leaf = self._flow_leaf(indent, properties)
            value = leaf if leaf is not None else (yield self.flow_collection(indent, properties))
            self._check_comment_behind()
        return self._flow_pair(start, key, value, in_map=in_map)

    def _flow_pair(self, start: int, key: Node, value: Node, *, in_map: bool) -> Node | tuple[Node, Node]:
        if in_map:
            return key, value
        return Mapping([(key, value)], flow=True, position=start, properties=Properties(), end=self.position)

    def _check_comment_behind(self) -> None:
        """The original refuses a comment that starts the line right behind a pair."""
        if _COMMENT_BEHIND.match(self.text, self.position):
            self.fail("a comment behind a pair of a flow collection needs white space before it")

    def _at_flow_colon(self, *, adjacent: bool) -> bool:
        return self.char() == ":" and (adjacent or self.char(1) in _AFTER_FLOW_COLON)

    def _check_implicit_key(self, start: int) -> None:
        """An implicit key that started at `start` and ends at the colon here must be short, on one line."""
        if self.text.find("\n", start, self.position) >= 0:
            self.fail("an implicit key is not on a single line")
        if self.position - start > _MAX_IMPLICIT_KEY:
            self.fail("an implicit key is longer than 1024 characters")

    def _flow_leaf(self, indent: int, properties: Properties) -> Node | None:
        """The alias or scalar here, maybe an empty one; None before a collection, with its properties read."""
        start_of_line = self.line_start
        while self.properties(properties, flow=True):
            self._flow_gap(indent)
        char = self.char()
        if char in ("[", "{"):
            return None
        if char in (",", "]", "}", "") or (properties and self._at_flow_colon(adjacent=False)):
            if not properties:
                self.fail("a flow collection has no value where one is expected")
            if char == "," and self.line_start != start_of_line:
                self.undecided("a tag or an anchor of an empty node ends its line")
            return self.empty(properties)
        if char == "*":
            return self.alias(properties)
        return self.scalar(indent, properties, flow=True)


def _is_quoted(node: Node) -> bool:
    return isinstance(node, Scalar) and node.style in (Style.SINGLE, Style.DOUBLE)
