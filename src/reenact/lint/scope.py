"""The state of analysing one function or a module's body: names in sight, what types say, what to report and how."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from reenact.contracts.stability import FORBIDDEN_FIELDS
from reenact.lint import known
from reenact.lint.findings import Finding, Place, Severity
from reenact.lint.rules import RULES
from reenact.lint.values import (
    CONSTANT,
    EACH,
    ERROR_TEXT,
    OUTCOME,
    UNKNOWN,
    Code,
    Kind,
    Names,
    Order,
    Source,
    Value,
    dotted,
)

REASONS: Final = {row.field.rsplit(".", 1)[-1]: row.reason for row in FORBIDDEN_FIELDS} | {
    ERROR_TEXT: "Human-readable, may have minor variations"
}
FORBIDDEN: Final = frozenset(REASONS) - {ERROR_TEXT}
_BUILTINS: Final = frozenset(dir(builtins))
_ORDERS: Final = {
    "RN206": "the order of a set changes with the hash seed of the process",
    "RN207": "the file system decides the order",
    "RN208": "the order is that in which they happen to complete",
}


@dataclass(slots=True)
class Class:
    """A class of the file: its annotated names in order, and its methods."""

    fields: list[str]
    methods: dict[str, Code] = field(default_factory=dict)

    @property
    def looks_like_outcome(self) -> bool:
        return {"code", "status"} <= set(self.fields) and not FORBIDDEN.isdisjoint(self.fields)


@dataclass(slots=True)
class File:
    """What the functions of one file share. `later` are those that are still to be analysed."""

    shown: str
    seeded: bool  # whether it seeds a library's own generator
    classes: dict[str, Class] = field(default_factory=dict)
    later: dict[ast.AST, Code] = field(default_factory=dict)
    findings: dict[Finding, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Passing:
    """A call whose callee is looked into: what it decides with these sources is reported at the call."""

    node: ast.AST
    callee: str
    sources: frozenset[Source]


class Scope:
    """Names, types and reports; what expressions and statements do is for subclasses."""

    def __init__(self, file: File, code: Code | None, size: int) -> None:
        self.file = file
        self.code = code
        self.names: Names = Names()
        self.returned: list[Value] = []
        self.waiting: dict[ast.AST, Code] = {}  # lambdas of the current statement that nothing has called yet
        self.calling: list[ast.AST] = []  # functions of the file that are being looked into
        self.passing: Passing | None = None
        self.owner = ""  # the class whose body is being run
        self.quiet = 0  # inside what only tells people
        self.noting = 0  # inside a branch that only tells people
        self.loops = 0
        self.steps_left = 2_000 + 10 * size  # below zero no call is looked into any more

    # names

    def look_up(self, name: str) -> Value:
        found = self.names.get(name)
        if found is not None:
            return found
        return Value(Kind.NAMED, f"builtins.{name}") if name in _BUILTINS else by_name(name, UNKNOWN)

    def bind(self, name: str, value: Value) -> None:
        self.names[name] = by_name(name, value.shallow())

    @contextmanager
    def branch(self) -> Iterator[Names]:
        """Names bound inside are kept apart in the Names that this yields."""
        outer = self.names
        self.names = outer.new_child()
        try:
            yield self.names
        finally:
            self.names = outer

    def merge(self, ends: Iterable[Names], *, may_skip: bool = False) -> None:
        """After branches, each name is what one of them made it, or what it was."""
        branches = list(ends)
        for name in dict.fromkeys(name for end in branches for name in end.maps[0]):
            before = self.names.get(name)
            values = [found for end in branches if (found := end.maps[0].get(name, before)) is not None]
            self.names[name] = Value.either([*values, *([before] if may_skip and before is not None else [])])

    # types

    def typed(self, node: ast.expr | None) -> Value:
        """What an annotation says about a value: an outcome, a collection of them, a set, something else."""
        if isinstance(node, ast.Constant):
            return self.typed(_parsed(node.value.strip())) if isinstance(node.value, str) else CONSTANT
        if isinstance(node, ast.BinOp):
            return Value.either([self.typed(node.left), self.typed(node.right)])
        name = "" if node is None else dotted(node)
        last = name.rsplit(".", 1)[-1]
        if isinstance(node, ast.Subscript) and last in known.GENERIC_TYPES:
            arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            inside = Value.either(map(self.typed, arguments[-1:] if last in known.MAPPING_TYPES else arguments))
            return inside if last in known.TRANSPARENT_TYPES else Value(_collection(last), parts={EACH: inside})
        if name in self.file.classes:
            return Value(Kind.OUTCOME if self.file.classes[name].looks_like_outcome else Kind.OTHER, name)
        if known.OUTCOME_TYPE.match(last):
            return OUTCOME
        vague = not last or last in known.VAGUE_TYPES | known.GENERIC_TYPES or known.MAYBE_OUTCOME_TYPE.match(last)
        return Value(_collection(last)) if vague else Value(Kind.OTHER)

    def method(self, base: Value, name: str) -> Code | None:
        """The method of a class of this file that `base.name` means."""
        owner = self.file.classes.get(base.name) if base.kind is not Kind.NAMED else None
        return None if owner is None else owner.methods.get(name)

    # reports

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What is evaluated inside goes to people, not to a decision."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def decide(self, rule: str, node: ast.AST, sources: Iterable[Source], action: str, *, bare: bool = False) -> None:
        """A decision is made with these sources. `bare`: only on whether a text is empty, which an error's may."""
        for source in sorted(sources):
            if source.name != ERROR_TEXT:
                self._decides_on(rule, node, source, action)
            elif not bare and self._is_own(source):
                self._decides_on("RN106", node, source, action)

    def _is_own(self, source: Source) -> bool:
        """An error's text is not followed out of its function: what is returned is there to be shown."""
        node = None if self.code is None else self.code.node
        return node is None or node.lineno <= source.line <= (node.end_lineno or source.line)

    def _decides_on(self, rule: str, node: ast.AST, source: Source, action: str) -> None:
        severity = RULES[rule].severity if source.sure else min(RULES[rule].severity, Severity.WARNING)
        passing = self.passing
        here = node if passing is None else passing.node
        read = "" if source.line == line_of(here) else f" (read in line {source.line})"
        what, why = f"{source.name}{read}", REASONS[source.name]
        if passing is None:
            origin = ((Place(self.file.shown, source.line), f"{source.name} is read here"),) if read else ()
            self.add(rule, node, f"{action} {what}: {why}", severity, origin)
        elif source in passing.sources:
            message = f"passes {what} to {passing.callee}(), which {action} it: {why}"
            place = Place(self.file.shown, line_of(node))
            self.add(rule, here, message, severity, ((place, f"{passing.callee}() {action} it here"),))

    def report(self, rule: str, node: ast.AST, message: str) -> None:
        """Add a finding about this code. A function that a call is looked into for has its own turn."""
        if self.passing is None:
            self.add(rule, node, message, RULES[rule].severity)

    def add(
        self, rule: str, node: ast.AST, message: str, severity: Severity, related: tuple[tuple[Place, str], ...] = ()
    ) -> None:
        if not self.quiet:
            end = getattr(node, "end_lineno", None) or line_of(node)
            place = Place(self.file.shown, line_of(node), int(getattr(node, "col_offset", 0)) + 1, end)
            finding = Finding(place, rule, message, Severity.NOTE if self.noting else severity, related)
            self.file.findings[finding] = None

    # orders

    def consume(self, value: Value, node: ast.AST, what: str) -> None:
        """The order of `value` matters here."""
        if value.kind is Kind.SET:
            self.report("RN206", node, f"{what} a set: {_ORDERS['RN206']}")
        elif value.order is not None:
            self.give_away(Value(order=value.order))

    def give_away(self, *values: Value) -> None:
        """Values go where nothing is known, and their order with them. A set stays a set there."""
        for value in values:
            for order in value.orders():
                self.report(order.rule, order.node, f"{order.what}: {_ORDERS[order.rule]}")

    def order_of(self, value: Value, node: ast.AST) -> Order | None:
        """The order that a sequence made from `value` inherits."""
        return Order("RN206", node, "makes a sequence from a set") if value.kind is Kind.SET else value.order


def by_name(name: str, value: Value) -> Value:
    """A name that says `outcome` is believed, where nothing else is known about the value."""
    if value.kind is not Kind.UNKNOWN or value.parts:
        return value
    if known.OUTCOME_NAME.match(name):
        return replace(value, kind=Kind.OUTCOME)
    if known.OUTCOMES_NAME.match(name):
        return replace(value, parts={EACH: OUTCOME})
    return replace(value, kind=Kind.SESSION) if known.SESSION_NAME.match(name) else value


@lru_cache(maxsize=4096)
def _parsed(annotation: str) -> ast.expr | None:
    try:
        return ast.parse(annotation, mode="eval").body if len(annotation) <= 400 else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _collection(name: str) -> Kind:
    return Kind.SET if name in known.SET_TYPES else Kind.LIST if name in known.SEQUENCE_TYPES else Kind.UNKNOWN


def line_of(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 1))
