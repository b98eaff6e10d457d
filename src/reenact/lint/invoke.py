"""Calling analysed code: arguments meet parameters, a summary stands for the body, objects keep what they are given."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from reenact.lint.abstract import (
    ERROR_TEXT,
    UNKNOWN,
    Kind,
    Label,
    Param,
    Source,
    Value,
    at_path,
    deep_labels,
    join_all,
    limit,
    map_labels,
    ranked,
)
from reenact.lint.expressions import Expressions
from reenact.lint.fields import FORBIDDEN
from reenact.lint.findings import Place, Severity
from reenact.lint.frame import REASONS, Env, by_name
from reenact.lint.program import Class, Function, FunctionNode, Sink, decorators
from reenact.lint.rules import RULES


@dataclass(slots=True)
class Arguments:
    """The arguments of one call. `rest` may be any further one, of either kind."""

    positional: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    rest: Value | None = None

    def everything(self) -> list[Value]:
        return [*self.positional, *self.keywords.values(), *([] if self.rest is None else [self.rest])]

    def labels(self) -> frozenset[Label]:
        return frozenset(label for value in self.everything() for label in deep_labels(value))

    def first(self) -> Value:
        return self.positional[0] if self.positional else (self.rest or UNKNOWN)


class Invocations(Expressions):
    """Functions, methods, classes and closures of the analysed code."""

    def invoke(self, function: Function, bound: Value | None, arguments: Arguments, node: ast.AST) -> Value:
        """What a call gives, and what the callee decides with the arguments."""
        self.engine.read_summary(function, self.unit.key)
        given = _meet(function, bound, arguments)
        summary = function.summary
        for label, sink in list(summary.sinks.items()):
            passed = given.get(label.position)
            if passed is not None and (passed.labels or passed.members or passed.inside is not None):
                value = at_path(passed, label.path)
                labels = deep_labels(value, records=False) if sink.whole else value.labels
                self._pass_on(labels, sink, function, node)
        if function.owner is not None:
            for name, value in summary.attributes.items():
                self.engine.set_attribute(function.owner, name, _filled_in(value, function, given))
        return UNKNOWN if summary.returns is None else _filled_in(summary.returns, function, given)

    def _pass_on(self, labels: Iterable[Label], sink: Sink, function: Function, node: ast.AST) -> None:
        if self.quiet:
            return
        for label in ranked(labels):
            if isinstance(label, Param):
                if not self.noting and label.function != function.key:
                    self.engine.add_sink(label, sink)
            elif not (sink.bare and label.name == ERROR_TEXT):
                self._report_passing(label, sink, function, node)

    def _report_passing(self, source: Source, sink: Sink, function: Function, node: ast.AST) -> None:
        rule = "RN106" if source.name == ERROR_TEXT else sink.rule
        severity = RULES[rule].severity if source.definite else min(RULES[rule].severity, Severity.WARNING)
        read = self.where_read(source, node)
        callee = function.owner.node.name if function.owner and function.name == "__init__" else function.name
        message = f"passes {source.name}{read} to {callee}(), which {sink.action} it: {REASONS[source.name]}"
        place = Place(sink.file, sink.line)
        self.report(rule, node, message, severity, ((place, f"{callee}() {sink.action} it here"),))

    def construct(self, owner: Class, arguments: Arguments, node: ast.AST) -> Value:
        """A new object: its fields are the arguments, or what its `__init__` makes of them."""
        made = Value(kind=Kind.INSTANCE, name=owner.key)
        initial = owner.method("__init__")
        if initial is not None:
            given = _meet(initial, made, arguments)
            self.invoke(initial, made, arguments, node)
            members = {name: _filled_in(value, initial, given) for name, value in initial.summary.attributes.items()}
        else:
            names = list(owner.all_fields())
            members = {**dict(zip(names, arguments.positional, strict=False)), **arguments.keywords}
            for name, value in members.items():
                self.engine.set_attribute(owner, name, value)
        if owner.looks_like_outcome:
            members = {name: value for name, value in members.items() if name not in FORBIDDEN}
        return replace(made, members=members)

    # bodies

    def make_closure(self, node: ast.Lambda | FunctionNode) -> Value:
        """A function inside a function, analysed with the names around it as they are here.

        A lambda waits until it is called with something or its statement ends: what `sorted` hands to a key says
        more about its parameter than nothing.
        """
        for default in [*node.args.defaults, *(item for item in node.args.kw_defaults if item is not None)]:
            self.evaluate(default)
        key = f"{self.module.name}:{node.lineno}:{node.col_offset}"
        function = self.engine.functions.get(key)
        if function is None:
            name = "lambda" if isinstance(node, ast.Lambda) else node.name
            function = Function(key, name, node, self.module, self.classes[-1] if self.classes else None)
            self.engine.functions[key] = function
            if function.owner is not None:
                function.owner.methods[name] = function
        if isinstance(node, ast.Lambda):
            self.lambdas[key] = self.env
            self.uncalled[key] = function
        else:
            self.analyse(function)
        return Value(kind=Kind.FUNCTION, name=key)

    def analyse_uncalled(self) -> None:
        """At the end of a statement: lambdas that were only handed on are analysed for whatever they may get."""
        while self.uncalled:
            key, function = self.uncalled.popitem()
            here, self.env = self.env, self.lambdas[key]
            self.analyse(function)
            self.env = here

    def call_lambda(self, function: Function, arguments: Arguments) -> Value:
        """The body of a lambda with these arguments for its parameters."""
        assert isinstance(function.node, ast.Lambda)
        self.uncalled.pop(function.key, None)
        here, self.env = self.env, Env(self.lambdas[function.key], own=True)
        self.functions.append(function)
        try:
            given = _meet(function, None, arguments)
            for position, parameter in enumerate(function.parameters()):
                self.env.names[parameter.arg] = by_name(parameter.arg, given.get(position, UNKNOWN))
            return self.evaluate(function.node.body)
        finally:
            self.functions.pop()
            self.env = here

    def analyse(self, function: Function) -> None:
        """Run a function's body with its parameters unknown, and keep what its callers must know."""
        outer, around = self.env, (self.quiet, self.noting, self.classes)
        self.env, self.quiet, self.noting, self.classes = Env(outer, own=True), 0, 0, []
        self.functions.append(function)
        self.returned.append([])
        try:
            self._bind_parameters(function)
            if isinstance(function.node, ast.Lambda):
                self.returned[-1].append(self.evaluate(function.node.body))
            else:
                self.run(function.node.body)
        finally:
            values = self.returned.pop()
            self.functions.pop()
            self.env = outer
            self.quiet, self.noting, self.classes = around
        declared = self.from_annotation(getattr(function.node, "returns", None))
        returns = join_all(values) if values else UNKNOWN
        if returns.kind is Kind.UNKNOWN and declared.kind is not Kind.BLANK:
            returns = replace(returns, kind=declared.kind, name=declared.name, inside=returns.inside or declared.inside)
        self.engine.set_returns(function, returns)

    def _bind_parameters(self, function: Function) -> None:
        parameters = function.parameters()
        defaults = _text_defaults(function.node.args)
        for index, parameter in enumerate(parameters):
            start = by_name(parameter.arg, self.from_annotation(parameter.annotation))
            if parameter.arg in defaults:
                start = replace(start, texts=frozenset({defaults[parameter.arg]}))
            if index == 0 and function.owner is not None and not function.is_static:
                is_class = "classmethod" in decorators(function.node)
                start = Value(kind=Kind.CLASS if is_class else Kind.INSTANCE, name=function.owner.key)
            self.env.names[parameter.arg] = self.as_parameter(function, index, start)
        arguments = function.node.args
        extra = ((arguments.vararg, Kind.LIST, 0), (arguments.kwarg, Kind.UNKNOWN, 1))
        for parameter_node, kind, offset in extra:
            if parameter_node is not None:
                start = Value(kind=kind)
                self.env.names[parameter_node.arg] = self.as_parameter(function, len(parameters) + offset, start)


