"""What statements do to the names in sight, and which of them decide. `analyse` is the whole of a file's analysis."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from reenact.lint.calls import Calls
from reenact.lint.files import SourceFile
from reenact.lint.findings import Finding, Place, Severity
from reenact.lint.scope import Class, File
from reenact.lint.values import UNKNOWN, Code, FunctionNode, Kind, Names, Value, dotted

_MAX_LOOPS: Final = 3  # nesting beyond which one pass over a loop's body has to do
_COMMUTING_METHODS: Final = frozenset({"add", "discard", "remove", "update", "difference_update"})
_COMMUTING_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Add, ast.Mult, ast.Sub)
_SEQUENCES: Final = (ast.List, ast.Tuple, ast.JoinedStr, ast.ListComp)


def analyse(source: SourceFile, tree: ast.Module) -> list[Finding]:
    """The module's body, then each function once, with the names around it as they are in the end."""
    file = File(source.shown, seeded=any(_is_seeding(node) for node in ast.walk(tree)))
    _analyse(file, None, tree)
    while file.later:
        node = next(iter(file.later))
        _analyse(file, file.later.pop(node), node)
    return list(file.findings)


def _analyse(file: File, code: Code | None, node: ast.AST) -> None:
    scope = Statements(file, code, sum(1 for _ in ast.walk(node)))
    try:
        if code is not None:
            scope.enter(code, {})
        elif isinstance(node, ast.Module):
            scope.run(node.body)
        message = ""
    except RecursionError:
        message = "the code is nested too deeply and was not analysed"
    except Exception as error:  # noqa: BLE001  # whatever the code looks like, the other files are still checked
        message = f"the code was not analysed: {type(error).__name__} in lint itself, please report it"
    if message:
        line = getattr(node, "lineno", 1)
        file.findings[Finding(Place(file.shown, line, 1, line), "RN005", message, Severity.ERROR)] = None


