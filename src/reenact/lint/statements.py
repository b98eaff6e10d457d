"""What statements do to the names in sight, and which of them decide. `analyse` is the whole of a file's analysis."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from reenact.lint.calls import Calls
from reenact.lint.expressions import constant_key
from reenact.lint.findings import Finding, Severity
from reenact.lint.scope import FORBIDDEN, File, FunctionNode, line_of
from reenact.lint.values import UNKNOWN, Kind, Names, Value, dotted

_COMMUTING_METHODS: Final = frozenset({"add", "discard", "remove", "update", "difference_update"})


def analyse(shown: str, tree: ast.Module) -> list[Finding]:
    """The module's body, then each function once, with the names around it as they are in the end."""
    file = File(shown, seeded=any(_is_seeding(node) for node in ast.walk(tree)), later={tree: Names()})
    while file.later:
        node, names = file.later.popitem()
        try:
            Statements(file, names.new_child(), getattr(node, "name", "")).enter(node)
        except RecursionError:
            message = "the code is nested too deeply and was not analysed"
        except Exception as error:  # noqa: BLE001  # whatever the code looks like, the other files are still checked
            message = f"the code was not analysed: {type(error).__name__} in lint itself, please report it"
        else:
            continue
        file.findings.append(Finding.about_line(shown, line_of(node), "RN005", message))
    return file.findings


class Statements(Calls):
    """Runs statements in order; `run` says whether the end of the body can be reached."""

    def enter(self, node: ast.Module | FunctionNode) -> None:
        """Run a body. Parameters may be anything of their type; `self` is bound where the class is."""
        if not isinstance(node, ast.Module):
            for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if parameter.arg != "self":
                    self.bind(parameter.arg, self.typed(parameter.annotation))
        self.run(node.body)

    def run(self, body: list[ast.stmt]) -> bool:
        for node in body:
            name = type(node).__name__.lower().removeprefix("async")
            handler: Callable[[Any], object] | None = getattr(self, f"on_{name}", None)
            if handler is not None and handler(node) is False:
                return False
        return True

    def on_assign(self, node: ast.Assign) -> None:
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value)

    def on_annassign(self, node: ast.AnnAssign) -> None:
        value = UNKNOWN if node.value is None else self.evaluate(node.value)
        if node.value is not None or isinstance(node.target, ast.Name):
            self.assign(node.target, value.declared(self.typed(node.annotation)))

    def on_augassign(self, node: ast.AugAssign) -> None:
        with self.at_most(0):  # counting under a key looks nothing up
            before = self.evaluate(node.target)
        added = self.evaluate(node.value)
        self.give_away(node, before, added)
        self.assign(node.target, Value.either([before, added]).plus(before.sources | added.sources))

    def on_if(self, node: ast.If) -> bool:
        only_tells = self._only_tells([*node.body, *node.orelse])
        with self.at_most(Severity.NOTE if only_tells else Severity.ERROR):
            self.test(node.test)
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
            (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self.is_telling(node.value))
            or (isinstance(node, ast.If) and self._only_tells([*node.body, *node.orelse]))
            for node in body
        )

    def on_for(self, node: ast.For | ast.AsyncFor) -> None:
        values = self.evaluate(node.iter)
        if any(_depends_on_order(inner) for statement in node.body for inner in ast.walk(statement)):
            self.depend_on_order(node.iter, values)
        with self.branch() as names:
            self.assign(node.target, values.element())
            self.run(node.body)
        self.merge([names], may_skip=True)
        self.run(node.orelse)

    def on_while(self, node: ast.While) -> None:
        with self.branch() as names:
            self.test(node.test, "loops on")
            self.run(node.body)
        self.merge([names], may_skip=True)
        self.run(node.orelse)

    def on_with(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            value = self.evaluate(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
        return self.run(node.body)

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

    def on_match(self, node: ast.Match) -> None:
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

    def match(self, pattern: ast.pattern, value: Value) -> None:
        """Bind what a pattern captures, and report what it decides on. A type is structure, not content."""
        if isinstance(pattern, ast.MatchValue | ast.MatchSingleton) and pattern.value is not None:
            self.decide("RN101", pattern, value.sources, "branches on")
        inner: list[ast.pattern] = [one for one in ast.iter_child_nodes(pattern) if isinstance(one, ast.pattern)]
        values = [value.element() if isinstance(pattern, ast.MatchSequence) else value] * len(inner)
        if isinstance(pattern, ast.MatchMapping | ast.MatchClass):
            named = getattr(pattern, "kwd_attrs", None) or map(constant_key, getattr(pattern, "keys", ()))
            read = [self.read(value, key, pattern) for key in named]
            values = [*[UNKNOWN] * (len(inner) - len(read)), *read]  # what a class matches by place comes first
        for one, part in zip(inner, values, strict=True):
            self.match(one, part)
        name = getattr(pattern, "name", None)
        if name is not None:
            self.bind(name, value)

    on_expr = Calls.made_from_all

    def on_return(self, node: ast.Return) -> bool:
        if node.value is not None:
            self.give_away(node, self.evaluate(node.value))
        return False

    def on_raise(self, _: ast.Raise) -> bool:
        """The text of an error is a message, and messages may vary."""
        return False

    def on_assert(self, node: ast.Assert) -> None:
        self.test(node.test, "asserts")

    def on_functiondef(self, node: FunctionNode) -> None:
        self.made_from_all(node.args)
        for decorator in node.decorator_list:
            self.evaluate(decorator)
        self.file.later[node] = self.names
        self.bind(node.name, Value(Kind.NAMED, node.name))

    def on_classdef(self, node: ast.ClassDef) -> None:
        self.made_from_all(node)
        fields = {dotted(inner.target) for inner in node.body if isinstance(inner, ast.AnnAssign)}
        like_outcome = {"code", "status"} <= fields and not FORBIDDEN.isdisjoint(fields)
        self.file.classes[node.name] = Kind.OUTCOME if like_outcome else Kind.OWN
        with self.branch():
            self.bind("self", self.typed(ast.Name(node.name)))
            self.run(node.body)
        self.bind(node.name, Value(Kind.NAMED, node.name))

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


def _depends_on_order(node: ast.AST) -> bool:
    """Whether it matters when a loop does this. It does not where a loop only counts, or keeps under a key."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return getattr(node.value.func, "attr", "") not in _COMMUTING_METHODS
    if isinstance(node, ast.Return):
        return not isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.Break)
