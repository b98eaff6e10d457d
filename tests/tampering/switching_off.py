"""Every check of the verifier taken away, one at a time: then some kind of tampering must pass.

A *site* is a place in `reenact.verify` that makes a problem: a call of `Problem("CODE", …)`, or one pair that
`first_difference("CODE", …)` compares. The sources are compiled anew with a switch at each of them, so that what is off
is as if it were not written. Install before anything of `reenact.verify` is imported.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

PACKAGE = "reenact.verify"
FIT = "reenact.verify.lines"
TELL_FOR_MANY = {(f"{PACKAGE}.signed.keys", "_broken"), (f"{PACKAGE}.log.anchoring", "_add")}
UNKNOWN_KEY = re.compile(r"contains unknown field `(\w+)`(?: - at `([$.\w]+)`)?\Z")
OTHER_VERSION = re.compile(r"Invalid enum value '(reenact\.[a-z_]+\.v\d+)' - at `([$.\w]+)\.schema`\Z")


class Site(NamedTuple):
    module: str
    line: int
    code: str
    what: str = ""
    """Of a pair: what is compared."""

    @property
    def reads(self) -> bool:
        """Whether what it tells is that something could not be read."""
        return self.module.removeprefix(f"{PACKAGE}.") in ("lines", "journal", "folder", "files.packed")

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
        self.teller: tuple[str, int] | None = None

    def is_off(self, site: Site) -> bool:
        return site == self.off or site.code == self.code_off

    def problem(self, module: str, line: int, made: Any) -> Any:
        """In the place of `Problem(…)`, once it is made."""
        site = Site(*(self.teller or (module, line)), made.code)
        self.known.add(site)
        if self.is_off(site):
            return None
        self.fired.append(site)
        return made

    def told(self, module: str, line: int, tell: Any, *given: Any) -> None:
        """In the place of a call that tells for many: each caller is a place of its own."""
        self.teller = (module, line)
        try:
            tell(*given)
        finally:
            self.teller = None

    def converted(self, code: str, value: Any, kind: Any, *, strict: bool) -> Any:
        """In the place of `msgspec.convert` in `lines.fit`, whose code is `code`: without its check what has too many
        keys, or another version, is read as far as it is known."""
        for off in (code, "EVIDENCE_VERSION_UNKNOWN"):
            if self.code_off == off or (self.off is not None and self.off[::2] == (FIT, off)):
                return as_far_as_known(value, kind)
        return msgspec.convert(value, kind, strict=strict)

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


def as_far_as_known(value: Any, kind: Any) -> Any:
    """`value` as a `kind`, without the keys that it may not have and in the version that is known."""
    value = deepcopy(value)
    while True:
        try:
            return msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError as error:
            unknown = UNKNOWN_KEY.search(str(error))
            if unknown is not None:
                del at_path(value, unknown[2] or "$")[unknown[1]]
            elif not_known := OTHER_VERSION.search(str(error)):
                at_path(value, not_known[2]).update(schema=not_known[1].rpartition(".v")[0] + ".v1")
            else:
                raise


def at_path(value: Any, path: str) -> Any:
    for key in path.split(".")[1:]:
        value = value[key]
    return value


class Rewriting(ast.NodeTransformer):
    def __init__(self, module: str) -> None:
        self.module = module

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        places = set(SWITCHES.places)
        self.generic_visit(node)
        if (self.module, node.name) in TELL_FOR_MANY:
            SWITCHES.places = places
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        place: list[ast.expr] = [ast.Constant(self.module), ast.Constant(node.lineno)]
        if name in ("Problem", "first_difference") and node.args and self.module != f"{PACKAGE}.report":
            SWITCHES.places.add((self.module, node.lineno))
        if name == "Problem" and node.args and self.module != f"{PACKAGE}.report":
            return self._switch("problem", [*place, node], node)
        if isinstance(node.func, ast.Attribute) and (self.module, node.func.attr) in TELL_FOR_MANY:
            SWITCHES.places.add((self.module, node.lineno))
            told = ast.Attribute(ast.Name("SWITCHES", ast.Load()), "told", ast.Load())
            call = ast.Call(told, [*place, node.func, *node.args], node.keywords)
            return ast.copy_location(ast.fix_missing_locations(ast.copy_location(call, node)), node)
        if self.module == FIT and isinstance(node.func, ast.Attribute) and node.func.attr == "convert":
            node.args.insert(0, ast.Name("code", ast.Load()))
            node.func = ast.Attribute(ast.Name("SWITCHES", ast.Load()), "converted", ast.Load())
            return ast.fix_missing_locations(node)
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
