"""What calls give back: of Python's library by their full name, of methods by their own."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from reenact.lint import known
from reenact.lint.expressions import Expressions, constant_key
from reenact.lint.values import CONSTANT, EACH, OUTCOME, UNKNOWN, Kind, Source, Value, dotted

_LAMBDA: Final = Value(Kind.LAMBDA)
_COLLECTIONS: Final = (Kind.LIST, Kind.SET, Kind.SHUFFLED)
_NO_COLLECTION: Final = (Kind.LAMBDA, Kind.GETTER, Kind.NAMED, Kind.CONSTANT)
_CHOOSING: Final = ("builtins.min", "builtins.max")


@dataclass(slots=True)
class Call:
    """One call: whose, on which object, with what."""

    node: ast.Call
    name: str
    base: Value = UNKNOWN
    args: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)

    @property
    def everything(self) -> list[Value]:
        return [*self.args, *self.keywords.values()]

    @property
    def first(self) -> Value:
        return self.args[0] if self.args else UNKNOWN

    def sources(self) -> frozenset[Source]:
        """What the result is made from, where only that is known: of a list also its elements, of a dict not."""
        elements = [value.element() for value in self.everything if value.kind in _COLLECTIONS]
        return frozenset(source for value in [*self.everything, *elements] for source in value.sources)

    def item(self) -> Value:
        """Some element of what is sorted, filtered or mapped."""
        given = [value for value in self.args or [self.base] if value.kind not in _NO_COLLECTION]
        several = len(given) > 1 and self.name in _CHOOSING
        return Value.either(given if several else (value.element() for value in given))


class Calls(Expressions):
    """Dispatches calls to the library, or to a method's name."""

    def on_call(self, node: ast.Call) -> Value:
        if self.is_telling(node):
            return UNKNOWN
        func, name, base, callee = node.func, "", UNKNOWN, UNKNOWN
        if not isinstance(func, ast.Attribute):
            callee = self.look_up("id") if dotted(func) == "id" else self.evaluate(func)
        else:
            name, base = func.attr, self.evaluate(func.value)
            if base.kind is Kind.NAMED:
                callee = self.without_chance(self.read(base, name, func), func)
        return self.call(callee, self._with_arguments(Call(node, callee.name or name, base)))

    def _with_arguments(self, call: Call) -> Call:
        """The call with its arguments. A lambda comes last, and gets the elements of what it goes through."""
        nodes = call.node.args
        call.args = [_LAMBDA if isinstance(node, ast.Lambda) else self.evaluate(node) for node in nodes]
        given = call.item() if call.name in known.GOES_THROUGH else UNKNOWN
        for index, node in enumerate(nodes):
            if isinstance(node, ast.Lambda):
                call.args[index] = self.on_lambda(node, given)
        for keyword in call.node.keywords:
            node = keyword.value
            value = self.on_lambda(node, given) if isinstance(node, ast.Lambda) else self.evaluate(node)
            call.keywords[keyword.arg or "**"] = value
        return call

    def on_lambda(self, node: ast.Lambda, given: Value = UNKNOWN) -> Value:
        """A lambda stands for what it gives; it is run once, where it stands."""
        with self.branch():
            for parameter in node.args.args:
                self.bind(parameter.arg, given)
            return replace(_LAMBDA, parts={EACH: self.evaluate(node.body)})

    def is_telling(self, node: ast.Call) -> bool:
        """Whether the call only logs, prints or counts."""
        head, *path = dotted(node.func).split(".")
        receiver, method = [head, *path][-2:] if path else ("", "")
        logs = method in known.LOG_METHODS and known.LOG_RECEIVER.match(receiver)
        function = ".".join([self.look_up(head).name, *path])
        return bool(logs) or method in known.TELEMETRY_METHODS or function in known.LOG_FUNCTIONS

    def call(self, callee: Value, call: Call) -> Value:
        name = call.name if callee.kind is Kind.NAMED else f".{call.name}"
        if name in known.SHUFFLE:
            return Value(Kind.SHUFFLED, known.SHUFFLE[name])
        if name in known.DECIDE:
            rule, action = known.DECIDE[name]
            self.decide(rule, call.node, call.base.sources | call.sources(), action, bare=rule == "RN101")
            return CONSTANT
        if callee.kind is Kind.NAMED:
            return self._call_named(call)
        if callee.kind is Kind.GETTER:
            paths = [path.split(".") for path in callee.name.split()]
            return Value.either(reduce(lambda base, key: self.read(base, key, call.node), p, call.first) for p in paths)
        if call.name:
            return self._call_method(call)
        self.give_away(call.node, *call.everything)
        return callee.element() if callee.kind is Kind.LAMBDA else Value.of(callee.sources | call.sources())

    def apply(self, function: Value, call: Call) -> Value:
        """What a function that is handed over gives for an element of what it goes through."""
        return self.call(function, Call(call.node, function.name, args=[call.item()]))

    def _call_named(self, call: Call) -> Value:
        """A function gives back something made from its arguments, and a class an object, unless known better."""
        needed, hazard = known.NEEDS_ARGUMENTS.get(call.name, (0, None))
        if hazard is not None and len(call.everything) < needed:
            self.report(hazard.rule, call.node, f"{call.name} {hazard.what}")
        found = self._call_library(call.name.removeprefix("builtins."), call)
        if found is not None:
            return found
        if call.name not in known.FORGET_ORDER:
            self.give_away(call.node, *call.everything)
        last = call.name.rsplit(".", 1)[-1]
        return self.typed(ast.Name(last)) if last[:1].isupper() else Value.of(call.sources())

    def _call_library(self, name: str, call: Call) -> Value | None:  # noqa: C901  # a table
        """What a function of Python's library gives, where more than its arguments' sources is known."""
        first = call.first
        match name:
            case "sorted" | "min" | "max" | "itertools.groupby":
                return self._order(call)
            case "heapq.nlargest" | "heapq.nsmallest" | "heapq.heappush":
                return self._order(call)
            case "filter" | "itertools.filterfalse" | "itertools.takewhile" | "itertools.dropwhile":
                self.decide("RN101", call.node, self.apply(first, call).sources, "filters by", bare=True)
                return Value.sequence([call.item()], call.args)
            case "list" | "tuple" | "iter" | "reversed" | "itertools.chain" | "itertools.islice":
                return Value.sequence([call.item()], call.args)
            case "map":
                return Value.sequence([self.apply(first, call)], call.args)
            case "zip" | "enumerate":
                items = [value.element() for value in call.args]
                row = Value.row(items if name == "zip" else [CONSTANT, *items[:1]])
                return Value.sequence([row], call.args)
            case "set" | "frozenset":
                return Value(Kind.SET, parts={EACH: first.element()})
            case "dict" | "vars" | "copy.copy" | "copy.deepcopy" | "dataclasses.asdict" | "dataclasses.replace":
                return replace(first, parts={**first.parts, **call.keywords})
            case "str" | "repr" | "format" | "ascii":
                self.give_away(call.node, first)
                return Value.of(self.text_of(first, call.node))
            case "len":
                return Value.of(first.sources)
            case "isinstance" | "issubclass" | "hasattr" | "callable" | "type" | "id":  # structure, not content
                return CONSTANT
            case "getattr":
                return self._read_key(first, call.node.args[1:], call.args[1:], call)
            case "operator.attrgetter" | "operator.itemgetter":
                return Value(Kind.GETTER, " ".join(constant_key(node) for node in call.node.args))
        return None

    def _call_method(self, call: Call) -> Value:  # noqa: C901  # a table
        """What a method gives, by its name, on an object of whatever type."""
        base, first = call.base, call.first
        match call.name:
            case "get" | "pop" | "setdefault" | "__getitem__":
                return self._read_key(base, call.node.args, call.args, call)
            case "keys":
                return Value.many([Value.of(base.sources)])
            case "values":
                return Value.many([base.element()])
            case "items":
                return Value.many([Value.row([Value.of(base.sources), base.element()])])
            case "append" | "appendleft" | "add":
                self.give_away(call.node, first)
                return self.change(call.node.func, base.holding(EACH, first))
            case "extend" | "update":
                if call.name == "extend":
                    self.depend_on_order(call.node, first)
                return self.change(call.node.func, base.holding(EACH, first.element()))
            case "sort":
                self._order(call)
                return self.change(call.node.func, replace(base, kind=Kind.LIST))
            case "join":
                self.depend_on_order(call.node, first)
                return Value.of(base.sources | call.sources())
            case "session":
                return Value(Kind.SESSION)
            case "call" if base.kind is Kind.SESSION:
                return OUTCOME
        self.give_away(call.node, *call.everything)
        return Value.of(base.sources | (call.sources() if call.name in known.PURE_METHODS else frozenset()))

    def _order(self, call: Call) -> Value:
        """Sorting and selecting decide on each element, or on what the key makes of it."""
        key, item = call.keywords.get("key"), call.item()
        compared = item if key is None else self.apply(key, call)
        self.decide("RN103", call.node, compared.within(), "orders by")
        return item if call.name in _CHOOSING else Value.many([item])

    def _read_key(self, base: Value, nodes: list[ast.expr], values: list[Value], call: Call) -> Value:
        """A constant key reads a field."""
        key = constant_key(nodes[0]) if nodes else EACH
        if key != EACH:
            return Value.either([self.read(base, key, call.node), *values[1:]])
        if values and (base.kind is Kind.DICT or call.name == "builtins.getattr"):
            self.decide("RN104", call.node, values[0].sources, "looks something up by")
        return base.element()
