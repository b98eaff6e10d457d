"""Reads one YAML 1.2 document into nodes.

A reader of our own, because the libraries at hand differ from the original's in what they accept, and a hash
must never stand where the original refuses. It is strict: what the grammar does not allow is refused, even where
the original happens to read something into it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from reenact.errors import Undecidable
from reenact.provenance.yaml import scalars as yaml_scalars
from reenact.provenance.yaml.flow import FlowReader
from reenact.provenance.yaml.nodes import Alias, Mapping, Node, Properties, Scalar, Sequence, Steps, Style, run

_ODD_CHARACTER = re.compile(r"(?<!\w)\r|\r(?!\w)|\n\ufeff")
_VERSION = re.compile(r"[0-9]+\.[0-9]+")


@dataclass
class Document:
    """The root node, and the directives that say how its tags and scalars are meant."""

    root: Node
    text: str
    version: str = ""
    handles: dict[str, str] = field(default_factory=dict)


def read_document(text: str) -> Document:
    """The one document of the text. Unparseable or Undecidable when it is none, or more than one."""
    if re.match(r"\ufeff(?:[ \t]+[^ \t\r\n#]|[-?:](?:[ \t\r\n]|\Z)|[^\r\n]*\t)", text):
        raise Undecidable("a byte order mark stands before an indicator or white space", line=1)
    reader = _Reader(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    odd = _ODD_CHARACTER.search(reader.text)
    if odd:
        reader.undecided("a lone carriage return or a byte order mark stands where it may mean two things", odd.start())
    return reader.document()


class _Reader(FlowReader):
    def document(self) -> Document:
        result = Document(self.empty(Properties()), self.text)
        had_directives = self._directives(result)
        if self.at_marker() and self.char() == "-":
            self.position += 3
            result.root = run(self._block_value(-1, compact=False, indentless=False, same_line=True))
        elif had_directives:
            self.fail("directives are not followed by ---")
        elif not self.at_end() and not self.at_marker():
            if self.tab_before():
                self.fail("a tab stands where the text is indented")
            self.position = self.line_start
            result.root = run(self._block_value(-1, compact=True, indentless=False, same_line=False))
        self._end_of_document()
        return result

    def _directives(self, document: Document) -> bool:
        found = False
        while True:
            self.skip_to_content()
            if self.column or self.char() != "%":
                return found
            found = True
            end = self.text.find("\n", self.position)
            line = self.text[self.position : self.length if end < 0 else end]
            if not line.isascii():
                self.undecided("a directive has characters beyond ASCII")
            self._directive(document, re.split(r"[ \t]+", re.sub(r"(^|[ \t])#.*", "", line).strip(" \t")))
            self.position += len(line)

    def _directive(self, document: Document, parts: list[str]) -> None:
        if parts[0] == "%YAML":
            if len(parts) != 2:
                self.fail("a %YAML directive does not have one version")
            if not _VERSION.fullmatch(parts[1]):
                self.fail("a %YAML directive has a malformed version")
            if document.version not in ("", parts[1]):
                self.undecided("a document asks for two versions of YAML")
            document.version = parts[1]
        elif parts[0] == "%TAG":
            if len(parts) != 3:
                self.fail("a %TAG directive does not have a handle and a prefix")
            document.handles[parts[1]] = parts[2]

    def _end_of_document(self) -> None:
        self.skip_to_content()
        if self.at_end():
            return
        if not self.at_marker():
            self.fail("text stands behind the end of the document's value")
        if self.char() == ".":
            self.position += 3
            crossed = self.skip_to_content()
            if self.at_end():
                return
            if not crossed:
                self.fail("text stands behind the marker of the document's end")
        self.fail("the text holds more than one document")

    def _block_value(self, indent: int, *, compact: bool, indentless: bool, same_line: bool = True) -> Steps[Node]:
        """The node behind an indicator of a block collection that stands at column `indent`; maybe an empty one.

        `compact`: a block collection may start on the indicator's own line. `indentless`: a sequence may stand at
        column `indent` itself.
        """
        outer = Properties()
        while True:
            same_line = self._skip_to_value(indent, same_line=same_line)
            if self.at_end() or (not same_line and self._lies_outside(indent)):
                if indentless and self.column == indent and self.at_indicator("-"):
                    node: Node = yield self._block_sequence(outer)
                    return node
                return self.empty(outer)
            nests = compact or not same_line
            if self.at_indicator("-") or self.at_indicator("?") or self.at_indicator(":"):
                self._check_block_start(self.position, nests=nests)
                is_sequence = self.char() == "-"
                node = yield self._block_sequence(outer) if is_sequence else self._block_map(outer, None)
                return node
            start, inner = self.position, Properties()
            if self._reads_properties(inner, nests=nests) and self.char() in ("", "\n", "#"):
                self._merge(outer, inner)
                continue
            leaf = self._leaf(indent, inner)
            node = leaf if leaf is not None else (yield self.flow_collection(indent, inner))
            self.skip_blanks()
            if not self.at_indicator(":") or _is_block_scalar(node):
                self._merge(outer, inner)
                return self._finished(node, outer)
            self._check_implicit_key(start)
            self._check_block_start(start, nests=nests)
            node = yield self._block_map(outer, node, start)
            return node

    def _skip_to_value(self, indent: int, *, same_line: bool) -> bool:
        """Go to where a value may stand; whether that is still the line of its indicator."""
        tabbed_lines = self.tabbed_lines
        same_line = not self.skip_to_content() and same_line
        if self.tabbed_lines > tabbed_lines or (indent < 0 and not same_line and self.tab_before()):
            self.undecided("a tab stands where a value is expected")
        return same_line

    def _lies_outside(self, indent: int) -> bool:
        """Whether what stands on this line belongs to a collection further out than the one at `indent`."""
        if self.at_marker():
            return True
        if self.indentation > indent:
            return False
        if self.column != self.indentation:
            self.fail("a tab stands where the text is indented")
        return True

    def _reads_properties(self, properties: Properties, *, nests: bool) -> bool:
        start = self.position
        found = self.properties(properties, flow=False)
        if found and nests and "\t" in self.text[self.line_start : start]:
            self.undecided("a tab stands before a tag or an anchor")
        return found

    def _leaf(self, indent: int, properties: Properties) -> Node | None:
        """What stands behind a node's properties, up to a colon that makes it a key; None before a collection."""
        char = self.char()
        if char in ("|", ">"):
            start = self.position
            text, folded = yaml_scalars.block(self, indent)
            return Scalar(text, Style.FOLDED if folded else Style.LITERAL, start, properties)
        node: Node
        if char in ("[", "{"):
            return None
        if properties and self.at_indicator(":"):
            if self.text[self.position - 1] == "\t":
                self.undecided("a tab stands behind a tag or an anchor")
            node = self.empty(properties)
        elif char == "*":
            node = self.alias(properties)
        else:
            node = self.scalar(indent, properties, flow=False)
        self.skip_blanks()
        return node

    def _finished(self, node: Node, properties: Properties) -> Node:
        """A value that is no key: it takes the properties, and nothing but a comment may follow on its line."""
        if isinstance(node, Alias):
            if properties:
                self.fail("an alias has a tag or an anchor")
        else:
            node.properties = properties
        if _is_block_scalar(node):
            return node
        if self.char() not in ("", "\n", "#"):
            self.fail("a value has more behind it on its line")
        return node

    def _merge(self, outer: Properties, inner: Properties) -> None:
        if (outer.tag is not None and inner.tag is not None) or (outer.anchor is not None and inner.anchor is not None):
            self.fail("a node has two tags or two anchors")
        outer.tag = outer.tag if inner.tag is None else inner.tag
        outer.anchor = outer.anchor if inner.anchor is None else inner.anchor

    def _check_block_start(self, start: int, *, nests: bool) -> None:
        if not nests:
            self.fail("a block collection starts on the line of the key whose value it is")
        if "\t" in self.text[self.line_start : start]:
            self.fail("a tab stands where the text is indented")

    def _block_sequence(self, properties: Properties) -> Steps[Node]:
        column = self.column
        sequence = Sequence([], flow=False, position=self.position, properties=properties)
        while True:
            self.position += 1
            item: Node = yield self._block_value(column, compact=True, indentless=False)
            sequence.items.append(item)
            if self._collection_ends(column) or not self.at_indicator("-"):
                sequence.end = self.position
                return sequence

    def _block_map(self, properties: Properties, first: Node | None, start: int = -1) -> Steps[Node]:
        """The map that starts here, or whose first key `first` started at `start` and ends here, at its colon."""
        position = self.position if first is None else start
        column = position - self.line_start
        mapping = Mapping([], flow=False, position=position, properties=properties)
        key = first
        while True:
            if key is None and self.at_indicator("?"):
                pair = yield self._explicit_pair(column)
            else:
                if key is None:
                    key = self._implicit_key(column)
                self.position += 1
                value: Node = yield self._block_value(column, compact=False, indentless=True)
                pair = (key, value)
            mapping.pairs.append(pair)
            key = None
            if self._collection_ends(column):
                mapping.end = self.position
                return mapping

    def _explicit_pair(self, column: int) -> Steps[tuple[Node, Node]]:
        self.position += 1
        tabbed_lines = self.tabbed_lines
        key: Node = yield self._block_value(column, compact=True, indentless=True)
        self.skip_to_content()
        if self.tabbed_lines > tabbed_lines:
            self.undecided("a tab stands where a value is expected")
        if self.column != column or not self.at_indicator(":"):
            return key, self.empty(Properties())
        self.position += 1
        value: Node = yield self._block_value(column, compact=True, indentless=True)
        if self.column == column and self.at_indicator(":"):
            self.undecided("a second colon stands under an explicit key")
        return key, value

    def _implicit_key(self, column: int) -> Node:
        """The key that starts here; afterwards its colon is here."""
        start, properties = self.position, Properties()
        if self.at_indicator(":"):
            return self.empty(properties)
        self.properties(properties, flow=False)
        if self.char() in ("", "\n", "#", "|", ">"):
            self.fail("a key of a map is not followed by a colon")
        node = self._leaf(column, properties)
        if node is None:
            self.undecided("a flow collection stands as a key that is not the first")
        if not self.at_indicator(":"):
            self.fail("a key of a map is not followed by a colon")
        self._check_implicit_key(start)
        return node

    def _collection_ends(self, column: int) -> bool:
        """Go to the next content; whether it lies outside the collection at `column`."""
        tabbed_lines, start = self.tabbed_lines, self.position
        self.skip_to_content()
        if column and self.at_end() and self.tabbed_lines > tabbed_lines and "#" in self.text[start:]:
            self.undecided("a comment and a tab stand behind the last entry of a block collection")
        if self.at_end() or self.at_marker():
            return True
        if self.tab_before():
            self.fail("a tab stands where the text is indented")
        if self.column < column:
            return True
        if self.column > column:
            self.fail("an entry of a block collection does not stand in its column")
        return False


def _is_block_scalar(node: Node) -> bool:
    return isinstance(node, Scalar) and node.style in (Style.LITERAL, Style.FOLDED)
