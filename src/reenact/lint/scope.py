"""The state of analysing one function or a module's body: names in sight, what types say, what to report and how."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from reenact.contracts.stability import FORBIDDEN_FIELDS, OUTPUT_REASON
from reenact.lint import known
from reenact.lint.findings import RULES, Finding, Place, Severity
from reenact.lint.values import CONSTANT, EACH, ERROR_TEXT, OUTCOME, UNKNOWN, Kind, Names, Source, Value, dotted

Related = tuple[tuple[Place, str], ...]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
REASONS: Final = {row.field.rsplit(".", 1)[-1]: row.reason for row in FORBIDDEN_FIELDS} | {
    ERROR_TEXT: "Human-readable, may have minor variations",
    "output": OUTPUT_REASON,
}
FORBIDDEN: Final = frozenset(REASONS) - {ERROR_TEXT, "output"}
_COLLECTIONS: Final = known.SET_TYPES | known.GENERIC_TYPES
_BUILTINS: Final = frozenset(dir(builtins))
# What the last word of a name says.
_SAID: Final = {"outcome": OUTCOME, "outcomes": Value(parts={EACH: OUTCOME}), "session": Value(Kind.SESSION)}
_ORDERS: Final = {
    "RN206": "depends on the order of a set, which changes with the hash seed of the process",
    "RN207": "depends on the order of files, which the file system decides",
    "RN208": "depends on the order in which results happen to come",
}


@dataclass(slots=True)
class File:
    """What the functions of one file share."""

    shown: str
    seeded: bool  # whether it seeds a library's own generator
    later: dict[ast.Module | FunctionNode, Names]  # what is still to be analysed, with the names around it
    classes: dict[str, Kind] = field(default_factory=dict)  # what their objects are
    findings: list[Finding] = field(default_factory=list)


class Scope:
    """Names, types and reports; what expressions and statements do is for subclasses."""

    def __init__(self, file: File, names: Names, function: str) -> None:
        self.file = file
        self.names = names
        self.function = function
        self.gravest: int = Severity.ERROR  # what may be reported here at most

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

    def merge(self, ends: list[Names], *, may_skip: bool = False) -> None:
        """After branches, each name is what one of them made it, or what it was."""
        ways = [*ends, self.names] if may_skip else ends
        for name in dict.fromkeys(name for end in ends for name in end.maps[0]):
            self.names[name] = Value.either([way[name] for way in ways if name in way])

    def typed(self, node: ast.expr | None) -> Value:
        """What an annotation says about a value: an outcome, a collection of them, a set, something else."""
        if isinstance(node, ast.BinOp):
            return Value.either([self.typed(node.left), self.typed(node.right)])
        if isinstance(node, ast.Constant):
            return self.typed(ast.Name(node.value)) if isinstance(node.value, str) else CONSTANT
        last = "" if node is None else dotted(node).rsplit(".", 1)[-1]
        kind = Kind.SET if last in known.SET_TYPES else Kind.UNKNOWN
        if isinstance(node, ast.Subscript) and last in _COLLECTIONS | known.TRANSPARENT_TYPES:
            inside = self.typed(node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) else node.slice)
            return inside if last in known.TRANSPARENT_TYPES else Value(kind, parts={EACH: inside})
        if last in self.file.classes:
            return Value(self.file.classes[last])
        if last.isidentifier() and last.endswith("Outcome"):
            return OUTCOME
        vague = not last or last in known.VAGUE_TYPES | _COLLECTIONS or known.MAYBE_OUTCOME_TYPE.match(last)
        return Value(kind if vague else Kind.OTHER)

    @contextmanager
    def at_most(self, gravest: int) -> Iterator[None]:
        """What is found inside is at most so grave; with 0 it is not reported."""
        before, self.gravest = self.gravest, min(self.gravest, gravest)
        try:
            yield
        finally:
            self.gravest = before

    def decide(self, rule: str, node: ast.AST, sources: Iterable[Source], action: str, *, bare: bool = False) -> None:
        """A decision is made with these sources. `bare`: only on whether a text is empty, which an error's may."""
        surest_last = sorted(sources, key=lambda one: (one.sure, -one.line))
        for name, source in {one.name: one for one in surest_last}.items():
            if name == ERROR_TEXT and bare:
                continue
            elsewhere = source.line != line_of(node)
            read = f" (read in line {source.line})" if elsewhere else ""
            origin = ((Place.whole_line(self.file.shown, source.line), f"{name} is read here"),) if elsewhere else ()
            with self.at_most(Severity.ERROR if source.sure else Severity.WARNING):
                broken = "RN106" if name == ERROR_TEXT else rule
                self.report(broken, node, f"{action} {name}{read}: {REASONS[name]}", origin)

    def depend_on_order(self, node: ast.AST, value: Value) -> None:
        """The order of `value` matters here."""
        self.give_away(node, Value.sequence([], [value]))

    def give_away(self, node: ast.AST, *values: Value) -> None:
        """Values go where nothing is known, and their order with them. A set stays a set there."""
        for value in values:
            if value.kind is Kind.SHUFFLED:
                self.report(value.name, node, _ORDERS[value.name])

    def report(self, rule: str, node: ast.AST, message: str, related: Related = ()) -> None:
        """Add a finding about this code, as grave as its rule or as may be."""
        if self.gravest:
            end = getattr(node, "end_lineno", None) or line_of(node)
            place = Place(self.file.shown, line_of(node), int(getattr(node, "col_offset", 0)) + 1, end)
            severity = Severity(min(self.gravest, RULES[rule].severity))
            self.file.findings.append(Finding(place, rule, message, severity, related))


def by_name(name: str, value: Value) -> Value:
    """A name that says `outcome` is believed, where nothing else is known about the value."""
    said = _SAID.get(name.rpartition("_")[2])
    if said is None or value.kind is not Kind.UNKNOWN or value.parts:
        return value
    return said.plus(value.sources)


def line_of(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 1))
