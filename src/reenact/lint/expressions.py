"""What each kind of expression does with what is known about its parts, and where it decides on them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, cast

from msgspec.structs import replace

from reenact.lint import known
from reenact.lint.abstract import (
    BLANK,
    ERROR_TEXT,
    UNKNOWN,
    Kind,
    Label,
    Order,
    Value,
    deep_labels,
    element,
    join,
    join_all,
    labelled,
    limit,
    text,
)
from reenact.lint.fields import Fields
from reenact.lint.frame import TooMuch
from reenact.lint.order import Ordering

_SET_OPERATORS: Final = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)
_EMPTY: Final = (ast.List, ast.Tuple, ast.Dict, ast.Set)
_QUIET_METHODS: Final = frozenset({"__hash__", "__repr__", "__str__", "__deepcopy__"})
_LONGEST: Final = 64  # texts that may be a field's name, and literals that are followed item by item


class Expressions(Fields, Ordering):
    """Evaluates expressions; calls are for a subclass."""

    def evaluate(self, node: ast.expr) -> Value:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise TooMuch
        handler = EVALUATORS.get(type(node))
        return UNKNOWN if handler is None else handler(self, node)

    def evaluate_call(self, node: ast.Call) -> Value:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value) -> None:
        raise NotImplementedError

    def make_closure(self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
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
            self.decide("RN101", node, self.evaluate(node).labels, action, bare=not isinstance(node, ast.Call))

    def compare(self, node: ast.Compare, rule: str = "RN102", action: str = "compares") -> Value:
        """A comparison decides on both sides; a look at whether something is there at all does not."""
        operands = [node.left, *node.comparators]
        self.tells_apart(*operands)
        values = [self.evaluate(operand) for operand in operands]
        for index, operator in enumerate(node.ops):
            left, right = values[index], values[index + 1]
            if isinstance(operator, ast.Is | ast.IsNot) and _asks_identity(operands[index], operands[index + 1]):
                continue
            if isinstance(operator, ast.In | ast.NotIn):
                self._membership_in_environment(right, node)
                self.decide(rule, node, left.labels, action)
                self.decide(rule, node, _contents(right), action, whole=True)
            else:
                whole = not (_is_scalar(operands[index]) or _is_scalar(operands[index + 1]))
                labels = deep_labels(left) | deep_labels(right) if whole else left.labels | right.labels
                self._compares_sequences(operator, left, right, whole=whole)
                self.decide(rule, node, labels, action, whole=whole)
            if _whole_outcomes(operator, left, right):
                self.report("RN105", node, "compares whole outcomes, and so their timestamps, latencies and ids")
        return BLANK

    def _membership_in_environment(self, right: Value, node: ast.Compare) -> None:
        if right.kind is Kind.NAMED and right.name == "os.environ":
            self.report("RN209", node, "decides on the environment, which is no part of the plan")

    def _compares_sequences(self, operator: ast.cmpop, left: Value, right: Value, *, whole: bool) -> None:
        if isinstance(operator, ast.Eq | ast.NotEq) and whole:
            self.consume_sequence(left)
            self.consume_sequence(right)

    def tells_apart(self, *nodes: ast.expr) -> None:
        """An address that is only compared, kept or looked up in this process decides nothing beyond it."""
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "id":
                self.identities.add(node.func)

    # names, attributes, items

    def name(self, node: ast.Name) -> Value:
        value = self.look_up(node.id)
        self.check_hazard(value, node)
        return value

    def attribute(self, node: ast.Attribute) -> Value:
        value = self.read_member(self.evaluate(node.value), node.attr, node)
        self.check_hazard(value, node)
        return value

    def check_hazard(self, value: Value, node: ast.expr) -> None:
        """A name of the library that brings in chance is reported where it stands, called or not."""
        if value.kind is not Kind.NAMED:
            return
        hazard = known.ALWAYS.get(value.name)
        if hazard is None or (hazard.rule == "RN201" and self.module.name in self.engine.seeded):
            return
        if hazard.rule in ("RN204", "RN205") and self.functions and self.functions[-1].name in _QUIET_METHODS:
            return
        if hazard.rule == "RN205" and node in self.identities:
            return
        shown = value.name.removeprefix("builtins.")
        self.report(hazard.rule, node, f"{shown} {hazard.what}")

    def subscript(self, node: ast.Subscript) -> Value:
        base = self.evaluate(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._slice(base, node, node.slice)
        self.tells_apart(node.slice)
        index = self.evaluate(node.slice)
        if base.kind is Kind.NAMED and base.name == "os.environ":
            self.report("RN209", node, "reads the environment, which is no part of the plan")
        self.consume(base, node, "takes an item of")
        keys = _constant_keys(node.slice) or sorted(index.texts)
        if keys:
            return join_all(self.read_member(base, key, node) for key in keys)
        if isinstance(node.ctx, ast.Load):
            self.decide("RN104", node, deep_labels(index), "looks something up by")
        return element(base)

    def _slice(self, base: Value, node: ast.Subscript, bounds: ast.Slice) -> Value:
        for bound in (bounds.lower, bounds.upper, bounds.step):
            if bound is not None:
                self.decide("RN104", node, self.evaluate(bound).labels, "takes a part by")
        self.consume(base, node, "takes a part of")
        inside = element(base) if base.members or base.inside is not None else None
        return replace(base, members={}, inside=inside, order=None, same=None)

    # literals

    def constant(self, node: ast.Constant) -> Value:
        return text(node.value) if isinstance(node.value, str) and len(node.value) <= _LONGEST else BLANK

    def sequence(self, node: ast.List | ast.Tuple) -> Value:
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return self._sequence_with_stars(node)
        values = [self.evaluate(item) for item in node.elts]
        if len(values) > _LONGEST:
            return Value(kind=Kind.LIST, inside=join_all(values))
        return Value(kind=Kind.LIST, members={str(index): value for index, value in enumerate(values)})

    def _sequence_with_stars(self, node: ast.List | ast.Tuple) -> Value:
        inside: list[Value] = []
        order: Order | None = None
        for item in node.elts:
            value = self.evaluate(item)
            if isinstance(item, ast.Starred):
                order = order or self.sequence_order(value, item)
                value = element(value)
            inside.append(value)
        return Value(kind=Kind.LIST, inside=join_all(inside), order=order)

    def set_literal(self, node: ast.Set) -> Value:
        self.tells_apart(*node.elts)
        return Value(kind=Kind.SET, inside=join_all(self.evaluate(item) for item in node.elts))

    def dict_literal(self, node: ast.Dict) -> Value:
        members: dict[str, Value] = {}
        inside: Value | None = None
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.evaluate(item)
            if key is None:
                members.update(value.members)
                inside = join(inside or UNKNOWN, element(value) if value.inside is not None else UNKNOWN)
                continue
            self.tells_apart(key)
            names = _constant_keys(key) or sorted(self.evaluate(key).texts)
            if len(names) == 1 and len(members) < _LONGEST:
                members[names[0]] = value
            else:
                inside = value if inside is None else join(inside, value)
        return Value(kind=Kind.DICT, members=members, inside=inside)

    def formatted(self, node: ast.JoinedStr) -> Value:
        parts = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        labels: set[Label] = set()
        for part in parts:
            value = self.evaluate(part.value)
            labels |= self.text_labels(value, part.value)
            if isinstance(part.format_spec, ast.JoinedStr):
                labels |= self.formatted(part.format_spec).labels
        return Value(labels=limit(frozenset(labels)), kind=Kind.TEXT)

    def text_labels(self, value: Value, node: ast.expr) -> frozenset[Label]:
        """The labels of a value written as text; the text of an error is one of the things not to decide on."""
        labels = deep_labels(value)
        return labels | self.new_source(ERROR_TEXT, node, definite=True) if value.kind is Kind.ERROR else labels

    # operators

    def binary(self, node: ast.BinOp) -> Value:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        sets = {Kind.SET, Kind.VIEW} & {left.kind, right.kind}
        if isinstance(node.op, _SET_OPERATORS) and sets:
            return Value(kind=Kind.SET, inside=join(element(left), element(right)))
        if isinstance(node.op, ast.Mod) and left.kind is Kind.TEXT:
            return Value(labels=limit(left.labels | self.text_labels(right, node.right)), kind=Kind.TEXT)
        labels = limit(left.labels | right.labels)
        if Kind.LIST in (left.kind, right.kind):
            inside = join(element(left), element(right))
            return Value(labels=labels, kind=Kind.LIST, inside=inside, order=left.order or right.order)
        if left.kind is Kind.MADE:
            return replace(left, labels=labels, same=None)
        same = left.kind if left.kind is right.kind and left.kind in (Kind.TEXT, Kind.BLANK) else Kind.UNKNOWN
        return Value(labels=labels, kind=same) if labels or same is not Kind.UNKNOWN else UNKNOWN

    def unary(self, node: ast.UnaryOp) -> Value:
        return labelled(self.evaluate(node.operand).labels)

    def boolean(self, node: ast.BoolOp) -> Value:
        """`a or b` with a plain `b` fills a gap, and the result is as forbidden as `a`; all else chooses."""
        values = []
        for index, operand in enumerate(node.values):
            value = self.evaluate(operand)
            values.append(value)
            rest = node.values[index + 1 :]
            fills = isinstance(node.op, ast.Or) and not any(_has_effect(other) for other in rest)
            if rest and not fills:
                self.decide("RN101", operand, value.labels, "branches on", bare=True)
        return join_all(values)

    def conditional(self, node: ast.IfExp) -> Value:
        self.test(node.test)
        return join(self.evaluate(node.body), self.evaluate(node.orelse))

    def walrus(self, node: ast.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        self.assign(node.target, value)
        return value

    # the rest

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        with self.branch() as env:
            order: Order | None = None
            labels: frozenset[Label] = frozenset()
            for generator in node.generators:
                values = self.evaluate(generator.iter)
                order = order or self.sequence_order(values, generator.iter)
                labels |= values.labels
                self.assign(generator.target, element(values))
                for condition in generator.ifs:
                    self.test(condition, "filters by")
            if isinstance(node, ast.DictComp):
                self.tells_apart(node.key)
                self.evaluate(node.key)
                inside = self.evaluate(node.value)
            else:
                self.tells_apart(*([node.elt] if isinstance(node, ast.SetComp) else []))
                inside = self.evaluate(node.elt)
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr) and inner.target.id in env.names:
                self.bind(inner.target.id, env.names[inner.target.id])
        kind = {ast.SetComp: Kind.SET, ast.DictComp: Kind.DICT}.get(type(node), Kind.LIST)
        kept = None if kind is Kind.SET else order
        return Value(labels=limit(labels), kind=kind, inside=inside, order=kept)

    def awaited(self, node: ast.Await | ast.Starred) -> Value:
        return self.evaluate(node.value)

    def yielded(self, node: ast.Yield | ast.YieldFrom) -> Value:
        value = UNKNOWN if node.value is None else self.evaluate(node.value)
        self.consume(value, node, "yields from")
        if self.returned:
            inside = element(value) if isinstance(node, ast.YieldFrom) else value
            self.returned[-1].append(Value(kind=Kind.LIST, inside=inside))
        return UNKNOWN

    def lambda_expression(self, node: ast.Lambda) -> Value:
        return self.make_closure(node)

    def slice_expression(self, node: ast.Slice) -> Value:
        parts = [self.evaluate(part) for part in (node.lower, node.upper, node.step) if part is not None]
        return labelled(label for part in parts for label in part.labels)


def _asks_identity(*nodes: ast.expr) -> bool:
    """`is None` asks whether something is there, `a is b` whether two are one object; `is True` asks what it says."""
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return not constants or None in constants


def _is_scalar(node: ast.expr) -> bool:
    """A constant or an empty literal: compared with it, what stands in a collection plays no part."""
    return isinstance(node, ast.Constant) or (
        isinstance(node, _EMPTY) and not getattr(node, "elts", getattr(node, "keys", None))
    )


def _has_effect(node: ast.expr) -> bool:
    effects = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    return any(isinstance(inner, effects) for inner in ast.walk(node))


def _contents(value: Value) -> frozenset[Label]:
    """What `x in value` looks at: the keys of a dict, the elements of anything else."""
    return value.labels if value.kind in (Kind.DICT, Kind.VIEW, Kind.INSTANCE) else deep_labels(value)


def _whole_outcomes(operator: ast.cmpop, left: Value, right: Value) -> bool:
    if left.kind is not Kind.OUTCOME and left.kind is not Kind.PART:
        return False
    if isinstance(operator, ast.In | ast.NotIn):
        return right.inside is not None and right.inside.kind is left.kind
    return right.kind is left.kind and isinstance(operator, ast.Eq | ast.NotEq | ast.Lt | ast.Gt | ast.LtE | ast.GtE)


def _constant_keys(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int) and not isinstance(node.value, bool):
        return [str(node.value)]
    return []


Evaluator = Callable[[Expressions, Any], Value]
EVALUATORS: Final[dict[type[ast.expr], Evaluator]] = {
    ast.Name: Expressions.name,
    ast.Attribute: Expressions.attribute,
    ast.Subscript: Expressions.subscript,
    ast.Constant: Expressions.constant,
    ast.List: Expressions.sequence,
    ast.Tuple: Expressions.sequence,
    ast.Set: Expressions.set_literal,
    ast.Dict: Expressions.dict_literal,
    ast.JoinedStr: Expressions.formatted,
    ast.BinOp: Expressions.binary,
    ast.UnaryOp: Expressions.unary,
    ast.BoolOp: Expressions.boolean,
    ast.Compare: Expressions.compare,
    ast.IfExp: Expressions.conditional,
    ast.NamedExpr: Expressions.walrus,
    ast.ListComp: Expressions.comprehension,
    ast.SetComp: Expressions.comprehension,
    ast.GeneratorExp: Expressions.comprehension,
    ast.DictComp: Expressions.comprehension,
    ast.Await: Expressions.awaited,
    ast.Starred: Expressions.awaited,
    ast.Yield: Expressions.yielded,
    ast.YieldFrom: Expressions.yielded,
    ast.Lambda: Expressions.lambda_expression,
    ast.Slice: Expressions.slice_expression,
    ast.Call: lambda frame, node: frame.evaluate_call(cast("ast.Call", node)),
}
