"""Every check of the verifier taken away, one at a time: then some kind of tampering must pass.

A *site* is a place in `reenact.verify` that makes a problem: a call of `Problem("CODE", …)`, or one pair that
`first_difference("CODE", …)` compares. The sources are compiled anew with a switch at each of them, so that what is off
is as if it were not written. Install before anything of `reenact.verify` is imported.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any, NamedTuple

PACKAGE = "reenact.verify"


class Site(NamedTuple):
    module: str
    line: int
    code: str
    what: str = ""
    """Of a pair: what is compared."""

    def __str__(self) -> str:
        return f"{self.module.removeprefix(PACKAGE + '.')}:{self.line} {self.code} {self.what}".strip()


class Switches:
    """Which sites there are, which of them fired, and which one is off."""

    def __init__(self) -> None:
        self.places: set[tuple[str, int]] = set()
        """Where in the source something is told."""
        self.known: set[Site] = set()
        self.fired: list[Site] = []
        self.off: Site | None = None
        self.code_off: str | None = None

    def is_off(self, site: Site) -> bool:
        return site == self.off or site.code == self.code_off

    def problem(self, module: str, line: int, made: Any) -> Any:
        """In the place of `Problem(…)`, once it is made."""
        site = Site(module, line, made.code)
        self.known.add(site)
        if self.is_off(site):
            return None
        self.fired.append(site)
        return made

    def pairs(self, module: str, line: int, code: str, given: Iterable[tuple[str, Any, Any]]) -> Iterator[Any]:
        """In the place of the pairs of `first_difference`."""
        for what, expected, got in given:
            site = Site(module, line, code, what)
            self.known.add(site)
            if self.is_off(site):
                continue
            if expected != got:
                self.fired.append(site)
            yield what, expected, got


SWITCHES = Switches()


class Rewriting(ast.NodeTransformer):
    def __init__(self, module: str) -> None:
        self.module = module

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        place: list[ast.expr] = [ast.Constant(self.module), ast.Constant(node.lineno)]
        if name in ("Problem", "first_difference") and node.args and self.module != f"{PACKAGE}.report":
            SWITCHES.places.add((self.module, node.lineno))
        if name == "Problem" and node.args and self.module != f"{PACKAGE}.report":
            return self._switch("problem", [*place, node], node)
        if name == "first_difference" and self.module != f"{PACKAGE}.report":
            node.args[1] = self._switch("pairs", [*place, node.args[0], node.args[1]], node.args[1])
        return node

    @staticmethod
    def _switch(name: str, arguments: list[ast.expr], at: ast.expr) -> ast.Call:
        switch = ast.Attribute(ast.Name("SWITCHES", ast.Load()), name, ast.Load())
        return ast.copy_location(ast.fix_missing_locations(ast.copy_location(ast.Call(switch, arguments, []), at)), at)


class Loader(SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # type: ignore[override]
        tree = Rewriting(self.name).visit(ast.parse(data, str(path)))
        return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True, optimize=_optimize)

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["SWITCHES"] = SWITCHES
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(f"{PACKAGE}."):
            return None
        for finder in sys.meta_path:
            if isinstance(finder, Finder) or not hasattr(finder, "find_spec"):
                continue
            found = finder.find_spec(name, path, target)
            if found is not None and found.origin is not None and isinstance(found.loader, SourceFileLoader):
                return importlib.util.spec_from_file_location(
                    name,
                    found.origin,
                    loader=Loader(name, found.origin),
                    submodule_search_locations=found.submodule_search_locations,
                )
        return None


def install() -> None:
    assert not any(name.startswith(f"{PACKAGE}.") for name in sys.modules), "the verifier was imported before"
    sys.meta_path.insert(0, Finder())
