"""The state of analysing one unit: names in sight, what to report and how. The parts of the analysis build on it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from reenact.contracts.stability import FORBIDDEN_FIELDS
from reenact.lint import known
from reenact.lint.abstract import (
    ERROR_TEXT,
    MAX_HELD,
    OUTCOME,
    UNKNOWN,
    Kind,
    Label,
    Order,
    Param,
    Source,
    Value,
    join,
    join_all,
    ranked,
    trimmed,
)
from reenact.lint.engine import Engine, Unit
from reenact.lint.findings import Finding, Place, Severity
from reenact.lint.program import Class, Function, Sink
from reenact.lint.rules import RULES

REASONS: Final = {row.field.rsplit(".", 1)[-1]: row.reason for row in FORBIDDEN_FIELDS} | {
    ERROR_TEXT: "Human-readable, may have minor variations"
}
_BUILTINS: Final = frozenset(dir(builtins))


class Env:
    """Names of one scope or of one branch in it. `own`: where a function's names begin."""

    __slots__ = ("names", "outer", "own", "shared")

    def __init__(self, outer: Env | None, *, own: bool = False) -> None:
        self.outer = outer
        self.own = own
        self.names: dict[str, Value] = {}
        self.shared: dict[str, str] = {}  # names declared global or nonlocal

    def get(self, name: str) -> Value | None:
        env: Env | None = self
        while env is not None:
            found = env.names.get(name)
            if found is not None:
                return found
            env = env.outer
        return None

    def declared(self, name: str) -> str | None:
        """`global` or `nonlocal`, where the function declares the name so."""
        env: Env | None = self
        while env is not None:
            if name in env.shared:
                return env.shared[name]
            if env.own:
                return None
            env = env.outer
        return None

    def holder(self, name: str) -> Env | None:
        """The innermost scope outside the current function that has the name."""
        env: Env | None = self
        while env is not None and not env.own:
            env = env.outer
        env = None if env is None else env.outer
        while env is not None and name not in env.names:
            env = env.outer
        return env


class TooMuch(Exception):
    """Ends the analysis of a unit that takes more work than its size explains: code that was made to."""


