"""What each kind of statement does to the names in sight, and which of them decide."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from reenact.lint.abstract import MAX_DEPTH, UNKNOWN, Kind, Value, deep_labels, element, join, limit, part_of
from reenact.lint.frame import Env
from reenact.lint.patterns import Patterns
from reenact.lint.program import Class, FunctionNode, new_class

_MAX_LOOPS: Final = 3  # nesting beyond which one pass over a loop's body has to do


class Statements(Patterns):
    """Runs statements in order; `run` says whether the end of the body can be reached."""

    def run(self, body: list[ast.stmt]) -> bool:
        for node in body:
            handler = RUNNERS.get(type(node))
            goes_on = handler is None or handler(self, node) is not False
            self.analyse_uncalled()
            if not goes_on:
                return False
        return True

    # assignment

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Value(kind=Kind.LIST, inside=value))
        elif isinstance(target, ast.Attribute):
            self._store_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            self._store_item(target, value)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        if len(target.elts) > 1:
            self.consume(value, target, "unpacks")
        starred = False
        for index, item in enumerate(target.elts):
            starred = starred or isinstance(item, ast.Starred)
            found = None if starred else value.member(str(index))
            self.assign(item, element(value) if found is None else part_of(value, str(index), found))

    def _store_attribute(self, target: ast.Attribute, value: Value) -> None:
        """What is stored on an object is found there again: here, and in any code that has such an object."""
        base = self.evaluate(target.value)
        self.consume_sequence(value)
        if isinstance(target.value, ast.Name) and base.kind not in (Kind.NAMED, Kind.MODULE):
            self.rebind(target.value.id, replace(base, members={**base.members, target.attr: value}))
        owner = self.engine.program.classes.get(base.name) if base.kind in (Kind.INSTANCE, Kind.CLASS) else None
        if owner is None:
            return
        function = self.functions[-1] if self.functions else None
        if function is not None and function.owner is owner and base.same is not None and base.same.position == 0:
            self.engine.add_stored(function, target.attr, value)
        labels = deep_labels(value)
        if not labels or self.sources(labels):  # else the callers say what it is
            self.engine.set_attribute(owner, target.attr, value)

    def _store_item(self, target: ast.Subscript, value: Value) -> None:
        base = self.evaluate(target.value)
        self.tells_apart(target.slice)
        keys = sorted(self.evaluate(target.slice).texts) if not isinstance(target.slice, ast.Slice) else []
        if not isinstance(target.value, ast.Name):
            return
        if len(keys) == 1:
            changed = replace(base, members={**base.members, keys[0]: value})
        else:
            changed = replace(base, inside=value if base.inside is None else join(base.inside, value))
        self.rebind(target.value.id, changed)

    def assignment(self, node: ast.Assign) -> None:
        self.tells_apart(node.value)
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value)

    def annotated(self, node: ast.AnnAssign) -> None:
        declared = self.from_annotation(node.annotation)
        value = declared if node.value is None else self.evaluate(node.value)
        if node.value is not None and value.kind in (Kind.UNKNOWN, Kind.BLANK) and declared.kind is not Kind.BLANK:
            value = replace(value, kind=declared.kind, name=declared.name, inside=value.inside or declared.inside)
        if node.value is not None or isinstance(node.target, ast.Name):
            self.assign(node.target, value)

    def augmented(self, node: ast.AugAssign) -> None:
        before = self.evaluate(ast.copy_location(_as_load(node.target), node))
        added = self.evaluate(node.value)
        value = replace(join(before, added), labels=limit(before.labels | added.labels), same=None)
        if before.kind is Kind.SET:
            value = replace(value, kind=Kind.SET)
        elif before.kind is Kind.LIST:
            order = before.order or self.sequence_order(added, node.value)
            value = replace(
                value, kind=Kind.LIST, members={}, inside=join(element(before), element(added)), order=order
            )
        self.assign(node.target, value)

    # control flow

    def conditional_statement(self, node: ast.If) -> bool:
        inner = [*node.body, *node.orelse]
        only_tells = self._only_tells(inner) and not all(isinstance(statement, ast.Pass) for statement in inner)
        self.noting += only_tells
        self.test(node.test)
        self.noting -= only_tells
        ends: list[Env] = []
        for body in (node.body, node.orelse):
            with self.branch() as env:
                if self.run(body):
                    ends.append(env)
        self.merge(ends, may_skip=False)
        return bool(ends)

    def _only_tells(self, body: list[ast.stmt]) -> bool:
        """Whether a branch does nothing but log: then what it depends on changes no behaviour."""
        return all(
            isinstance(node, ast.Pass)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self.is_telling(node.value))
            or (isinstance(node, ast.If) and self._only_tells([*node.body, *node.orelse]))
            for node in body
        )

    def loop(self, node: ast.For | ast.AsyncFor) -> None:
        values = self.evaluate(node.iter)
        if not (values.name == "walk" and _sorts_folders(node)):
            self.loop_over(values, node)
        self._repeat(lambda: self.assign(node.target, element(values)), node.body)
        self.run(node.orelse)

    def while_loop(self, node: ast.While) -> None:
        self._repeat(lambda: self.test(node.test, "loops on"), node.body)
        self.run(node.orelse)

    def _repeat(self, head: Callable[[], None], body: list[ast.stmt]) -> None:
        """A second pass sees what the first one left behind, when that differs from what was there before."""
        self.loops += 1
        for _ in range(2 if self.loops <= _MAX_LOOPS else 1):
            with self.branch() as env:
                head()
                self.run(body)
            learned = any(self.env.get(name) != value for name, value in env.names.items() if self.env.get(name))
            self.merge([env], may_skip=True)
            if not learned:
                break
        self.loops -= 1

    def with_statement(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            value = self.evaluate(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
        return self.run(node.body)

    def try_statement(self, node: ast.Try) -> bool:
        ends: list[Env] = []
        with self.branch() as env:
            reached = self.run(node.body) and self.run(node.orelse)
            if reached:
                ends.append(env)
        partial = env
        for handler in node.handlers:
            with self.branch() as after:
                after.names.update({name: self._either(name, value) for name, value in partial.names.items()})
                if handler.name is not None:
                    self.bind(handler.name, Value(kind=Kind.ERROR))
                if self.run(handler.body):
                    ends.append(after)
        self.merge(ends, may_skip=False)
        return self.run(node.finalbody) and bool(ends)

    def _either(self, name: str, value: Value) -> Value:
        before = self.env.outer.get(name) if self.env.outer is not None else None
        return value if before is None else join(before, value)

    def match_statement(self, node: ast.Match) -> bool:
        subject = self.evaluate(node.subject)
        ends: list[Env] = []
        complete = False
        for case in node.cases:
            with self.branch() as env:
                self.match_pattern(case.pattern, subject)
                if case.guard is not None:
                    self.test(case.guard)
                if self.run(case.body):
                    ends.append(env)
            complete = complete or (_always_matches(case.pattern) and case.guard is None)
        self.merge(ends, may_skip=not complete)
        return bool(ends) or not complete

    # the rest

    def expression(self, node: ast.Expr) -> None:
        self.evaluate(node.value)

    def return_statement(self, node: ast.Return) -> bool:
        value = UNKNOWN if node.value is None else self.evaluate(node.value)
        self.consume_sequence(value)
        if self.returned:
            self.returned[-1].append(without_order(value))
        return False

    def raise_statement(self, node: ast.Raise) -> bool:
        """The text of an error is a message, and messages may vary."""
        with self.telling():
            for part in (node.exc, node.cause):
                if part is not None:
                    self.evaluate(part)
        return False

    def assertion(self, node: ast.Assert) -> None:
        self.test(node.test, "asserts")
        if node.msg is not None:
            with self.telling():
                self.evaluate(node.msg)

    def deletion(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.env.names[target.id] = UNKNOWN

    def declaration(self, node: ast.Global | ast.Nonlocal) -> None:
        env = self.env
        while not env.own and env.outer is not None:
            env = env.outer
        word = "global" if isinstance(node, ast.Global) else "nonlocal"
        env.shared.update(dict.fromkeys(node.names, word))

    def function_definition(self, node: FunctionNode) -> None:
        for decorator in node.decorator_list:
            self.evaluate(decorator)
        prefix = self.classes[-1].key if self.classes else self.module.name
        key = f"{prefix}.{node.name}@{node.lineno}"
        if self.functions or key not in self.engine.program.functions:
            self.bind(node.name, self.make_closure(node))
            return
        for default in [*node.args.defaults, *(item for item in node.args.kw_defaults if item is not None)]:
            self.evaluate(default)
        self.bind(node.name, Value(kind=Kind.FUNCTION, name=key))

    def class_definition(self, node: ast.ClassDef) -> None:
        for expression in [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]:
            self.evaluate(expression)
        owner = self._class_here(node)
        self.classes.append(owner)
        with self.branch() as env:
            self.run(node.body)
        self.classes.pop()
        for name, value in env.names.items():
            if value.kind is not Kind.FUNCTION and name not in owner.fields:
                self.engine.set_attribute(owner, name, value)
        self.bind(node.name, Value(kind=Kind.CLASS, name=owner.key))

    def _class_here(self, node: ast.ClassDef) -> Class:
        """The class as the program knows it; one inside a function is made known when it is met."""
        classes = self.engine.program.classes
        prefix = self.classes[-1].key if self.classes else self.module.name
        key = f"{prefix}.{node.name}"
        if self.functions or key not in classes:
            key = f"{self.module.name}:{node.lineno}:{node.col_offset}.{node.name}"
            classes.setdefault(key, new_class(key, node, self.module))
        return classes[key]

    def import_statement(self, node: ast.Import) -> None:
        for alias in node.names:
            head = alias.name if alias.asname else alias.name.split(".")[0]
            kind = Kind.MODULE if head in self.engine.program.modules else Kind.NAMED
            self.bind(alias.asname or head, Value(kind=kind, name=head))

    def import_from(self, node: ast.ImportFrom) -> None:
        base = self.module.absolute(node.level, node.module)
        for alias in node.names:
            if alias.name == "*":
                self._import_all(base)
                continue
            if base in self.engine.program.modules:
                value = self._of_module(base, alias.name)
            elif f"{base}.{alias.name}" in self.engine.program.modules:
                value = Value(kind=Kind.MODULE, name=f"{base}.{alias.name}")
            else:
                value = Value(kind=Kind.NAMED, name=f"{base}.{alias.name}")
            self.bind(alias.asname or alias.name, value)

    def _import_all(self, base: str) -> None:
        module = self.engine.program.modules.get(base)
        for name in [] if module is None else list(module.values):
            if module is not None and not name.startswith("_"):
                self.bind(name, self._of_module(module.name, name))


def without_order(value: Value, depth: int = 0) -> Value:
    """What a caller gets: an order that was reported here is not reported there again."""
    if depth > MAX_DEPTH or (value.order is None and not value.members and value.inside is None):
        return value
    return replace(
        value,
        order=None if value.kind is not Kind.DICT else value.order,
        inside=None if value.inside is None else without_order(value.inside, depth + 1),
        members={name: without_order(member, depth + 1) for name, member in value.members.items()},
    )


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Store())  # counting under a key looks nothing up
    return target


def _always_matches(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and (pattern.pattern is None or _always_matches(pattern.pattern))


def _sorts_folders(node: ast.For | ast.AsyncFor) -> bool:
    """Whether a walk puts its folders in order: `folders.sort()` or `folders[:] = sorted(…)`."""
    return any(
        isinstance(inner, ast.Call)
        and (
            (isinstance(inner.func, ast.Attribute) and inner.func.attr == "sort")
            or (isinstance(inner.func, ast.Name) and inner.func.id == "sorted")
        )
        for statement in node.body
        for inner in ast.walk(statement)
    )


Runner = Callable[[Statements, Any], bool | None]
RUNNERS: Final[dict[type[ast.stmt], Runner]] = {
    ast.Assign: Statements.assignment,
    ast.AnnAssign: Statements.annotated,
    ast.AugAssign: Statements.augmented,
    ast.If: Statements.conditional_statement,
    ast.For: Statements.loop,
    ast.AsyncFor: Statements.loop,
    ast.While: Statements.while_loop,
    ast.With: Statements.with_statement,
    ast.AsyncWith: Statements.with_statement,
    ast.Try: Statements.try_statement,
    ast.TryStar: Statements.try_statement,
    ast.Match: Statements.match_statement,
    ast.Expr: Statements.expression,
    ast.Return: Statements.return_statement,
    ast.Raise: Statements.raise_statement,
    ast.Assert: Statements.assertion,
    ast.Delete: Statements.deletion,
    ast.Global: Statements.declaration,
    ast.Nonlocal: Statements.declaration,
    ast.FunctionDef: Statements.function_definition,
    ast.AsyncFunctionDef: Statements.function_definition,
    ast.ClassDef: Statements.class_definition,
    ast.Import: Statements.import_statement,
    ast.ImportFrom: Statements.import_from,
}
