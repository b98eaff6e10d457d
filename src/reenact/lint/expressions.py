"""What expressions make of what is known about their parts, and where they decide on it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from reenact.lint import known
from reenact.lint.scope import FORBIDDEN, Scope, by_name, line_of
from reenact.lint.values import CONSTANT, EACH, ERROR_TEXT, MAX_PARTS, UNKNOWN, Kind, Source, Value

# What is not to decide on, by what it is read from. On a type that is no outcome, most names are common words.
_FORBIDDEN_IN: Final = {
    Kind.OUTCOME: FORBIDDEN | {"output"},
    Kind.UNKNOWN: FORBIDDEN,
    Kind.OTHER: frozenset({"latency_ms", "response_body", "llm_output"}),
    Kind.ERROR: frozenset({"message", "msg"}),
}
_INSIDE_OUTCOMES: Final = frozenset({"details", "observability", "metadata"})
_QUIET_METHODS: Final = frozenset({"__hash__", "__repr__", "__str__", "__deepcopy__"})
_SET_OPERATORS: Final = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)
_KEEP_NO_ORDER: Final[dict[type[ast.expr], Kind]] = {ast.SetComp: Kind.SET, ast.DictComp: Kind.DICT}
_EFFECTS: Final = (ast.Call, ast.Await)


class Expressions(Scope):
    """Evaluates expressions and assigns their values; calls are for a subclass."""

    def evaluate(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant():
                return CONSTANT
            case ast.Name():
                return self.without_chance(self.look_up(node.id), node)
            case ast.Attribute():
                return self.without_chance(self.read(self.evaluate(node.value), node.attr, node), node)
            case ast.Await() | ast.Starred():
                return self.evaluate(node.value)
            case ast.NamedExpr():
                value = self.evaluate(node.value)
                self.assign(node.target, value)
                return value
            case ast.IfExp():
                self.test(node.test)
                return Value.either([self.evaluate(node.body), self.evaluate(node.orelse)])
            case ast.Set():
                return replace(Value.many([self.evaluate(item) for item in node.elts]), kind=Kind.SET)
        handler: Callable[[Any], Value] = getattr(self, f"on_{type(node).__name__.lower()}", self.made_from_all)
        return handler(node)

    def made_from_all(self, node: ast.AST) -> Value:
        """What an expression without a rule of its own gives: something made from all of its parts."""
        sources: set[Source] = set()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                sources |= self.evaluate(child).sources
        return Value.of(sources)

    def test(self, node: ast.expr, action: str = "branches on") -> None:
        """Evaluate a condition: whatever it depends on decides which code runs."""
        if isinstance(node, ast.BoolOp):
            for operand in node.values:
                self.test(operand, action)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.test(node.operand, action)
        elif isinstance(node, ast.Compare):
            self.on_compare(node, "RN101", action)
        else:
            self.decide("RN101", node, self.evaluate(node).sources, action, bare=not isinstance(node, ast.Call))

    def on_compare(self, node: ast.Compare, rule: str = "RN102", action: str = "compares") -> Value:
        """A comparison decides on both sides; a look at whether something is there at all does not."""
        operands = [self.evaluate(operand) for operand in (node.left, *node.comparators)]
        for operator, (left, right) in zip(node.ops, pairwise(operands), strict=True):
            if isinstance(operator, ast.Is | ast.IsNot):
                continue
            other, sources = right, left.sources | right.sources
            if isinstance(operator, ast.In | ast.NotIn):
                if right.name == "os.environ":
                    self.report("RN209", node, "decides on the environment, which is no part of the plan")
                if right.kind not in (Kind.DICT, Kind.OWN, Kind.OTHER):  # of those, only the keys are looked at
                    sources |= right.within()
                other = right.part(EACH)
            elif left.kind is right.kind is Kind.LIST:
                sources = left.within() | right.within()
            self.decide(rule, node, sources, action)
            if left.kind is other.kind is Kind.OUTCOME:
                self.report("RN105", node, "compares whole outcomes, and so their timestamps, latencies and ids")
        return CONSTANT

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Value.many([value]))
        elif isinstance(target, ast.Tuple | ast.List):
            if len(target.elts) > 1:
                self.depend_on_order(target, value)
            for index, item in enumerate(target.elts):
                self.assign(item, value.part(str(index)))
        elif isinstance(target, ast.Attribute):
            self.evaluate(target.value)
            self.give_away(target, value)
        elif isinstance(target, ast.Subscript):
            self.evaluate(target.slice)
            self.change(target.value, self.evaluate(target.value).holding(constant_key(target.slice), value))

    def change(self, target: ast.expr, value: Value) -> Value:
        """What a name of this function stands for was changed in place, maybe by a method."""
        name = target.value if isinstance(target, ast.Attribute) else target
        if isinstance(name, ast.Name) and value.kind is not Kind.NAMED:
            self.names[name.id] = value.shallow()
        return UNKNOWN

    def without_chance(self, value: Value, node: ast.expr) -> Value:
        """A name of the library that brings in chance is reported where it stands, called or not."""
        hazard = known.hazard_of(value.name) if value.kind is Kind.NAMED else None
        if hazard is None or (hazard.rule == "RN201" and self.file.seeded):
            return value
        if not (hazard.rule in ("RN204", "RN205") and self.function in _QUIET_METHODS):
            self.report(hazard.rule, node, f"{value.name.removeprefix('builtins.')} {hazard.what}")
        return value

    def read(self, base: Value, key: str, node: ast.AST) -> Value:
        """What `base.key` or `base["key"]` gives."""
        if base.kind is Kind.NAMED:
            return Value(Kind.NAMED, f"{base.name}.{key}")
        if key in base.parts:
            return base.part(key)
        value = by_name(key, base.part(key))
        if base.kind is Kind.OTHER:
            value = value.declared(base)  # nor is what hangs on something that is no outcome
        if base.kind is Kind.OUTCOME and key in _INSIDE_OUTCOMES:
            value = replace(value, kind=Kind.OUTCOME)
        if key == "choices":  # of a chat completion: their `message` is not an outcome's
            value = replace(value, parts={EACH: Value(Kind.OTHER)})
        if base.sources or key not in _FORBIDDEN_IN.get(base.kind, ()):
            return value
        name = ERROR_TEXT if base.kind is Kind.ERROR else key
        # An agent's own program may decide on what its tools return; whether this is one, nobody can see here.
        sure = base.kind in (Kind.OUTCOME, Kind.ERROR) and key != "output"
        return value.plus(self.new_source(name, node, sure=sure))

    def new_source(self, name: str, node: ast.AST, *, sure: bool = True) -> frozenset[Source]:
        return frozenset({Source(line_of(node), name, sure)})

    def on_subscript(self, node: ast.Subscript) -> Value:
        base, index, key = self.evaluate(node.value), self.evaluate(node.slice), constant_key(node.slice)
        if base.name == "os.environ":
            self.report("RN209", node, "reads the environment, which is no part of the plan")
        self.depend_on_order(node, base)
        if key != EACH:
            return self.read(base, key, node)
        self.decide("RN104", node, index.within(), "looks something up by")
        return Value.many([base.element()]).plus(base.sources) if isinstance(node.slice, ast.Slice) else base.element()

    def on_list(self, node: ast.List | ast.Tuple) -> Value:
        values = [self.evaluate(item) for item in node.elts]
        self.give_away(node, *values)
        pairs = [(value, isinstance(item, ast.Starred)) for item, value in zip(node.elts, values, strict=True)]
        stars = [value for value, starred in pairs if starred]
        if not stars and len(values) <= MAX_PARTS:
            return Value.row(values)
        return Value.sequence([value.element() if starred else value for value, starred in pairs], stars)

    on_tuple = on_list

    def on_dict(self, node: ast.Dict) -> Value:
        result = Value(Kind.DICT)
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.evaluate(item)
            self.give_away(item, value)
            if key is None:  # a spread dict brings its parts, and what it may have besides
                kind = value.kind if value.kind in (Kind.UNKNOWN, Kind.OUTCOME) else result.kind
                result = replace(result, kind=kind, parts={**result.parts, **value.parts}).plus(value.sources)
                continue
            self.evaluate(key)
            result = result.holding(constant_key(key), value)
        return result

    def on_formattedvalue(self, node: ast.FormattedValue) -> Value:
        specification = UNKNOWN if node.format_spec is None else self.evaluate(node.format_spec)
        return Value.of(self.text_of(self.evaluate(node.value), node.value) | specification.sources)

    def text_of(self, value: Value, node: ast.AST) -> frozenset[Source]:
        """The sources of a value written as text; the text of an error is one of the things not to decide on."""
        return value.within() | (self.new_source(ERROR_TEXT, node) if value.kind is Kind.ERROR else frozenset())

    def on_binop(self, node: ast.BinOp) -> Value:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        if isinstance(node.op, _SET_OPERATORS) and Kind.SET in (left.kind, right.kind):
            return Value(Kind.SET, parts={EACH: Value.either([left.element(), right.element()])})
        if isinstance(node.op, ast.Mod):
            return Value.of(left.sources | self.text_of(right, node.right))
        if Kind.LIST in (left.kind, right.kind):
            self.give_away(node, left, right)
            return Value.many([left.element(), right.element()])
        kind = left.kind if left.kind in (Kind.CONSTANT, Kind.OTHER) else Kind.UNKNOWN
        return Value(kind).plus(left.sources | right.sources)

    def on_boolop(self, node: ast.BoolOp) -> Value:
        """`a or b` with a plain `b` fills a gap, and the result is as forbidden as `a`; all else chooses."""
        values = [self.evaluate(operand) for operand in node.values]
        for operand, value, following in zip(node.values, values, node.values[1:], strict=False):
            if isinstance(node.op, ast.And) or isinstance(following, _EFFECTS):
                self.decide("RN101", operand, value.sources, "branches on", bare=True)
        return Value.either(values)

    def on_listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        origins = []
        with self.branch():
            for generator in node.generators:
                origins.append(self.evaluate(generator.iter))
                self.assign(generator.target, origins[-1].element())
                for condition in generator.ifs:
                    self.test(condition, "filters by")
            *_, inside = [self.evaluate(result) for result in results]
        kind = _KEEP_NO_ORDER.get(type(node))
        return Value.sequence([inside], origins) if kind is None else Value(kind, parts={EACH: inside})

    on_setcomp = on_generatorexp = on_dictcomp = on_listcomp


def constant_key(node: ast.expr) -> str:
    """The name or number that a key is, when it stands there."""
    return str(node.value) if isinstance(node, ast.Constant) and type(node.value) in (str, int) else EACH