class Statements(Calls):
    """Runs statements in order; `run` says whether the end of the body can be reached."""

    def run(self, body: list[ast.stmt]) -> bool:
        for node in body:
            handler: Callable[[Any], bool | None] | None = getattr(self, f"on_{type(node).__name__.lower()}", None)
            reached = handler is None or handler(node) is not False
            self._run_waiting()
            if not reached:
                return False
        return True

    def _run_waiting(self) -> None:
        """Lambdas of a statement that nothing in it has called are analysed for whatever they may get."""
        while self.waiting:
            _, code = self.waiting.popitem()
            self.enter(code, {})

    # assignment

    def on_assign(self, node: ast.Assign) -> None:
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value)

    def on_annassign(self, node: ast.AnnAssign) -> None:
        value = UNKNOWN if node.value is None else self.evaluate(node.value)
        if node.value is not None or isinstance(node.target, ast.Name):
            self.assign(node.target, value.declared(self.typed(node.annotation)))

    def on_augassign(self, node: ast.AugAssign) -> None:
        with self.telling():  # counting under a key looks nothing up
            before = self.evaluate(node.target)
        added = self.evaluate(node.value)
        if Kind.LIST in (before.kind, added.kind):
            order = before.order or self.order_of(added, node.value)
            value = Value.many([before.element(), added.element()], order)
        else:
            value = Value.either([before, added]).plus(before.sources | added.sources)
        self.assign(node.target, replace(value, kind=Kind.SET) if before.kind is Kind.SET else value)

    # control flow

    def on_if(self, node: ast.If) -> bool:
        inner = [*node.body, *node.orelse]
        only_tells = self._only_tells(inner) and not all(isinstance(one, ast.Pass) for one in inner)
        self.noting += only_tells
        self.test(node.test)
        self.noting -= only_tells
        ends: list[Names] = []
        for body in (node.body, node.orelse):
            with self.branch() as names:
                if self.run(body):
                    ends.append(names)
        self.merge(ends)
        return bool(ends)

    def _only_tells(self, body: list[ast.stmt]) -> bool:
        """Whether a branch does nothing but log: then what it depends on changes no behaviour."""
        return all(
            isinstance(node, ast.Pass)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self.is_telling(node.value))
            or (isinstance(node, ast.If) and self._only_tells([*node.body, *node.orelse]))
            for node in body
        )

    def on_for(self, node: ast.For | ast.AsyncFor) -> None:
        values = self.evaluate(node.iter)
        if not _commutes(node.body):
            self.consume(values, node.iter, "loops over")
        self._repeat(lambda: self.assign(node.target, self.element_of(values)), node)

    on_asyncfor = on_for

    def on_while(self, node: ast.While) -> None:
        self._repeat(lambda: self.test(node.test, "loops on"), node)

    def _repeat(self, head: Callable[[], None], node: ast.For | ast.AsyncFor | ast.While) -> None:
        """A second pass sees what the first one left behind."""
        self.loops += 1
        for _ in range(2 if self.loops <= _MAX_LOOPS else 1):
            with self.branch() as names:
                head()
                self.run(node.body)
            self.merge([names], may_skip=True)
        self.loops -= 1
        self.run(node.orelse)

    def on_with(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            value = self.evaluate(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
        return self.run(node.body)

    on_asyncwith = on_with

    def on_try(self, node: ast.Try) -> bool:
        with self.branch() as tried:
            ends = [tried] if self.run(node.body) and self.run(node.orelse) else []
        for handler in node.handlers:
            with self.branch() as names:
                self.merge([tried], may_skip=True)
                if handler.name is not None:
                    self.bind(handler.name, Value(Kind.ERROR))
                if self.run(handler.body):
                    ends.append(names)
        self.merge(ends)
        return self.run(node.finalbody) and bool(ends)

    on_trystar = on_try

    def on_match(self, node: ast.Match) -> bool:
        subject = self.evaluate(node.subject)
        ends: list[Names] = []
        for case in node.cases:
            with self.branch() as names:
                self.match(case.pattern, subject)
                if case.guard is not None:
                    self.test(case.guard)
                if self.run(case.body):
                    ends.append(names)
        self.merge(ends, may_skip=True)
        return True

    def match(self, pattern: ast.pattern, value: Value) -> None:
        """Bind what a pattern captures, and report what it decides on. A type is structure, not content."""
        if isinstance(pattern, ast.MatchValue | ast.MatchSingleton) and pattern.value is not None:
            self.decide("RN101", pattern, value.sources, "branches on")
        for inner, part in self._inside(pattern, value):
            self.match(inner, part)
        name = getattr(pattern, "name", None)
        if name is not None:
            self.bind(name, value)

    def _inside(self, pattern: ast.pattern, value: Value) -> list[tuple[ast.pattern, Value]]:
        """The patterns in a pattern, each with what it is held against."""
        if isinstance(pattern, ast.MatchMapping):
            keys = [str(key.value) if isinstance(key, ast.Constant) else "" for key in pattern.keys]
            return [(inner, self.read(value, key, inner)) for key, inner in zip(keys, pattern.patterns, strict=True)]
        if isinstance(pattern, ast.MatchClass):
            named = zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)
            return [(inner, self.read(value, name, inner)) for name, inner in named]
        if isinstance(pattern, ast.MatchSequence):
            self.consume(value, pattern, "matches")
            return [(inner, value.part(str(index))) for index, inner in enumerate(pattern.patterns)]
        return [(inner, value) for inner in ast.iter_child_nodes(pattern) if isinstance(inner, ast.pattern)]

    # the rest

    def on_expr(self, node: ast.Expr) -> None:
        self.evaluate(node.value)

    def on_return(self, node: ast.Return) -> bool:
        value = UNKNOWN if node.value is None else self.evaluate(node.value)
        self.give_away(value)
        self.returned.append(value)
        return False

    def on_raise(self, node: ast.Raise) -> bool:
        """The text of an error is a message, and messages may vary."""
        with self.telling():
            self.made_from_all(node)
        return False

    def on_assert(self, node: ast.Assert) -> None:
        self.test(node.test, "asserts")
        if node.msg is not None:
            with self.telling():
                self.evaluate(node.msg)

    def on_functiondef(self, node: FunctionNode) -> None:
        arguments = node.args
        for expression in [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults]:
            if expression is not None:
                self.evaluate(expression)
        code = Code(node, self.names, self.owner)
        self.file.later[node] = code
        if self.owner and "setter" not in code.decorators:
            self.file.classes[self.owner].methods[node.name] = code
        self.bind(node.name, Value(Kind.FUNCTION, code=code))

    on_asyncfunctiondef = on_functiondef

    def on_classdef(self, node: ast.ClassDef) -> None:
        for expression in [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]:
            self.evaluate(expression)
        fields = [dotted(inner.target) for inner in node.body if isinstance(inner, ast.AnnAssign)]
        self.file.classes[node.name] = Class(fields)
        outer, self.owner = self.owner, node.name
        with self.branch():
            self.run(node.body)
        self.owner = outer
        self.bind(node.name, Value(Kind.CLASS, node.name))

    def on_import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.split(".")[0]
            self.bind(alias.asname or name, Value(Kind.NAMED, name))

    def on_importfrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = f"{'.' * node.level}{node.module or ''}.{alias.name}"
            self.bind(alias.asname or alias.name, Value(Kind.NAMED, name))


def _is_seeding(node: ast.AST) -> bool:
    """`random.seed(something)`, under whatever name the module was imported."""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "seed" and bool(node.args or node.keywords)


def _commutes(body: list[ast.stmt]) -> bool:
    """Whether a loop does the same in any order: it only counts, keeps under a key, or returns one constant."""
    inner = [node for statement in body for node in ast.walk(statement)]
    returns = {ast.dump(node.value) for node in inner if isinstance(node, ast.Return) and node.value is not None}
    return len(returns) <= 1 and all(_statement_commutes(node) for node in body)


def _statement_commutes(node: ast.stmt) -> bool:
    value = getattr(node, "value", None)
    if isinstance(node, ast.If):
        return all(_statement_commutes(inner) for inner in [*node.body, *node.orelse])
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, _COMMUTING_OPERATORS) and not isinstance(value, _SEQUENCES)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Subscript) for target in node.targets)
    if isinstance(value, ast.Call):
        return isinstance(node, ast.Expr) and getattr(value.func, "attr", "") in _COMMUTING_METHODS
    return isinstance(node, ast.Pass | ast.Continue) or isinstance(value, ast.Constant)
