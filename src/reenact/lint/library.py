"""Calling Python's library and other code outside the analysis: what comes back, and what it decides with."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from reenact.lint import known
from reenact.lint.abstract import (
    BLANK,
    ERROR_TEXT,
    LENGTH,
    OUTCOME,
    UNKNOWN,
    Kind,
    Param,
    Value,
    deep_labels,
    element,
    join_all,
    labelled,
    limit,
    step_into,
)
from reenact.lint.fields import FORBIDDEN
from reenact.lint.invoke import Arguments, Invocations
from reenact.lint.order import new_order

_TEXTS: Final = frozenset({"builtins.str", "builtins.repr", "builtins.format", "builtins.ascii"})
_COMPARING: Final = frozenset(f"operator.{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge", "contains", "is_"))
_GETTERS: Final = frozenset({"operator.attrgetter", "operator.itemgetter"})
_FILTERS: Final = frozenset({"builtins.filter", "itertools.filterfalse", "itertools.takewhile", "itertools.dropwhile"})
_FIRST_OF: Final = frozenset({"functools.cmp_to_key", "functools.partial", "asyncio.run", "asyncio.create_task"})


class Library(Invocations):
    """One method for each group of names; a table says which name belongs to which."""

    def call_named(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        hazard = known.WITHOUT_ARGUMENT.get(name)
        if hazard is not None and len(arguments.everything()) < hazard.needs:
            self.report(hazard.rule, node, f"{name} {hazard.what}")
        handler = HANDLERS.get(name)
        if handler is not None:
            return handler(self, name, arguments, node)
        if name.startswith("os.environ."):
            return self._environment(name, node)
        last = name.rsplit(".", 1)[-1]
        if last[:1].isupper() and name not in known.SCALARS:
            return self._made(name, last, arguments)
        return labelled(arguments.labels()) if name in known.FORGET_ORDER else self.call_unknown(arguments)

    def call_unknown(self, arguments: Arguments) -> Value:
        """A function that nobody knows gives back something made from its arguments, in their order."""
        for value in arguments.everything():
            self.consume_sequence(value)
        return labelled(arguments.labels())

    def _made(self, name: str, last: str, arguments: Arguments) -> Value:
        """An object of a class outside: it has the fields that it was given by name."""
        for value in arguments.everything():
            self.consume_sequence(value)
        inside = join_all(arguments.positional) if arguments.positional else None
        if known.OUTCOME_TYPE.match(last):
            members = {key: value for key, value in arguments.keywords.items() if key not in FORBIDDEN}
            return replace(OUTCOME, members=members)
        if known.MAYBE_OUTCOME_TYPE.match(last):
            return Value(members=arguments.keywords, inside=inside)
        return Value(kind=Kind.MADE, name=name, members=arguments.keywords, inside=inside)

    def _environment(self, name: str, node: ast.Call) -> Value:
        if name.rsplit(".", 1)[-1] in ("get", "pop", "setdefault", "__getitem__", "__contains__"):
            self.report("RN209", node, "reads the environment, which is no part of the plan")
        return UNKNOWN

    # one method for each group of names

    def structural(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        return BLANK

    def ordering(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """Sorting and selecting decide on each element, or on what the key makes of it."""
        key = arguments.keywords.get("key")
        values = arguments.positional
        if name == "itertools.groupby" and len(values) > 1:
            key, values = values[1], values[:1]
        items = [element(value) for value in values] if len(values) == 1 else values
        if name in ("heapq.nlargest", "heapq.nsmallest") and len(values) > 1:
            items = [element(values[1])]
        for item in items:
            compared = item if key is None else self.apply(key, [item], node)
            self.decide("RN103", node, deep_labels(compared), "orders by", whole=True)
            if key is None and item.kind is Kind.OUTCOME and name != "itertools.groupby":
                self.report("RN105", node, "compares whole outcomes, and so their timestamps, latencies and ids")
        if name in known.KEEP_ORDER or name not in known.FORGET_ORDER:
            for value in values:
                self.consume(value, node, "takes the order of")
        if name in ("builtins.min", "builtins.max"):
            return join_all(items)
        return Value(kind=Kind.LIST, inside=join_all(items)) if items else UNKNOWN

    def short_circuit(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        self.decide("RN101", node, element(arguments.first()).labels, "branches on", bare=True)
        return BLANK

    def filtering(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        if len(arguments.positional) < 2:
            return UNKNOWN
        function, values = arguments.positional[:2]
        item = element(values)
        chosen = item if function.kind is Kind.BLANK else self.apply(function, [item], node)
        self.decide("RN101", node, chosen.labels, "filters by", bare=True)
        return Value(labels=values.labels, kind=Kind.LIST, inside=item, order=self.sequence_order(values, node))

    def mapping(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        if not arguments.positional:
            return UNKNOWN
        function, *values = arguments.positional
        inside = self.apply(function, [element(value) for value in values], node)
        orders = [order for value in values if (order := self.sequence_order(value, node)) is not None]
        return Value(kind=Kind.LIST, inside=inside, order=orders[0] if orders else None)

    def sequence_of(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        first = arguments.first()
        orders = [order for value in arguments.positional if (order := self.sequence_order(value, node)) is not None]
        order = orders[0] if orders else None
        if name in ("builtins.list", "builtins.tuple", "builtins.iter", "collections.deque") and arguments.positional:
            members = first.members if first.kind is Kind.LIST else {}
            inside = first.inside if members else element(first)
            return Value(labels=first.labels, kind=Kind.LIST, members=members, inside=inside, order=order)
        items = [element(value) for value in arguments.positional]
        if name == "builtins.enumerate":
            items = [Value(kind=Kind.LIST, members={"0": BLANK, "1": join_all(items[:1])})]
        elif name == "builtins.zip":
            items = [Value(kind=Kind.LIST, members={str(index): item for index, item in enumerate(items)})]
        elif name == "itertools.chain.from_iterable":
            items = [element(item) for item in items]
        return Value(kind=Kind.LIST, inside=join_all(items), order=order)

    def set_of(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        first = arguments.first()
        return Value(labels=first.labels, kind=Kind.SET, inside=element(first))

    def dict_from_keys(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        first = arguments.first()
        return Value(kind=Kind.DICT, inside=UNKNOWN, order=self.sequence_order(first, node))

    def dict_of(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        first = arguments.first()
        inside = first.inside
        if first.kind is Kind.LIST and inside is not None and inside.member("1") is not None:
            inside = inside.member("1")
        members = {**({} if first.kind is Kind.LIST else first.members), **arguments.keywords}
        kind = Kind.DICT if first.kind in (Kind.UNKNOWN, Kind.LIST) and not first.labels else first.kind
        closed = not arguments.positional and arguments.rest is None
        return Value(
            first.labels, kind, members=members, inside=None if closed else inside or UNKNOWN, order=first.order
        )

    def same_fields(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        first = arguments.first()
        changed = arguments.keywords if name.endswith(".replace") else {}
        allowed = {key: value for key, value in changed.items() if key not in FORBIDDEN}
        return replace(first, members={**first.members, **allowed}) if allowed else first

    def cast(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """`cast(T, value)` and `convert(value, T)`: the value with the fields that it had, known as a T."""
        typed, given = (0, 1) if name == "typing.cast" else (1, 0)
        value = arguments.positional[given] if len(arguments.positional) > given else UNKNOWN
        declared = self.from_annotation(node.args[typed] if len(node.args) > typed else None)
        if declared.kind is Kind.UNKNOWN:
            return value
        record = declared.kind in (Kind.OUTCOME, Kind.INSTANCE)
        members = {key: member for key, member in value.members.items() if not record or key not in FORBIDDEN}
        labels = frozenset(label for label in value.labels if not record or isinstance(label, Param))
        return replace(value, kind=declared.kind, name=declared.name, members=members, labels=labels)

    def get_attribute(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        if len(arguments.positional) < 2:
            return UNKNOWN
        base, key, *default = arguments.positional
        if key.texts:
            return join_all([*(self.read_member(base, text, node) for text in sorted(key.texts)), *default])
        self.decide("RN104", node, key.labels, "looks something up by")
        return element(base)

    def text_of(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        first = arguments.first()
        self.consume_sequence(first)
        return Value(labels=limit(self.text_labels(first, node)), kind=Kind.TEXT, texts=first.texts)

    def length(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        return labelled(step_into(arguments.first().labels, LENGTH))

    def summing(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        return labelled(arguments.labels())

    def counting(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        self.decide("RN101", node, arguments.labels(), "loops as often as")
        return BLANK

    def comparing(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        self.decide("RN102", node, arguments.labels(), "compares", whole=True)
        return BLANK

    def next_of(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        first = arguments.first()
        self.consume(first, node, "takes the first of")
        return join_all([element(first), *arguments.positional[1:]])

    def getter(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        texts = frozenset(text for value in arguments.positional for text in value.texts)
        return Value(kind=Kind.GETTER, texts=texts)

    def first_argument(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        first, rest = arguments.first(), arguments.positional[1:]
        if rest and name == "functools.partial":
            self.apply(first, rest, node)
        return first

    def reducing(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        if len(arguments.positional) < 2:
            return UNKNOWN
        function, values = arguments.positional[:2]
        self.consume(values, node, "reduces")
        item = element(values)
        return self.apply(function, [item, item], node)

    def listing(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        return Value(kind=Kind.LIST, order=new_order("RN207", node, f"{name} {known.LISTINGS[name]}"))

    def walking(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        return Value(kind=Kind.LIST, name="walk", order=new_order("RN207", node, f"{name} lists folders"))

    def completing(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        return Value(kind=Kind.LIST, order=new_order("RN208", node, f"{name} gives results as they come"))

    def waiting(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        when = arguments.keywords.get("return_when", UNKNOWN)
        if when.name.endswith("FIRST_COMPLETED") or "FIRST_COMPLETED" in when.texts:
            self.report("RN208", node, f"{name} goes on with whatever completes first")
        done = Value(kind=Kind.SET)
        return Value(kind=Kind.LIST, members={"0": done, "1": done})

    def gathering(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        return Value(kind=Kind.LIST, inside=join_all(arguments.everything()))

    def error_text(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        return Value(labels=self.new_source(ERROR_TEXT, node, definite=True), kind=Kind.TEXT)

    def super_object(self, name: str, arguments: Arguments, node: ast.Call) -> Value:  # noqa: ARG002  # handlers share a signature
        owner = next((function.owner for function in reversed(self.functions) if function.owner is not None), None)
        if owner is None or not owner.bases:
            return Value(kind=Kind.OTHER)
        return Value(kind=Kind.INSTANCE, name=owner.bases[0].key)


Handler = Callable[[Library, str, Arguments, ast.Call], Value]
HANDLERS: Final[dict[str, Handler]] = {
    **dict.fromkeys(known.KEEP_ORDER, Library.sequence_of),
    **dict.fromkeys(known.STRUCTURAL, Library.structural),
    **dict.fromkeys(known.ORDERING, Library.ordering),
    **dict.fromkeys(known.SHORT_CIRCUIT, Library.short_circuit),
    **dict.fromkeys(_FILTERS, Library.filtering),
    **dict.fromkeys(known.SAME_FIELDS, Library.same_fields),
    **dict.fromkeys(known.CASTS, Library.cast),
    **dict.fromkeys(_TEXTS, Library.text_of),
    **dict.fromkeys(_COMPARING, Library.comparing),
    **dict.fromkeys(_GETTERS, Library.getter),
    **dict.fromkeys(_FIRST_OF, Library.first_argument),
    **dict.fromkeys(known.LISTINGS, Library.listing),
    **dict.fromkeys(known.WALKS, Library.walking),
    **dict.fromkeys(known.COMPLETIONS, Library.completing),
    "builtins.map": Library.mapping,
    "itertools.starmap": Library.mapping,
    "builtins.set": Library.set_of,
    "builtins.frozenset": Library.set_of,
    "builtins.dict": Library.dict_of,
    "builtins.dict.fromkeys": Library.dict_from_keys,
    "builtins.getattr": Library.get_attribute,
    "builtins.len": Library.length,
    "builtins.sum": Library.summing,
    "math.fsum": Library.summing,
    "builtins.range": Library.counting,
    "builtins.next": Library.next_of,
    "functools.reduce": Library.reducing,
    "asyncio.wait": Library.waiting,
    "concurrent.futures.wait": Library.waiting,
    "asyncio.gather": Library.gathering,
    "traceback.format_exc": Library.error_text,
    "builtins.super": Library.super_object,
}
