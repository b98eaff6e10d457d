"""What expressions make of what is known about their parts, and where they decide on it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from reenact.lint import known
from reenact.lint.scope import FORBIDDEN, Scope, by_name, line_of
from reenact.lint.values import CONSTANT, EACH, ERROR_TEXT, MAX_PARTS, OUTCOME, UNKNOWN, Code, Kind, Source, Value

# Names that mean a forbidden field on an object of whatever type; the others are common words.
_TELLING: Final = frozenset({"latency_ms", "response_body", "llm_output"})
_INSIDE_OUTCOMES: Final = frozenset({"details", "observability", "metadata"})
_QUIET_METHODS: Final = frozenset({"__hash__", "__repr__", "__str__", "__deepcopy__"})
_SET_OPERATORS: Final = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)
_EFFECTS: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_LONGEST_NAME: Final = 64
WHOLE_OUTCOMES: Final = "compares whole outcomes, and so their timestamps, latencies and ids"


class Expressions(Scope):
    """Evaluates expressions and assigns their values; calls are for a subclass."""

    def evaluate(self, node: ast.expr) -> Value:
        self.steps_left -= 1
        handler: Callable[[Any], Value] = getattr(self, f"on_{type(node).__name__.lower()}", self.made_from_all)
        return handler(node)

    def made_from_all(self, node: ast.AST) -> Value:
        """What an expression without a rule of its own gives: something made from all of its parts."""
        sources: set[Source] = set()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                sources |= self.evaluate(child).sources
        return Value.of(sources)

    def call_function(self, code: Code, given: dict[str, Value], node: ast.AST) -> Value:
        raise NotImplementedError

    # decisions

    def test(self, node: ast.expr, action: str = "branches on") -> None:
        """Evaluate a condition: whatever it depends on decides which code runs."""
        if isinstance(node, ast.BoolOp):
            for operand in node.values:
                self.test(operand, action)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.test(node.operand, action)
        elif isinstance(node, ast.Compare):
            self.compare(node, "RN101", action)
        else:
            self.decide("RN101", node, self.evaluate(node).sources, action, bare=not isinstance(node, ast.Call))

    def compare(self, node: ast.Compare, rule: str = "RN102", action: str = "compares") -> Value:
        """A comparison decides on both sides; a look at whether something is there at all does not."""
        operands = [(operand, self.evaluate(operand)) for operand in (node.left, *node.comparators)]
        for operator, ((left_node, left), (right_node, right)) in zip(node.ops, pairwise(operands), strict=True):
            if isinstance(operator, ast.Is | ast.IsNot) and _asks_identity(left_node, right_node):
                continue
            if isinstance(operator, ast.In | ast.NotIn):
                if right.name == "os.environ":
                    self.report("RN209", node, "decides on the environment, which is no part of the plan")
                keys_only = right.kind in (Kind.DICT, Kind.VIEW, Kind.OTHER)
                sources = left.sources | (right.sources if keys_only else right.within())
            elif _is_scalar(left_node) or _is_scalar(right_node):
                sources = left.sources | right.sources
            else:
                sources = left.within() | right.within()
                self.give_away(left, right)
            self.decide(rule, node, sources, action)
            other = right.parts.get(EACH, UNKNOWN) if isinstance(operator, ast.In | ast.NotIn) else right
            if left.kind is other.kind is Kind.OUTCOME and not isinstance(operator, ast.Is | ast.IsNot):
                self.report("RN105", node, WHOLE_OUTCOMES)
        return CONSTANT

    on_compare = compare

    # assignment

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Value.many([value]))
        elif isinstance(target, ast.Tuple | ast.List):
            if len(target.elts) > 1:
                self.consume(value, target, "unpacks")
            starred = any(isinstance(item, ast.Starred) for item in target.elts)
            for index, item in enumerate(target.elts):
                self.assign(item, value.element() if starred and index else value.part(str(index)))
        elif isinstance(target, ast.Attribute):
            self.give_away(value)
            self.change(target.value, self.evaluate(target.value).holding(target.attr, value))
        elif isinstance(target, ast.Subscript):
            keys = constant_keys(target.slice, self.evaluate(target.slice))
            key = keys[0] if len(keys) == 1 else EACH
            self.change(target.value, self.evaluate(target.value).holding(key, value))

    def change(self, target: ast.expr, value: Value) -> None:
        """What a name of this function, or an attribute of one, stands for was changed in place."""
        if isinstance(target, ast.Name) and value.kind is not Kind.NAMED:
            self.names[target.id] = value.shallow()
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            self.change(target.value, self.evaluate(target.value).holding(target.attr, value))

    # names, attributes, items

    def on_name(self, node: ast.Name) -> Value:
        return self.without_chance(self.look_up(node.id), node)

    def on_attribute(self, node: ast.Attribute) -> Value:
        return self.without_chance(self.read(self.evaluate(node.value), node.attr, node), node)

    def without_chance(self, value: Value, node: ast.expr) -> Value:
        """A name of the library that brings in chance is reported where it stands, called or not."""
        hazard = known.ALWAYS.get(value.name) if value.kind is Kind.NAMED else None
        if hazard is None or (hazard.rule == "RN201" and self.file.seeded):
            return value
        if not (hazard.rule in ("RN204", "RN205") and self.code is not None and self.code.name in _QUIET_METHODS):
            self.report(hazard.rule, node, f"{value.name.removeprefix('builtins.')} {hazard.what}")
        return value

    def read(self, base: Value, key: str, node: ast.AST) -> Value:
        """What `base.key` or `base["key"]` gives."""
        if base.kind is Kind.NAMED:
            return Value(Kind.NAMED, f"{base.name}.{key}")
        if key in base.parts:
            return base.part(key)
        method = self.method(base, key)
        if method is not None:
            return self._read_method(method, base, node)
        value = by_name(key, base.part(key))
        if base.kind is Kind.OTHER and base.name not in self.file.classes:
            value = value.declared(base)  # nor is what hangs on something that is no outcome
        if base.kind is Kind.OUTCOME:
            value = _inside_outcome(key, value)
        if key == "choices":  # of a chat completion: their `message` is not an outcome's
            value = replace(value, parts={EACH: Value(Kind.OTHER)})
        if self._is_forbidden(base, key):
            return value.plus(self.new_source(key, node, sure=base.kind is Kind.OUTCOME))
        if base.kind is Kind.ERROR and key in ("message", "msg"):
            return value.plus(self.new_source(ERROR_TEXT, node))
        return value

    def _read_method(self, method: Code, base: Value, node: ast.AST) -> Value:
        if {"property", "cached_property"} & method.decorators:
            return self.call_function(method, {method.parameters()[0].arg: base} if method.parameters() else {}, node)
        return Value(Kind.FUNCTION, base.name, code=method)

    def _is_forbidden(self, base: Value, key: str) -> bool:
        if key not in FORBIDDEN or base.sources:
            return False
        if base.kind is Kind.OTHER:
            owner = self.file.classes.get(base.name)
            return key in _TELLING and (owner is None or key in owner.fields)
        return base.kind in (Kind.OUTCOME, Kind.UNKNOWN)

    def new_source(self, name: str, node: ast.AST, *, sure: bool = True) -> frozenset[Source]:
        return frozenset({Source(line_of(node), name, sure)})

    def on_subscript(self, node: ast.Subscript) -> Value:
        base = self.evaluate(node.value)
        if isinstance(node.slice, ast.Slice):
            self.decide("RN104", node, self.evaluate(node.slice).sources, "takes a part by")
            self.consume(base, node, "takes a part of")
            return replace(base, parts={EACH: base.element()} if base.parts else {}, order=None)
        index = self.evaluate(node.slice)
        if base.name == "os.environ":
            self.report("RN209", node, "reads the environment, which is no part of the plan")
        self.consume(base, node, "takes an item of")
        keys = constant_keys(node.slice, index)
        if not keys:
            self.decide("RN104", node, index.within(), "looks something up by")
            return base.element()
        return Value.either([self.read(base, key, node) for key in keys])

    # literals

    def on_constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, str) and len(node.value) <= _LONGEST_NAME:
            return replace(CONSTANT, texts=frozenset({node.value}))
        return CONSTANT

    def on_list(self, node: ast.List | ast.Tuple) -> Value:
        values = [self.evaluate(item) for item in node.elts]
        stars = {index for index, item in enumerate(node.elts) if isinstance(item, ast.Starred)}
        if not stars and len(values) <= MAX_PARTS:
            return Value(Kind.LIST, parts={str(index): value for index, value in enumerate(values)})
        orders = [order for index in sorted(stars) if (order := self.order_of(values[index], node.elts[index]))]
        items = [value.element() if index in stars else value for index, value in enumerate(values)]
        return Value.many(items, orders[0] if orders else None)

    on_tuple = on_list

    def on_set(self, node: ast.Set) -> Value:
        return replace(Value.many([self.evaluate(item) for item in node.elts]), kind=Kind.SET)

    def on_dict(self, node: ast.Dict) -> Value:
        result = Value(Kind.DICT)
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.evaluate(item)
            if key is None:  # a spread dict brings its parts, and what it may have besides
                kind = value.kind if value.kind in (Kind.UNKNOWN, Kind.OUTCOME) else result.kind
                result = replace(result, kind=kind, parts={**result.parts, **value.parts}).plus(value.sources)
                continue
            keys = constant_keys(key, self.evaluate(key))
            result = result.holding(keys[0] if len(keys) == 1 else EACH, value)
        return result

    def on_formattedvalue(self, node: ast.FormattedValue) -> Value:
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "id":
            self.evaluate(node.value.func)  # elsewhere, to call it only tells objects apart
        specification = UNKNOWN if node.format_spec is None else self.evaluate(node.format_spec)
        return Value.of(self.text_of(self.evaluate(node.value), node.value) | specification.sources)

    def text_of(self, value: Value, node: ast.AST) -> frozenset[Source]:
        """The sources of a value written as text; the text of an error is one of the things not to decide on."""
        return value.within() | (self.new_source(ERROR_TEXT, node) if value.kind is Kind.ERROR else frozenset())

    # operators

    def on_binop(self, node: ast.BinOp) -> Value:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        if isinstance(node.op, _SET_OPERATORS) and {Kind.SET, Kind.VIEW} & {left.kind, right.kind}:
            return Value(Kind.SET, parts={EACH: Value.either([left.element(), right.element()])})
        if isinstance(node.op, ast.Mod):
            return Value.of(left.sources | self.text_of(right, node.right))
        if Kind.LIST in (left.kind, right.kind):
            return Value.many([left.element(), right.element()], left.order or right.order)
        kind = left.kind if left.kind in (Kind.CONSTANT, Kind.OTHER) else Kind.UNKNOWN
        return Value(kind).plus(left.sources | right.sources)

    def on_boolop(self, node: ast.BoolOp) -> Value:
        """`a or b` with a plain `b` fills a gap, and the result is as forbidden as `a`; all else chooses."""
        values = [self.evaluate(operand) for operand in node.values]
        chooses = isinstance(node.op, ast.And)
        for index in range(len(values) - 2, -1, -1):
            chooses = chooses or any(isinstance(inner, _EFFECTS) for inner in ast.walk(node.values[index + 1]))
            if chooses:
                self.decide("RN101", node.values[index], values[index].sources, "branches on", bare=True)
        return Value.either(values)

    def on_ifexp(self, node: ast.IfExp) -> Value:
        self.test(node.test)
        return Value.either([self.evaluate(node.body), self.evaluate(node.orelse)])

    def on_namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        self.assign(node.target, value)
        return value

    def on_listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        order = None
        with self.branch() as names:
            for generator in node.generators:
                values = self.evaluate(generator.iter)
                order = order or self.order_of(values, generator.iter)
                self.assign(generator.target, self.element_of(values))
                for condition in generator.ifs:
                    self.test(condition, "filters by")
            if isinstance(node, ast.DictComp):
                self.evaluate(node.key)
            inside = self.evaluate(node.value if isinstance(node, ast.DictComp) else node.elt)
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr) and inner.target.id in names:
                self.bind(inner.target.id, names[inner.target.id])
        kind = {ast.SetComp: Kind.SET, ast.DictComp: Kind.DICT}.get(type(node), Kind.LIST)
        return Value(kind, parts={EACH: inside}, order=order if kind is Kind.LIST else None)

    on_setcomp = on_generatorexp = on_dictcomp = on_listcomp

    def element_of(self, value: Value) -> Value:
        """Some element; a function that goes through the characters of a text that it is given decides nothing."""
        return UNKNOWN if self.passing is not None and not value.parts else value.element()

    def on_await(self, node: ast.Await | ast.Starred) -> Value:
        return self.evaluate(node.value)

    on_starred = on_await

    def on_yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        value = UNKNOWN if node.value is None else self.evaluate(node.value)
        self.consume(value, node, "yields from")
        self.returned.append(value if isinstance(node, ast.YieldFrom) else Value.many([value]))
        return UNKNOWN

    on_yieldfrom = on_yield


def constant_keys(node: ast.expr, value: Value) -> list[str]:
    """The names or numbers that a key may be."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [str(node.value)]
    return sorted(value.texts)


def _inside_outcome(key: str, value: Value) -> Value:
    """The shape of an outcome: objects inside it, and its list of side effects."""
    if key == "side_effects":
        return Value.many([OUTCOME])
    return replace(value, kind=Kind.OUTCOME) if key in _INSIDE_OUTCOMES else value


def _asks_identity(*nodes: ast.expr) -> bool:
    """`is None` asks whether something is there, `a is b` whether two are one object; `is True` asks what it says."""
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return not constants or None in constants


def _is_scalar(node: ast.expr) -> bool:
    """A constant or an empty literal: compared with it, what stands in a collection plays no part."""
    return isinstance(node, ast.Constant) or getattr(node, "elts", getattr(node, "keys", None)) == []
