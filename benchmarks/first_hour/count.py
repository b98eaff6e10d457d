"""Counts what a newcomer writes and meets in a program: its lines of code, and the library's names in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = ("reenact", "dbos", "langgraph")


def source_of(library: str) -> str:
    return (HERE / f"with_{library}.py").read_text(encoding="utf-8")


def lines(source: str) -> int:
    """Lines of code: without blank ones, comments and the docstring."""
    tree = ast.parse(source)
    first = tree.body[0]
    docstring = range(0)
    if ast.get_docstring(tree) is not None:
        docstring = range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return sum(
        number not in docstring and bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(source.splitlines(), start=1)
    )


def concepts(source: str, library: str) -> list[str]:
    """The library's names that the program uses, each once: what it imports, attributes and methods of what comes of
    that, keyword arguments, and keys of the dictionaries that it hands over."""
    reader = Reader(library)
    for node in in_order(ast.parse(source)):
        reader.read(node)
    return list(dict.fromkeys(reader.met))


def in_order(tree: ast.AST) -> Iterator[ast.AST]:
    """As the program is read: a name is bound before it is used."""
    for node in ast.iter_child_nodes(tree):
        yield node
        yield from in_order(node)


@dataclass
class Reader:
    library: str
    met: list[str] = field(default_factory=list)
    of_library: set[str] = field(default_factory=set)
    """Names in the program that stand for something that came from the library."""
    dictionaries: dict[str, ast.Dict] = field(default_factory=dict)

    def read(self, node: ast.AST) -> None:
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == self.library:
                self.met += [alias.name for alias in node.names]
                self.of_library |= {alias.asname or alias.name for alias in node.names}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as value):
                self.dictionaries[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if self.is_of_library(value):
                self.of_library.add(name)
            case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)) if self.is_of_library(value):
                self.of_library.add(name)
            case ast.FunctionDef(name=name) if any(map(self.is_of_library, node.decorator_list)):
                self.of_library.add(name)
            case ast.Attribute(value=value, attr=name) if self.is_of_library(value):
                self.met.append(name)
            case ast.Call(func=function) if self.is_of_library(function):
                self.met += [word.arg for word in node.keywords if word.arg is not None]
                for given in [*node.args, *(word.value for word in node.keywords)]:
                    self.met += self.keys(given)

    def is_of_library(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self.of_library
            case ast.Attribute(value=inner) | ast.Call(func=inner):
                return self.is_of_library(inner)
        return False

    def keys(self, given: ast.expr) -> list[str]:
        """Of a dictionary that is handed over, and of those inside it."""
        if isinstance(given, ast.Name):
            given = self.dictionaries.get(given.id, given)
        inside = [part for part in ast.walk(given) if isinstance(part, ast.Dict)] if isinstance(given, ast.Dict) else []
        return [str(key.value) for part in inside for key in part.keys if isinstance(key, ast.Constant)]
