"""What reading a field gives: which reads are of a forbidden field, and what annotations say about a value."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from reenact.lint import known
from reenact.lint.abstract import (
    ERROR_TEXT,
    OUTCOME,
    UNKNOWN,
    Kind,
    Value,
    join,
    join_all,
    limit,
    part_of,
)
from reenact.lint.frame import REASONS, Frame, by_name
from reenact.lint.program import Class, dotted

FORBIDDEN: Final = frozenset(REASONS) - {ERROR_TEXT}
# Names that mean a forbidden field on an object of whatever type; the others are common words.
TELLING: Final = frozenset({"latency_ms", "response_body", "llm_output"})
_PARTS: Final = frozenset({"details", "observability", "metadata"})
_NO_OUTCOMES: Final = frozenset(
    {Kind.NAMED, Kind.MODULE, Kind.FUNCTION, Kind.CLASS, Kind.SET, Kind.TEXT, Kind.BLANK, Kind.SESSION}
)
_ERROR_WORDS: Final = frozenset({"message", "msg"})
_CHAT_FIELD: Final = "choices"  # a chat completion's choices: their `message` is not an outcome's


class Fields(Frame):
    """Members of values, by attribute, by constant key or by index."""

    def read_member(self, base: Value, name: str, node: ast.AST) -> Value:
        """What `base.name` or `base["name"]` gives."""
        known_member = base.member(name)
        if known_member is not None:
            return part_of(base, name, known_member)
        value = self._unlisted_member(base, name, node)
        if self._is_forbidden(base, name):
            definite = base.kind in (Kind.OUTCOME, Kind.PART) or self._is_outcome_object(base)
            value = replace(value, labels=limit(value.labels | self.new_source(name, node, definite=definite)))
        elif base.kind is Kind.ERROR and name in _ERROR_WORDS:
            value = replace(value, labels=limit(value.labels | self.new_source(ERROR_TEXT, node, definite=True)))
        return value

    def _unlisted_member(self, base: Value, name: str, node: ast.AST) -> Value:
        if base.kind is Kind.NAMED:
            inner = f"{base.name}.{name}"
            return Value(kind=Kind.MODULE if inner in self.engine.program.modules else Kind.NAMED, name=inner)
        if base.kind is Kind.MODULE:
            return self._of_module(base.name, name)
        found = self._of_object(base, name, node) if base.kind in (Kind.INSTANCE, Kind.CLASS) else None
        if found is None:
            found = _of_outcome(base, name) if base.kind in (Kind.OUTCOME, Kind.PART) else base.inside or UNKNOWN
        if name == _CHAT_FIELD:
            found = Value(labels=found.labels, inside=Value(kind=Kind.OTHER))
        return part_of(base, name, by_name(name, found))

    def _of_module(self, module: str, name: str) -> Value:
        inner = f"{module}.{name}"
        if inner in self.engine.program.modules:
            return Value(kind=Kind.MODULE, name=inner)
        found = self.engine.read_global(self.engine.program.modules[module], name, self.unit.key)
        return Value(kind=Kind.NAMED, name=inner) if found is None else found

    def _of_object(self, base: Value, name: str, node: ast.AST) -> Value | None:
        """An attribute of an object of an analysed class: a method, a property, or what anybody stored there."""
        owner = self.engine.program.classes.get(base.name)
        if owner is None:
            return None
        method = owner.method(name)
        if method is not None:
            value = Value(kind=Kind.FUNCTION, name=method.key, bound=base if base.kind is Kind.INSTANCE else None)
            return self.apply(value, [], node) if method.is_property else value
        stored = self.engine.read_attribute(owner, name, self.unit.key)
        annotation = owner.all_fields().get(name)
        declared = None if annotation is None else self.from_annotation(annotation)
        if stored is None or declared is None:
            return stored or declared or UNKNOWN
        return join(stored, declared)

    def _is_forbidden(self, base: Value, name: str) -> bool:
        if name not in FORBIDDEN or self.sources(base.labels):
            return False
        if base.kind in _NO_OUTCOMES or base.kind is Kind.ERROR:
            return False
        if base.kind in (Kind.OTHER, Kind.MADE):
            return name in TELLING
        if base.kind is Kind.INSTANCE:
            owner = self.engine.program.classes.get(base.name)
            declares = owner is not None and name in owner.all_fields()
            return self._is_outcome_object(base) or (declares and name in TELLING)
        return not (base.kind is Kind.DICT and base.members and base.inside is None)

    def _is_outcome_object(self, base: Value) -> bool:
        owner = self.engine.program.classes.get(base.name) if base.kind is Kind.INSTANCE else None
        return owner is not None and owner.looks_like_outcome

    # annotations

    def from_annotation(self, node: ast.expr | None) -> Value:
        """What a type says about a value: an outcome, a collection of them, a set, something else."""
        if node is None:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return self._from_text(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._from_union([node.left, node.right])
        if isinstance(node, ast.Subscript):
            return self._from_generic(node)
        name = dotted(node)
        return self._from_type_name(name) if name else UNKNOWN

    def _from_text(self, constant: object) -> Value:
        if constant is None:
            return Value(kind=Kind.BLANK)
        if not isinstance(constant, str) or len(constant) > 400:
            return UNKNOWN
        return self.from_annotation(_parsed(constant.strip()))

    def _from_union(self, parts: list[ast.expr]) -> Value:
        """An outcome stays one beside None; of several types nothing is known, unless all are something else."""
        values = [value for value in map(self.from_annotation, parts) if value.kind is not Kind.BLANK]
        return join_all(values) if values else UNKNOWN

    def _from_generic(self, node: ast.Subscript) -> Value:
        name = dotted(node.value).rsplit(".", 1)[-1]
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not arguments:
            return Value(kind=Kind.OTHER)
        if name in known.TRANSPARENT_TYPES:
            return self._from_union(arguments if name == "Union" else arguments[:1])
        if name in known.SET_TYPES:
            return Value(kind=Kind.SET, inside=self.from_annotation(arguments[0]))
        if name in known.SEQUENCE_TYPES:
            last = arguments[-1] if name == "Coroutine" else arguments[0]
            return Value(kind=Kind.LIST, inside=self.from_annotation(last))
        if name in known.MAPPING_TYPES and len(arguments) == 2:
            inside = self.from_annotation(arguments[1])
            return Value(inside=inside) if inside.kind is not Kind.UNKNOWN else UNKNOWN
        return self._from_type_name(dotted(node.value))

    def _from_type_name(self, name: str) -> Value:
        last = name.rsplit(".", 1)[-1]
        if last in known.SET_TYPES:
            return Value(kind=Kind.SET)
        owner = self.find_class(name)
        if owner is not None:
            return Value(kind=Kind.INSTANCE, name=owner.key)
        if known.OUTCOME_TYPE.match(last):
            return OUTCOME
        if last in known.VAGUE_TYPES or last in known.SEQUENCE_TYPES or known.MAYBE_OUTCOME_TYPE.match(last):
            return UNKNOWN
        if last in ("Path", "PurePath"):
            return Value(kind=Kind.MADE, name="pathlib.Path")
        return Value(kind=Kind.TEXT) if last == "str" else Value(kind=Kind.OTHER)

    def find_class(self, name: str) -> Class | None:
        """The analysed class that a dotted name means here."""
        head, *rest = name.split(".")
        value = self.env.get(head) or self.engine.read_global(self.module, head, self.unit.key)
        for part in rest:
            if value is None or value.kind is not Kind.MODULE:
                return None
            value = self._of_module(value.name, part)
        if value is None or value.kind is not Kind.CLASS:
            return None
        return self.engine.program.classes.get(value.name)


@lru_cache(maxsize=4096)
def _parsed(annotation: str) -> ast.expr | None:
    try:
        return ast.parse(annotation, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _of_outcome(base: Value, name: str) -> Value:
    """The shape of an outcome: objects inside it, and its list of side effects."""
    if base.kind is Kind.OUTCOME and name in _PARTS:
        return Value(kind=Kind.PART)
    if base.kind is Kind.OUTCOME and name == "side_effects":
        return Value(kind=Kind.LIST, inside=Value(kind=Kind.PART))
    return UNKNOWN if base.inside is None else base.inside


__all__ = ["FORBIDDEN", "Fields"]
