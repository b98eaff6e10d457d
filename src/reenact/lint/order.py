"""Orders that may differ between two runs: of sets, of directory listings, of what completes first."""

from __future__ import annotations

import ast
from typing import Final

from reenact.lint.abstract import MAX_DEPTH, Kind, Order, Value
from reenact.lint.frame import Frame, line_of

_WHY: Final = {
    "RN206": "the order of a set changes with the hash seed of the process",
    "RN207": "the file system decides the order",
    "RN208": "the order is that in which they happen to complete",
}
_COMMUTING_METHODS: Final = frozenset({"add", "discard", "remove", "update", "difference_update"})
_COMMUTING_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Add, ast.Mult, ast.Sub)


class Ordering(Frame):
    """An order is reported where it begins to matter; sorting in between forgets it."""

    def consume(self, value: Value, node: ast.AST, what: str) -> None:
        """The order of `value` matters here."""
        if value.kind is Kind.SET:
            self.report("RN206", node, f"{what} a set: {_WHY['RN206']}")
        elif value.order is not None and value.kind is not Kind.DICT:
            self.consume_order(value.order)

    def consume_sequence(self, value: Value, depth: int = 0) -> None:
        """`value` goes where nothing is known, and its order with it. A set stays a set there."""
        if value.order is not None and value.kind is not Kind.DICT:
            self.consume_order(value.order)
        if depth < MAX_DEPTH:
            for part in [*value.members.values(), *([] if value.inside is None else [value.inside])]:
                self.consume_sequence(part, depth + 1)

    def consume_order(self, order: Order) -> None:
        self.report(order.rule, order, f"{order.what}: {_WHY[order.rule]}")

    def sequence_order(self, value: Value, node: ast.AST) -> Order | None:
        """The order that a sequence made from `value` inherits."""
        if value.kind is Kind.SET:
            return new_order("RN206", node, "makes a sequence from a set")
        return value.order

    def loop_over(self, value: Value, node: ast.For | ast.AsyncFor) -> None:
        """A loop is fine with any order when it does nothing but what commutes."""
        if not commutes(node.body):
            self.consume(value, node.iter, "loops over")
            if value.kind is Kind.DICT and value.order is not None:
                self.consume_order(value.order)


def new_order(rule: str, node: ast.AST, what: str) -> Order:
    column = int(getattr(node, "col_offset", 0)) + 1
    return Order(rule, line_of(node), column, getattr(node, "end_lineno", None) or line_of(node), what)


def commutes(body: list[ast.stmt]) -> bool:
    """Whether running the body for each element gives the same in any order."""
    return all(_statement_commutes(node) for node in body) and len(_constant_returns(body)) <= 1


def _statement_commutes(node: ast.stmt) -> bool:
    if isinstance(node, ast.Pass | ast.Continue):
        return True
    if isinstance(node, ast.Return):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.If):
        return all(_statement_commutes(inner) for inner in [*node.body, *node.orelse])
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, _COMMUTING_OPERATORS) and not isinstance(
            node.value, ast.List | ast.Tuple | ast.JoinedStr | ast.ListComp
        )
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Subscript) for target in node.targets)
    return isinstance(node, ast.Expr) and _call_commutes(node.value)


def _call_commutes(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COMMUTING_METHODS


def _constant_returns(body: list[ast.stmt]) -> set[str]:
    return {
        ast.dump(node.value)
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Return) and node.value is not None
    }