def _text_defaults(arguments: ast.arguments) -> dict[str, str]:
    """Parameters whose default is a text: it may be the name of a field."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = list(
        zip(reversed(positional), reversed(arguments.defaults), strict=False)
    )
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {
        parameter.arg: default.value
        for parameter, default in pairs
        if isinstance(default, ast.Constant) and isinstance(default.value, str)
    }


def _meet(function: Function, bound: Value | None, arguments: Arguments) -> dict[int, Value]:
    """Which parameter gets which argument, by its index."""
    parameters = [parameter.arg for parameter in function.parameters()]
    given: dict[int, Value] = {}
    positional = list(arguments.positional)
    if function.owner is not None and not function.is_static:
        if bound is not None:
            positional.insert(0, bound)
        elif "classmethod" in decorators(function.node):
            positional.insert(0, UNKNOWN)
    plain = len(function.node.args.posonlyargs) + len(function.node.args.args)
    given.update(enumerate(positional[:plain]))
    more = positional[plain:]
    if more:
        given[len(parameters)] = Value(kind=Kind.LIST, inside=join_all(more))
    named: dict[str, Value] = {}
    for name, value in arguments.keywords.items():
        if name in parameters:
            given[parameters.index(name)] = value
        else:
            named[name] = value
    if named:
        given[len(parameters) + 1] = Value(kind=Kind.DICT, members=named)
    if arguments.rest is not None:
        for index, name in enumerate(parameters):
            given.setdefault(index, arguments.rest.member(name) or arguments.rest)
    return given


def _filled_in(value: Value, function: Function, given: dict[int, Value]) -> Value:
    """A value of the callee in the caller's terms: each parameter replaced by what was passed."""

    def change(label: Label) -> Iterable[Label]:
        if isinstance(label, Source) or label.function != function.key:
            return (label,)
        return at_path(given.get(label.position, UNKNOWN), label.path).labels

    if value.same is not None and value.same.function == function.key and value.same.position in given:
        passed = at_path(given[value.same.position], value.same.path)
        return replace(passed, labels=limit(passed.labels | map_labels(value, change).labels))
    filled = map_labels(value, change)
    return filled if filled.same is None else replace(filled, same=None)
