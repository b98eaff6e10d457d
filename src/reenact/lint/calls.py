"""Every call: whom it calls, and for methods of unknown objects what their name says."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from reenact.lint import known
from reenact.lint.abstract import (
    BLANK,
    OUTCOME,
    UNKNOWN,
    Kind,
    Value,
    deep_labels,
    element,
    join,
    join_all,
    labelled,
    limit,
    some_key,
)
from reenact.lint.invoke import Arguments
from reenact.lint.library import Library
from reenact.lint.order import new_order
from reenact.lint.program import dotted


class Calls(Library):
    """Dispatches calls to analysed code, to the library, or to a method's name."""

    def evaluate_call(self, node: ast.Call) -> Value:
        if self.is_telling(node):
            with self.telling():
                self._arguments(node)
            return UNKNOWN
        if isinstance(node.func, ast.Attribute):
            base = self.evaluate(node.func.value)
            return self.call_method(base, node.func, self._arguments(node), node)
        callee = self.evaluate(node.func)
        return self.call_value(callee, self._arguments(node), node)

    def is_telling(self, node: ast.Call) -> bool:
        """Whether the call only logs, prints or counts."""
        name = dotted(node.func)
        if not name:
            return False
        *path, last = name.split(".")
        if path and last in known.LOG_METHODS and known.LOG_RECEIVER.match(path[-1]):
            return True
        if path and last in known.TELEMETRY_METHODS:
            return True
        if not path and last != "print" and self.env.get(last) is None and last not in self.module.values:
            return False
        with self.telling():  # resolving a name is no use of it
            callee = self.evaluate(node.func)
        return callee.kind is Kind.NAMED and callee.name in known.LOG_FUNCTIONS

    def _arguments(self, node: ast.Call) -> Arguments:
        arguments = Arguments()
        if isinstance(node.func, ast.Attribute) and node.func.attr in known.KEYED_METHODS:
            self.tells_apart(*node.args)
        for item in node.args:
            value = self.evaluate(item)
            if isinstance(item, ast.Starred):
                if not (isinstance(node.func, ast.Attribute) and node.func.attr in known.SET_METHODS):
                    self.consume(value, item, "passes on")
                arguments.rest = join(arguments.rest or BLANK, element(value))
            elif arguments.rest is None:
                arguments.positional.append(value)
            else:
                arguments.rest = join(arguments.rest, value)
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                arguments.keywords[keyword.arg] = value
            elif value.members and value.inside is None:
                arguments.keywords.update(value.members)
            else:
                arguments.rest = join(arguments.rest or BLANK, value)
        return arguments

    def apply(self, function: Value, arguments: list[Value], node: ast.AST) -> Value:
        """Call a value that was handed over as a function: a key, a predicate, a callback."""
        given = Arguments(positional=arguments)
        called = self.engine.functions.get(function.name) if function.name in self.lambdas else None
        if called is not None and called not in self.functions:
            return self.call_lambda(called, given)
        if isinstance(node, ast.Call):
            return self.call_value(function, given, node)
        call = ast.Call(func=ast.Name("f", ast.Load()), args=[], keywords=[])
        return self.call_value(function, given, ast.copy_location(call, node))

    def call_value(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        if callee.kind is Kind.NAMED:
            return self.call_named(callee.name, arguments, node)
        if callee.kind is Kind.FUNCTION and callee.name in self.engine.functions:
            function = self.engine.functions[callee.name]
            if callee.name in self.uncalled:
                return self.call_lambda(function, arguments)
            return self.invoke(function, callee.bound, arguments, node)
        if callee.kind is Kind.CLASS:
            return self.construct(self.engine.program.classes[callee.name], arguments, node)
        if callee.kind is Kind.GETTER:
            return self._get(callee, arguments.first(), node)
        result = self.call_unknown(arguments)
        return labelled(result.labels | callee.labels)

    def _get(self, getter: Value, base: Value, node: ast.AST) -> Value:
        parts: list[Value] = []
        for path in sorted(getter.texts):
            value = base
            for name in path.split("."):
                value = self.read_member(value, name, node)
            parts.append(value)
        return join_all(parts) if parts else element(base)

    # methods

    def call_method(self, base: Value, func: ast.Attribute, arguments: Arguments, node: ast.Call) -> Value:
        name = func.attr
        if base.kind in (Kind.NAMED, Kind.MODULE, Kind.INSTANCE, Kind.CLASS) or base.member(name) is not None:
            callee = self.read_member(base, name, func)
            self.check_hazard(callee, func)
            if callee.kind in (Kind.NAMED, Kind.FUNCTION, Kind.CLASS, Kind.GETTER):
                return self.call_value(callee, arguments, node)
        if base.kind is Kind.MADE and f"{base.name}.{name}" in known.LISTINGS:
            return self.call_named(f"{base.name}.{name}", arguments, node)
        handler = METHODS.get(name)
        if handler is not None:
            return handler(self, base, arguments, node)
        return self._call_unknown_method(base, name, arguments, node)

    def _call_unknown_method(self, base: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        if name in known.LISTING_METHODS or (name == "glob" and base.kind is Kind.UNKNOWN):
            what = known.LISTING_METHODS.get(name, "lists files")
            return Value(kind=Kind.LIST, order=new_order("RN207", node, f"{name}() {what}"))
        if name in known.COMPLETION_METHODS:
            return Value(kind=Kind.LIST, order=new_order("RN208", node, f"{name}() gives results as they come"))
        if name in known.SET_METHODS and base.kind is Kind.SET:
            inside = join_all([element(base), *(element(value) for value in arguments.positional)])
            return Value(kind=Kind.SET, inside=inside)
        for value in arguments.everything():
            self.consume_sequence(value)
        labels = base.labels | (arguments.labels() if name in known.PURE_METHODS else frozenset())
        return labelled(labels)

    def read_key(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:
        """`get`, `pop` and `setdefault` with a constant key read a field; a set's `pop` takes any element."""
        if not arguments.positional:
            if not self.has_one_element(node.func):
                self.consume(base, node, "takes any element of")
            return element(base)
        key, *default = arguments.positional
        if key.texts:
            found = [self.read_member(base, text, node) for text in sorted(key.texts)]
            return join_all([*found, *default])
        if base.kind is Kind.DICT:
            self.decide("RN104", node, key.labels, "looks something up by")
        if base.kind is Kind.UNKNOWN and not base.members and base.inside is None:
            return labelled(base.labels)
        return join_all([element(base), *default])

    def has_one_element(self, func: ast.expr) -> bool:
        """Whether the code around asks if the set has exactly one element: then there is no order to depend on."""
        if not isinstance(func, ast.Attribute) or not self.functions:
            return False
        return ast.dump(func.value) in counted_to_one(self.functions[-1].node)

    def sort_in_place(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:
        key = arguments.keywords.get("key")
        item = element(base)
        compared = item if key is None else self.apply(key, [item], node)
        self.decide("RN103", node, deep_labels(compared), "orders by", whole=True)
        self._replace_receiver(node, replace(base, order=None))
        return BLANK

    def view_keys(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # methods share a signature
        return Value(kind=Kind.VIEW, inside=some_key(base), order=base.order)

    def view_values(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # methods share a signature
        return Value(kind=Kind.VIEW, inside=element(base), order=base.order)

    def view_items(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # methods share a signature
        pair = Value(kind=Kind.LIST, members={"0": some_key(base), "1": element(base)})
        return Value(kind=Kind.VIEW, inside=pair, order=base.order)

    def copy(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # methods share a signature
        return base

    def grow_by_one(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:
        added = join_all(arguments.positional)
        self._grow(base, added, node)
        return UNKNOWN

    def grow_by_all(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:
        extends = isinstance(node.func, ast.Attribute) and node.func.attr == "extend"
        for value in arguments.positional:
            order = base.order or (self.sequence_order(value, node) if extends else None)
            members = value.members if value.kind is Kind.DICT else {}
            self._grow(replace(base, order=order, members={**base.members, **members}), element(value), node)
        if arguments.keywords:
            self._grow(replace(base, members={**base.members, **arguments.keywords}), BLANK, node)
        return UNKNOWN

    def _grow(self, base: Value, added: Value, node: ast.Call) -> None:
        inside = added if base.inside is None else join(base.inside, added)
        self._replace_receiver(node, replace(base, inside=inside, same=None))

    def _replace_receiver(self, node: ast.Call, value: Value) -> None:
        """The object that a method was called on has changed in place."""
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(receiver, ast.Name):
            self.rebind(receiver.id, value)
        elif isinstance(receiver, ast.Attribute) and isinstance(receiver.value, ast.Name):
            self.assign(ast.Attribute(receiver.value, receiver.attr, ast.Store()), value)

    def join_texts(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:
        for value in arguments.positional:
            self.consume(value, node, "joins")
        return Value(labels=limit(base.labels | arguments.labels()), kind=Kind.TEXT)

    def split_text(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # methods share a signature
        return Value(labels=base.labels, kind=Kind.LIST, inside=labelled(base.labels | arguments.labels()))

    def writing_question(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # methods share a signature
        """How a text can be written is asked to write it, not to decide on what it says."""
        return BLANK

    def text_predicate(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:
        self.decide("RN102", node, base.labels | arguments.labels(), "compares")
        return BLANK

    def session_call(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:
        if base.kind is Kind.SESSION:
            return OUTCOME
        return self._call_unknown_method(base, "call", arguments, node)

    def new_session(self, base: Value, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # methods share a signature
        return Value(kind=Kind.SESSION)


@lru_cache(maxsize=256)
def counted_to_one(function: ast.AST) -> frozenset[str]:
    """Of which expressions a function compares the length with 1."""
    return frozenset(
        ast.dump(node.left.args[0])
        for node in ast.walk(function)
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Call)
        and isinstance(node.left.func, ast.Name)
        and node.left.func.id == "len"
        and node.left.args
        and isinstance(node.comparators[0], ast.Constant)
        and node.comparators[0].value == 1
    )


Method = Callable[[Calls, Value, Arguments, ast.Call], Value]
METHODS: Final[dict[str, Method]] = {
    "get": Calls.read_key,
    "pop": Calls.read_key,
    "setdefault": Calls.read_key,
    "__getitem__": Calls.read_key,
    "sort": Calls.sort_in_place,
    "keys": Calls.view_keys,
    "values": Calls.view_values,
    "items": Calls.view_items,
    "copy": Calls.copy,
    "append": Calls.grow_by_one,
    "appendleft": Calls.grow_by_one,
    "add": Calls.grow_by_one,
    "insert": Calls.grow_by_one,
    "extend": Calls.grow_by_all,
    "update": Calls.grow_by_all,
    "join": Calls.join_texts,
    **dict.fromkeys(known.TEXT_PREDICATES, Calls.text_predicate),
    **dict.fromkeys(known.SPLITTING, Calls.split_text),
    "isprintable": Calls.writing_question,
    "isascii": Calls.writing_question,
    "call": Calls.session_call,
    "session": Calls.new_session,
}
