"""Calls: of functions of the same file, which are looked into; of Python's library; of methods, by their names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from reenact.lint import known
from reenact.lint.expressions import WHOLE_OUTCOMES, Expressions
from reenact.lint.scope import Passing
from reenact.lint.values import CONSTANT, EACH, OUTCOME, UNKNOWN, Code, Kind, Order, Source, Value, dotted

MAX_CALLS: Final = 3  # how many functions deep a call is looked into


@dataclass(slots=True)
class Call:
    """One call: whose, on which object, with what."""

    node: ast.Call
    name: str
    base: Value
    args: list[Value]
    keywords: dict[str, Value]

    @property
    def everything(self) -> list[Value]:
        return [*self.args, *self.keywords.values()]

    @property
    def first(self) -> Value:
        return self.args[0] if self.args else UNKNOWN

    def sources(self) -> frozenset[Source]:
        return frozenset(source for value in self.everything for source in value.within())


class Calls(Expressions):
    """Dispatches calls to code of the file, to the library, or to a method's name."""

    def run(self, body: list[ast.stmt]) -> bool:
        raise NotImplementedError

    def on_call(self, node: ast.Call) -> Value:
        if self.is_telling(node):
            with self.telling():
                self.made_from_all(node)
            return UNKNOWN
        func, name, base, callee = node.func, "", UNKNOWN, UNKNOWN
        if not isinstance(func, ast.Attribute):
            callee = self.look_up("id") if dotted(func) == "id" else self.evaluate(func)
        else:
            name, base = func.attr, self.evaluate(func.value)
            if base.kind is Kind.NAMED or name in base.parts or self.method(base, name) is not None:
                callee = self.without_chance(self.read(base, name, func), func)
        args = [self.evaluate(item) for item in node.args]
        keywords = {keyword.arg or "**": self.evaluate(keyword.value) for keyword in node.keywords}
        return self.call(callee, Call(node, callee.name or name, base, args, keywords))

    def is_telling(self, node: ast.Call) -> bool:
        """Whether the call only logs, prints or counts."""
        head, *path = dotted(node.func).split(".")
        if path and path[-1] in known.LOG_METHODS and known.LOG_RECEIVER.match([head, *path][-2]):
            return True
        if path and path[-1] in known.TELEMETRY_METHODS:
            return True
        return ".".join([self.look_up(head).name, *path]) in known.LOG_FUNCTIONS

    def call(self, callee: Value, call: Call) -> Value:
        if callee.code is not None:
            return self.call_function(callee.code, _given(callee, callee.code, call), call.node)
        if callee.kind is Kind.CLASS:  # a record has the fields that it was given
            self.give_away(*call.everything)
            fields = dict(zip(self.file.classes[callee.name].fields, call.args, strict=False))
            return replace(self.typed(ast.Name(callee.name)), parts={**fields, **call.keywords})
        if callee.kind is Kind.GETTER:
            paths = [path.split(".") for path in sorted(callee.texts)]
            return Value.either(
                reduce(lambda base, key: self.read(base, key, call.node), path, call.first) for path in paths
            )
        if callee.kind is Kind.NAMED:
            return self._call_named(call)
        if call.name in METHODS:
            return METHODS[call.name](self, call)
        self.give_away(*call.everything)
        arguments = call.sources() if not call.name or call.name in known.PURE_METHODS else frozenset()
        return Value.of(call.base.sources | callee.sources | arguments)

    def apply(self, function: Value, arguments: list[Value], node: ast.Call) -> Value:
        """Call a value that was handed over as a function: a key, a predicate, a callback."""
        return self.call(function, Call(node, function.name, UNKNOWN, arguments, {}))

    def _get(self, base: Value, path: list[str], node: ast.AST) -> Value:
        return reduce(lambda value, key: self.read(value, key, node), path, base)

    # functions of the file

    def on_lambda(self, node: ast.Lambda) -> Value:
        self.waiting[node] = code = Code(node, self.names)
        return Value(Kind.FUNCTION, code=code)

    def call_function(self, code: Code, given: dict[str, Value], node: ast.AST) -> Value:
        """What a function gives for these arguments, and what it decides with them; the rest is said in its turn."""
        if self.waiting.pop(code.node, None) is not None:  # a lambda that is called where it stands
            return self.enter(code, given)
        passed = frozenset(source for value in given.values() for source in value.within())
        declared = self.typed(getattr(code.node, "returns", None))
        if code.node in self.calling or len(self.calling) >= MAX_CALLS or self.steps_left < 0:
            return declared.plus(passed)
        outermost = self.passing
        self.passing = outermost or Passing(node, code.name, passed)
        self.calling.append(code.node)
        try:
            return self.enter(code, given).declared(declared)
        finally:
            self.passing = outermost
            self.calling.pop()

    def enter(self, code: Code, given: dict[str, Value]) -> Value:
        """Run a body with these values for its parameters; the others may be anything of their type."""
        outer = self.names, self.returned, self.waiting
        self.names, self.returned, self.waiting = code.names.new_child(), [], {}
        try:
            for index, parameter in enumerate(code.parameters()):
                of_owner = index == 0 and code.owner and "staticmethod" not in code.decorators
                start = self.typed(ast.Name(code.owner) if of_owner else parameter.annotation)
                self.bind(parameter.arg, given.get(parameter.arg, start).declared(start))
            body = code.node.body
            self.run([ast.copy_location(ast.Return(body), body)] if isinstance(body, ast.expr) else body)
            return Value.either(self.returned)
        finally:
            self.names, self.returned, self.waiting = outer

    # the library

    def _call_named(self, call: Call) -> Value:
        hazard = known.WITHOUT_ARGUMENT.get(call.name)
        if hazard is not None and len(call.everything) < hazard.needs:
            self.report(hazard.rule, call.node, f"{call.name} {hazard.what}")
        if call.name in LIBRARY:
            return LIBRARY[call.name](self, call)
        if call.name not in known.FORGET_ORDER:
            self.give_away(*call.everything)
        last = call.name.rsplit(".", 1)[-1]
        if last[:1].isupper() and call.name not in known.SCALARS:
            return replace(self.typed(ast.Name(last)), parts=call.keywords)
        return Value.of(call.sources())

    def ordering(self, call: Call) -> Value:
        """Sorting and selecting decide on each element, or on what the key makes of it."""
        key = call.keywords.get("key")
        values = call.args[1:] if call.name in ("heapq.nlargest", "heapq.nsmallest") else call.args
        item = values[0].element() if len(values) == 1 else Value.either(values)
        compared = item if key is None else self.apply(key, [item], call.node)
        self.decide("RN103", call.node, compared.within(), "orders by")
        if key is None and item.kind is Kind.OUTCOME:
            self.report("RN105", call.node, WHOLE_OUTCOMES)
        return item if call.name in ("builtins.min", "builtins.max") else Value.many([item])

    def filtering(self, call: Call) -> Value:
        values = call.args[-1] if call.args else UNKNOWN
        chosen = self.apply(call.first, [values.element()], call.node)
        self.decide("RN101", call.node, chosen.sources, "filters by", bare=True)
        return Value.many([values.element()], self.order_of(values, call.node))

    def sequence_of(self, call: Call) -> Value:
        orders = [order for value in call.args if (order := self.order_of(value, call.node)) is not None]
        items = [value.element() for value in call.args]
        if call.name == "builtins.map":
            items = [self.apply(call.first, items[1:], call.node)]
        elif call.name in ("builtins.zip", "builtins.enumerate"):
            places = items if call.name == "builtins.zip" else [CONSTANT, *items[:1]]
            items = [Value(Kind.LIST, parts={str(index): item for index, item in enumerate(places)})]
        return Value.many(items, orders[0] if orders else None)

    def set_of(self, call: Call) -> Value:
        return Value(Kind.SET, parts={EACH: call.first.element()})

    def same_fields(self, call: Call) -> Value:
        return replace(call.first, parts={**call.first.parts, **call.keywords})

    def get_attribute(self, call: Call) -> Value:
        return self.read_key(replace(call, base=call.first, args=call.args[1:]))

    def text(self, call: Call) -> Value:
        self.give_away(call.first)
        return Value.of(self.text_of(call.first, call.node))

    def structure(self, call: Call) -> Value:
        """A question about structure, not about content; to a helper, the length of a text is one."""
        measured = call.name == "builtins.len" and self.passing is None
        return Value.of(call.first.sources) if measured else CONSTANT

    def getter(self, call: Call) -> Value:
        return Value(Kind.GETTER, texts=frozenset().union(*(value.texts for value in call.args)))

    def deciding(self, call: Call) -> Value:
        """Calls that decide with what they are given, or with the object that they belong to."""
        rule, action = DECIDING.get(call.name, ("RN102", "compares"))
        sources = call.first.element().sources if action == "branches on" else call.base.sources | call.sources()
        self.decide(rule, call.node, sources, action, bare=action == "branches on")
        return CONSTANT

    def unordered(self, call: Call) -> Value:
        shown = call.name if "." in call.name else f"{call.name}()"
        rule, what = known.UNORDERED[call.name.rsplit(".", 1)[-1]]
        return Value(Kind.LIST, order=Order(rule, call.node, f"{shown} {what}"))

    def waiting_for(self, call: Call) -> Value:
        if call.keywords.get("return_when", UNKNOWN).name.endswith("FIRST_COMPLETED"):
            self.report("RN208", call.node, f"{call.name} goes on with whatever completes first")
        return UNKNOWN

    # methods of objects of whatever type

    def read_key(self, call: Call) -> Value:
        """`get`, `pop` and `setdefault` with a constant key read a field."""
        if call.first.texts:
            found = [self.read(call.base, text, call.node) for text in sorted(call.first.texts)]
            return Value.either([*found, *call.args[1:]])
        if call.base.kind is Kind.DICT or call.name == "builtins.getattr":
            self.decide("RN104", call.node, call.first.sources, "looks something up by")
        return call.base.element()

    def sort_in_place(self, call: Call) -> Value:
        self.ordering(replace(call, args=[call.base]))
        self.change(_receiver(call), replace(call.base, order=None))
        return CONSTANT

    def view(self, call: Call) -> Value:
        key, item = Value.of(call.base.sources), call.base.element()
        pair = Value(Kind.LIST, parts={"0": key, "1": item})
        return Value(Kind.VIEW, parts={EACH: {"keys": key, "values": item}.get(call.name, pair)})

    def grow(self, call: Call) -> Value:
        grown, many = call.base, call.name in ("extend", "update")
        for value in call.args:
            grown = grown.holding(EACH, value.element() if many else value)
            if call.name == "extend":
                grown = replace(grown, order=grown.order or self.order_of(value, call.node))
        self.change(_receiver(call), grown)
        return UNKNOWN

    def join_texts(self, call: Call) -> Value:
        self.consume(call.first, call.node, "joins")
        return Value.of(call.base.sources | call.sources())

    def session_call(self, call: Call) -> Value:
        """A runtime's `session` makes one; what a session's `call` gives is an outcome."""
        if call.name == "session":
            return Value(Kind.SESSION)
        return OUTCOME if call.base.kind is Kind.SESSION else Value.of(call.base.sources)