class Frame:
    """Evaluating and running are for subclasses; names, reports and summaries are here."""

    def __init__(self, engine: Engine, unit: Unit) -> None:
        self.engine = engine
        self.unit = unit
        self.module = unit.module
        self.env = Env(None, own=True)
        self.functions: list[Function] = []  # the one being analysed and those around it
        self.returned: list[list[Value]] = []
        self.classes: list[Class] = []
        self.lambdas: dict[str, Env] = {}  # where each lambda of the unit was made
        self.uncalled: dict[str, Function] = {}  # those of the current statement that nothing has called yet
        self.quiet = 0  # inside what only tells people
        self.noting = 0  # inside a branch that only tells people
        self.loops = 0
        self.steps_left = 20_000 + 40 * unit.size  # loops and lambdas are evaluated more than once, within bounds
        self.identities: set[ast.expr] = set()  # uses of id() that only tell objects apart

    def evaluate(self, node: ast.expr) -> Value:
        raise NotImplementedError

    def test(self, node: ast.expr, action: str = "branches on") -> None:
        raise NotImplementedError

    def run(self, body: list[ast.stmt]) -> bool:
        raise NotImplementedError

    def apply(self, function: Value, arguments: list[Value], node: ast.AST) -> Value:
        raise NotImplementedError

    def read_member(self, base: Value, name: str, node: ast.AST) -> Value:
        raise NotImplementedError

    # names

    def look_up(self, name: str) -> Value:
        if self.env.declared(name) != "global":
            found = self.env.get(name)
            if found is not None:
                return found
        shared = self.engine.read_global(self.module, name, self.unit.key)
        if shared is not None:
            return shared
        if name in _BUILTINS:
            return Value(kind=Kind.NAMED, name=f"builtins.{name}")
        return by_name(name, UNKNOWN)

    def bind(self, name: str, value: Value) -> None:
        value = trimmed(by_name(name, value), MAX_HELD)
        declared = self.env.declared(name)
        if declared == "global":
            self.engine.assign_global(self.module, name, value)
            return
        holder = self.env.holder(name) if declared == "nonlocal" else None
        if holder is not None:
            holder.names[name] = join(holder.names[name], value)
        else:
            self.env.names[name] = value

    def rebind(self, name: str, value: Value) -> None:
        """Replace what a name in sight stands for, wherever it lives: its value was changed in place."""
        value = trimmed(value, MAX_HELD)
        if self.env.get(name) is not None:
            self.env.names[name] = value
        elif name in self.module.values:
            self.engine.assign_global(self.module, name, value)

    @contextmanager
    def branch(self) -> Iterator[Env]:
        """Names bound inside are kept apart in the Env that this yields."""
        outer = self.env
        self.env = Env(outer)
        try:
            yield self.env
        finally:
            self.env = outer

    def merge(self, branches: Iterable[Env], *, may_skip: bool) -> None:
        """After the branches: each name is what one of them made it, or what it was, if all may be skipped."""
        ends = list(branches)
        names = dict.fromkeys(name for env in ends for name in env.names)
        for name in names:
            before = self.env.get(name)
            values = [env.names[name] for env in ends if name in env.names]
            if before is not None and (may_skip or any(name not in env.names for env in ends)):
                values.append(before)
            self.env.names[name] = join_all(values)

    # reports

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What is evaluated inside goes to people, not to a decision."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def decide(
        self,
        rule: str,
        node: ast.AST,
        labels: Iterable[Label],
        action: str,
        *,
        whole: bool = False,
        bare: bool = False,
    ) -> None:
        """A decision is made with a value that has these labels.

        `whole`: on all that stands in it. `bare`: only on whether it is empty, which says nothing about an error.
        """
        if self.quiet:
            return
        for label in ranked(labels):
            if isinstance(label, Param):
                if not self.noting:
                    self.engine.add_sink(label, Sink(rule, action, self.module.shown, line_of(node), whole, bare))
            elif not (bare and label.name == ERROR_TEXT):
                self._decides_on(rule, node, label, action)

    def _decides_on(self, rule: str, node: ast.AST, source: Source, action: str) -> None:
        rule = "RN106" if source.name == ERROR_TEXT else rule
        where = self.where_read(source, node)
        origin = ((Place(source.file, source.line), f"{source.name} is read here"),) if where else ()
        message = f"{action} {source.name}{where}: {REASONS[source.name]}"
        severity = RULES[rule].severity
        if not source.definite:
            severity = min(severity, Severity.WARNING)
        self.report(rule, node, message, severity, origin)

    def where_read(self, source: Source, node: ast.AST) -> str:
        """Where the value came from, unless the reader is looking at it."""
        if source.file != self.module.shown:
            return f" (read in {source.file}:{source.line})"
        return "" if source.line == line_of(node) else f" (read in line {source.line})"

    def report(
        self,
        rule: str,
        node: ast.AST | Order,
        message: str,
        severity: Severity | None = None,
        related: tuple[tuple[Place, str], ...] = (),
    ) -> None:
        """Add a finding, unless the unit belongs to a module that was read only for its helpers."""
        if self.quiet or not self.module.wanted:
            return
        level = RULES[rule].severity if severity is None else severity
        level = Severity.NOTE if self.noting else level
        finding = Finding(place_of(self.module.shown, node), rule, message, level, related)
        self.engine.findings[self.unit.key][finding] = None

    def sources(self, labels: Iterable[Label]) -> list[Source]:
        return [label for label in labels if isinstance(label, Source)]

    def new_source(self, name: str, node: ast.AST, *, definite: bool) -> frozenset[Label]:
        return frozenset({Source(name, line_of(node), self.module.shown, definite)})

    def as_parameter(self, function: Function, index: int, start: Value) -> Value:
        here = Param(function.key, index, ())
        return replace(start, labels=frozenset({here}), same=here)


def by_name(name: str, value: Value) -> Value:
    """A name that says `outcome` is believed, where nothing else is known about the value."""
    if value.kind is not Kind.UNKNOWN or value.members:
        return value
    if known.OUTCOME_NAME.match(name):
        return Value(labels=value.labels, kind=Kind.OUTCOME)
    if known.OUTCOMES_NAME.match(name) and value.inside is None:
        return Value(labels=value.labels, inside=OUTCOME)
    if known.SESSION_NAME.match(name):
        return Value(labels=value.labels, kind=Kind.SESSION)
    return value


def line_of(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 1))


def place_of(shown: str, node: ast.AST | Order) -> Place:
    if isinstance(node, Order):
        return Place(shown, node.line, node.column, node.end_line)
    end = getattr(node, "end_lineno", None) or line_of(node)
    return Place(shown, line_of(node), int(getattr(node, "col_offset", 0)) + 1, end)


__all__ = ["Env", "Frame", "by_name", "line_of", "place_of"]
