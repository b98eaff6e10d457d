"""The JSON text of the value that a YAML document holds: what a structured hash covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reenact.errors import Undecidable, Unparseable
from reenact.provenance.yaml import javascript
from reenact.provenance.yaml.keys import NotPrintable, key_text
from reenact.provenance.yaml.nodes import Alias, Mapping, Node, Scalar, Sequence, Steps, run
from reenact.provenance.yaml.reader import Document, read_document
from reenact.provenance.yaml.schema import YAML_TAGS, Opaque, Schema
from reenact.provenance.yaml.schema11 import Schema11

_MAX_ALIASES: Final = 100
_MAX_WARNINGS: Final = 10
_MAX_EXPANSION: Final = 64 * 1024 * 1024
# How the original counts aliases inside merged maps is not known, so far below its limit we stop.
_MAX_ALIASES_WITH_MERGE: Final = 20


def canonical(text: str) -> tuple[str, list[str]]:
    """Compact JSON with sorted keys as JavaScript prints it, and a warning for each part left out."""
    printer = _Printer(read_document(text))
    return printer.print(), printer.warnings


class _Anchored:
    """An anchored node: its JSON and its text as a key once they are known, and its use by aliases."""

    __slots__ = ("count", "field", "node", "text", "weight")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.text: str | None = None
        self.field: str | None = None
        self.count = 1
        self.weight: int | None = None


class _Inside:
    """What a collection holds at any depth: a scalar, and which anchored nodes by aliases."""

    __slots__ = ("has_scalar", "targets")

    def __init__(self) -> None:
        self.has_scalar = False
        self.targets: set[_Anchored] = set()


class _Printer:
    def __init__(self, document: Document) -> None:
        self.warnings: list[str] = []
        self._document = document
        self._is_1_1 = document.version == "1.1"
        self._schema = (Schema11 if self._is_1_1 else Schema)(document.handles, self._line_of)
        self._anchors: dict[str, _Anchored] = {}
        self._targets: dict[int, _Anchored] = {}
        self._inside: dict[int, _Inside] = {}
        self._has_aliases = "*" in document.text
        self._fields: dict[int, dict[str, str]] = {}
        self._expanded = 0
        self._most_aliases = 0
        self._has_merge = False

    def print(self) -> str:
        root = self._document.root
        text = self._leaf(root)
        if text is None:
            text = run(self._collection(root))
        if self._has_merge and self._most_aliases > _MAX_ALIASES_WITH_MERGE:
            raise Undecidable("the document merges maps and uses many aliases")
        return text

    def _line_of(self, position: int) -> int:
        return self._document.text.count("\n", 0, position) + 1

    def _line(self, node: Node) -> int:
        return self._line_of(node.position)

    def _leaf(self, node: Node) -> str | None:
        """The JSON of an alias or a scalar; None for a collection."""
        if isinstance(node, Alias):
            return self._alias(node)
        if not isinstance(node, Scalar):
            return None
        value = self._schema.scalar(node)
        text = value.text if isinstance(value, Opaque) else javascript.scalar_text(value)
        anchored = self._anchor(node)
        if anchored is not None:
            anchored.text = text
            anchored.field = None if isinstance(value, Opaque) else _field_name(value)
        return text

    def _collection(self, node: Node) -> Steps[str]:
        assert isinstance(node, Sequence | Mapping)
        anchored = self._anchor(node)
        text: str = yield self._sequence(node) if isinstance(node, Sequence) else self._mapping(node)
        self._note_inside(node)
        if anchored is not None:
            anchored.text = text
        return text

    def _anchor(self, node: Scalar | Sequence | Mapping) -> _Anchored | None:
        if node.properties.anchor is None:
            return None
        anchored = _Anchored(node)
        self._anchors[node.properties.anchor] = anchored
        return anchored

    def _alias(self, alias: Alias) -> str:
        anchored = self._anchors.get(alias.name)
        if anchored is None:
            raise Unparseable("an alias names an anchor that is not set before it", line=self._line(alias))
        if anchored.text is None:
            raise Unparseable("an alias stands inside the node that it names", line=self._line(alias))
        self._targets[id(alias)] = anchored
        anchored.count += 1
        if anchored.weight is None:
            anchored.weight = self._weight(anchored.node)
        self._most_aliases = max(self._most_aliases, anchored.count * anchored.weight)
        if self._most_aliases > _MAX_ALIASES:
            raise Unparseable("one anchor is used by too many aliases", line=self._line(alias))
        self._expanded += len(anchored.text)
        if self._expanded > _MAX_EXPANSION:
            raise Undecidable("aliases expand to more than 64 MiB", line=self._line(alias))
        return anchored.text

    def _weight(self, node: Node) -> int:
        """How often the most used anchor inside a node counts; 1 for a scalar, 0 for an empty collection."""
        if isinstance(node, Scalar):
            return 1
        inside = self._inside[id(node)]
        weights = [target.count * (target.weight or 0) for target in inside.targets]
        return max([int(inside.has_scalar), *weights])

    def _note_inside(self, node: Sequence | Mapping) -> None:
        """Keep what `_weight` asks for, so that nested anchors are not walked through again and again."""
        if not self._has_aliases:
            return
        inside = _Inside()
        for child in _children(node):
            if isinstance(child, Scalar):
                inside.has_scalar = True
            elif isinstance(child, Alias):
                inside.targets.add(self._targets[id(child)])
            else:
                inner = self._inside[id(child)]
                inside.has_scalar |= inner.has_scalar
                inside.targets |= inner.targets
        self._inside[id(node)] = inside

    def _sequence(self, node: Sequence) -> Steps[str]:
        tag = self._collection_tag(node)
        items = []
        for item in node.items:
            text = self._leaf(item)
            items.append(text if text is not None else (yield self._collection(item)))
        if tag in ("omap", "pairs"):
            self._check_pairs(node, distinct=tag == "omap")
        return "{}" if tag == "omap" else "[" + ",".join(items) + "]"

    def _mapping(self, node: Mapping) -> Steps[str]:
        tag = self._collection_tag(node)
        own: dict[str, str] = {}
        merged: dict[str, str] = {}
        unique: set[tuple[str, object]] = set()
        for key, value in node.pairs:
            if self._is_merge(key):
                self._has_merge = True
                if self._leaf(value) is None:
                    yield self._collection(value)
                for source in self._merge_sources(value):
                    merged = source | merged
                continue
            field = self._scalar_key(key, unique) if isinstance(key, Scalar) else (yield self._key(key))
            text = self._leaf(value)
            own[field] = text if text is not None else (yield self._collection(value))
            if tag == "set":
                self._check_null(value)
        fields = merged | own
        self._fields[id(node)] = fields
        shown = javascript.sorted_keys(name for name in fields if name != "__proto__")
        if "__proto__" in fields:
            self._warn("the hash does not cover a key named __proto__", node)
        return (
            "{}" if tag == "set" else "{" + ",".join(f"{javascript.quote(name)}:{fields[name]}" for name in shown) + "}"
        )

    def _warn(self, message: str, node: Node) -> None:
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(f"line {self._line(node)}: {message}")
        elif len(self.warnings) == _MAX_WARNINGS:
            self.warnings.append("there are more such places")

    def _key(self, key: Alias | Sequence | Mapping) -> Steps[str]:
        """The name under which a JavaScript object holds what stands under a key that is no scalar."""
        if isinstance(key, Alias):
            self._alias(key)
            target = self._targets[id(key)]
            if target.field is not None:
                return target.field
            if isinstance(target.node, Scalar):
                raise Undecidable("an alias of a tagged scalar stands as a key", line=self._line(key))
            return f"*{key.name}"
        yield self._collection(key)
        try:
            if self._is_1_1:
                raise NotPrintable  # noqa: TRY301 - one place says what is undecided
            return key_text(key, self._document.text[key.position : key.end])
        except NotPrintable:
            raise Undecidable("a collection as a key is too complex", line=self._line(key)) from None

    def _scalar_key(self, key: Scalar, unique: set[tuple[str, object]]) -> str:
        value = self._schema.scalar(key)
        if isinstance(value, Opaque):
            raise Undecidable("a tagged scalar that is no JSON value stands as a key", line=self._line(key))
        identity = (type(value).__name__, value)
        if identity in unique and value == value:  # noqa: PLR0124 - NaN equals no other key
            raise Unparseable("a map has the same key twice", line=self._line(key))
        unique.add(identity)
        field = _field_name(value)
        anchored = self._anchor(key)
        if anchored is not None:
            anchored.text, anchored.field = javascript.scalar_text(value), field
        return field

    def _collection_tag(self, node: Sequence | Mapping) -> str:
        """The name of a tag of YAML's own that changes what this kind of collection is; else nothing."""
        tag = self._schema.tag(node) or ""
        name = tag.removeprefix(YAML_TAGS) if tag.startswith(YAML_TAGS) else ""
        return name if name in (("omap", "pairs") if isinstance(node, Sequence) else ("set",)) else ""

    def _check_null(self, value: Node) -> None:
        if not isinstance(value, Scalar):
            raise Undecidable("a !!set has a value", line=self._line(value))
        if self._schema.scalar(value) is not None:
            raise Unparseable("a !!set has a value", line=self._line(value))

    def _check_pairs(self, node: Sequence, *, distinct: bool) -> None:
        names: set[str] = set()
        for item in node.items:
            if not isinstance(item, Mapping) or len(item.pairs) != 1 or item.properties:
                raise Undecidable("an ordered map has an item that is no pair", line=self._line(item))
            name = next(iter(self._fields[id(item)]), None)
            if name is None or (distinct and name in names):
                raise Undecidable("an ordered map has a key twice", line=self._line(item))
            names.add(name)

    def _is_merge(self, key: Node) -> bool:
        return isinstance(key, Scalar) and self._schema.is_merge(key)

    def _merge_sources(self, value: Node) -> Iterator[dict[str, str]]:
        if not isinstance(value, Alias) and value.properties.tag is not None:
            raise Undecidable("a merge key has a value with a tag", line=self._line(value))
        for one in value.items if isinstance(value, Sequence) else (value,):
            source = self._targets[id(one)].node if isinstance(one, Alias) else one
            if not isinstance(source, Mapping):
                raise Unparseable("a merge key has a value that is no map", line=self._line(value))
            if source.properties.tag or not all(self._is_plainly_named(key) for key, _ in source.pairs):
                raise Undecidable("a merged map has keys or a tag that we do not decide", line=self._line(value))
            yield self._fields[id(source)]

    def _is_plainly_named(self, key: Node) -> bool:
        return isinstance(key, Scalar) and (self._is_merge(key) or isinstance(self._schema.scalar(key), str))


def _children(node: Sequence | Mapping) -> Iterator[Node]:
    if isinstance(node, Sequence):
        yield from node.items
    else:
        for pair in node.pairs:
            yield from pair


def _field_name(value: javascript.JsonScalar) -> str:
    """A scalar as the name of an object's field: null is the empty one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else javascript.number_text(value)