def _receiver(call: Call) -> ast.expr:
    return call.node.func.value if isinstance(call.node.func, ast.Attribute) else call.node.func


def _given(callee: Value, code: Code, call: Call) -> dict[str, Value]:
    """Which parameter gets which argument. What is passed or taken with stars is not followed."""
    bound = [call.base] if callee.name and "staticmethod" not in code.decorators else []
    positional = [one.arg for one in (*code.node.args.posonlyargs, *code.node.args.args)]
    starred = any(isinstance(item, ast.Starred) for item in call.node.args)
    given = zip(positional, bound if starred else [*bound, *call.args], strict=False)
    return {**dict(given), **call.keywords}


Handler = Callable[[Calls, Call], Value]


def _table(handlers: dict[Handler, str], prefix: str = "") -> dict[str, Handler]:
    return {
        name if "." in name else prefix + name: handler for handler, names in handlers.items() for name in names.split()
    }


DECIDING: Final = {
    "builtins.any": ("RN101", "branches on"),
    "builtins.all": ("RN101", "branches on"),
    "builtins.range": ("RN101", "loops as often as"),
}
LIBRARY: Final = _table(
    {
        Calls.ordering: "sorted min max heapq.nlargest heapq.nsmallest heapq.heappush heapq.heapify itertools.groupby",
        Calls.sequence_of: "list tuple iter reversed map zip enumerate itertools.chain itertools.islice",
        Calls.filtering: "filter itertools.filterfalse itertools.takewhile itertools.dropwhile",
        Calls.deciding: "any all range operator.eq operator.ne operator.lt operator.le operator.gt operator.ge",
        Calls.set_of: "set frozenset",
        Calls.same_fields: "dict vars copy.copy copy.deepcopy dataclasses.asdict dataclasses.replace",
        Calls.get_attribute: "getattr",
        Calls.text: "str repr format ascii",
        Calls.structure: "len isinstance issubclass hasattr callable type",
        Calls.getter: "operator.attrgetter operator.itemgetter",
        Calls.unordered: "os.listdir os.scandir glob.glob glob.iglob "
        "asyncio.as_completed concurrent.futures.as_completed",
        Calls.waiting_for: "asyncio.wait concurrent.futures.wait",
    },
    "builtins.",
)
METHODS: Final = _table(
    {
        Calls.read_key: "get pop setdefault __getitem__",
        Calls.view: "keys values items",
        Calls.grow: "append appendleft add insert extend update",
        Calls.deciding: "startswith endswith isdigit isalpha isalnum isspace isupper islower isnumeric isidentifier",
        Calls.join_texts: "join",
        Calls.unordered: "iterdir rglob glob imap_unordered",
        Calls.sort_in_place: "sort",
        Calls.session_call: "call session",
    }
)
