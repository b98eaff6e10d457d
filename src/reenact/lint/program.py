"""The analysed code as modules, classes and functions, with their imports resolved to each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reenact.contracts.stability import FORBIDDEN_FIELDS
from reenact.lint.abstract import Param, Value
from reenact.lint.files import SourceFile, read_source
from reenact.lint.findings import Unreadable

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

# How far the imports of a checked file are followed, so that one file can be checked alone with its helpers known.
MAX_IMPORT_DEPTH: Final = 3
MAX_HELPER_MODULES: Final = 300
MAX_HELPER_CHARACTERS: Final = 1_500_000
MAX_LINEAGE: Final = 40
BESIDE: Final = ""  # a script may import the scripts that lie beside it

_FORBIDDEN_NAMES: Final = frozenset(row.field.rsplit(".", 1)[-1] for row in FORBIDDEN_FIELDS)


@dataclass(frozen=True, slots=True)
class Sink:
    """What a function decides with a parameter: the rule, the words for it, where, and on how much of it."""

    rule: str
    action: str
    file: str
    line: int
    whole: bool = False
    bare: bool = False


@dataclass(slots=True)
class Summary:
    """What a caller must know: what comes back, and what is decided with the arguments."""

    returns: Value | None = None
    sinks: dict[Param, Sink] = field(default_factory=dict)
    attributes: dict[str, Value] = field(default_factory=dict)  # what a method stores on its object


@dataclass(eq=False, slots=True)
class Function:
    """A function or lambda. `key` is unique in the program."""

    key: str
    name: str
    node: FunctionNode | ast.Lambda
    module: Module
    owner: Class | None = None
    summary: Summary = field(default_factory=Summary)

    @property
    def is_static(self) -> bool:
        return "staticmethod" in decorators(self.node)

    @property
    def is_property(self) -> bool:
        return any(name in ("property", "cached_property") for name in decorators(self.node))

    def parameters(self) -> list[ast.arg]:
        """All parameters in the order in which arguments meet them; keyword-only ones follow."""
        arguments = self.node.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


@dataclass(eq=False, slots=True)
class Class:
    """A class; `fields` are the annotated names of its body, in order."""

    key: str
    node: ast.ClassDef
    module: Module
    fields: dict[str, ast.expr] = field(default_factory=dict)
    methods: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, Value] = field(default_factory=dict)  # what any code in the program stores under a name
    mixed: set[str] = field(default_factory=set)  # names under which objects hold different things
    bases: list[Class] = field(default_factory=list)

    @property
    def looks_like_outcome(self) -> bool:
        names = set(self.all_fields())
        return {"code", "status"} <= names and bool(names & _FORBIDDEN_NAMES)

    def lineage(self) -> Iterator[Class]:
        """The class and its bases within the program, nearest first."""
        seen: list[Class] = []
        pending = [self]
        while pending and len(seen) < MAX_LINEAGE:
            current = pending.pop(0)
            if current not in seen:
                seen.append(current)
                pending.extend(current.bases)
        return iter(seen)

    def all_fields(self) -> dict[str, ast.expr]:
        merged: dict[str, ast.expr] = {}
        for one in reversed(list(self.lineage())):
            merged.update(one.fields)
        return merged

    def method(self, name: str) -> Function | None:
        return next((one.methods[name] for one in self.lineage() if name in one.methods), None)


@dataclass(eq=False, slots=True)
class Module:
    """A module: its tree, what its top level defines, and whether its findings are wanted."""

    name: str
    source: SourceFile
    tree: ast.Module
    wanted: bool
    is_package: bool
    values: dict[str, Value] = field(default_factory=dict)  # its global names
    assigned: dict[str, Value] = field(default_factory=dict)  # what functions make of them
    functions: list[Function] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)

    @property
    def shown(self) -> str:
        return self.source.shown

    def absolute(self, level: int, name: str | None) -> str:
        """The absolute name that a relative import means here."""
        if level == 0:
            return name or ""
        parts = self.name.split(".")
        base = parts[: len(parts) - level + (1 if self.is_package else 0)]
        return ".".join([*base, *([name] if name else [])])


@dataclass(slots=True)
class Program:
    """All modules, by name; functions and classes by key."""

    modules: dict[str, Module] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)

    def add(self, source: SourceFile, *, wanted: bool) -> Module:
        assert source.tree is not None
        name = self._free_name(module_name(source.path)[1])
        module = Module(name, source, source.tree, wanted, source.path.name == "__init__.py")
        self.modules[name] = module
        for function, owner in _definitions(module):
            if owner is not None and owner.key not in self.classes:
                self.classes[owner.key] = owner
                module.classes.append(owner)
            if function is not None:
                self.functions[function.key] = function
                module.functions.append(function)
        return module

    def _free_name(self, name: str) -> str:
        """Two unrelated scripts may have one name; each is analysed, the first answers to imports."""
        free, number = name, 1
        while free in self.modules:
            number += 1
            free = f"{name}#{number}"
        return free


def load(sources: Iterable[SourceFile]) -> Program:
    """The program made of these files, and of the modules of their own packages that they import."""
    program = Program()
    roots: dict[tuple[Path, str], None] = {}  # where imports start, and the package that may be followed there
    for source in sources:
        if source.tree is not None:
            program.add(source, wanted=True)
            root, name = module_name(source.path)
            package = name.split(".")[0]
            roots[root, package if "." in name or source.path.name == "__init__.py" else BESIDE] = None
    _follow_imports(program, list(roots))
    for one in program.classes.values():
        one.bases = [base for name in one.node.bases if (base := _find_class(program, one.module, dotted(name)))]
    return program


def module_name(path: Path) -> tuple[Path, str]:
    """The folder that imports start from, and the dotted name of the file seen from there."""
    path = path.resolve()
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts) or path.parent.name


def _follow_imports(program: Program, roots: list[tuple[Path, str]]) -> None:
    pending = list(program.modules.values())
    helpers = characters = 0
    for _ in range(MAX_IMPORT_DEPTH):
        wanted = dict.fromkeys(name for module in pending for name in _imported_names(module))
        pending = []
        for name in wanted:
            path = None if name in program.modules else _find_module(name, roots)
            if path is None or helpers >= MAX_HELPER_MODULES or characters >= MAX_HELPER_CHARACTERS:
                continue
            source = read_source(path, path.as_posix())
            if isinstance(source, Unreadable) or source.tree is None:
                continue
            helpers += 1
            characters += len(source.text)
            pending.append(program.add(source, wanted=False))


def _imported_names(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.absolute(node.level, node.module)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def _find_module(name: str, roots: list[tuple[Path, str]]) -> Path | None:
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    for root, package in roots:
        stem = root.joinpath(*parts)
        if package == BESIDE:
            candidates = [stem.with_suffix(".py")] if len(parts) == 1 else []
        else:
            candidates = [stem.with_suffix(".py"), stem / "__init__.py"] if parts[0] == package else []
        for candidate in candidates:
            if candidate.is_file():
                return candidate
    return None


def _definitions(module: Module) -> Iterator[tuple[Function | None, Class | None]]:
    """The functions and methods of a module's top level and of its classes; nested ones belong to their function."""
    pending: list[tuple[list[ast.stmt], Class | None, str]] = [(module.tree.body, None, module.name)]
    while pending:
        body, owner, prefix = pending.pop(0)
        for node in _statements(body):
            if isinstance(node, FunctionNode):
                function = Function(f"{prefix}.{node.name}@{node.lineno}", node.name, node, module, owner)
                if owner is not None and "setter" not in " ".join(decorators(node)):
                    owner.methods[node.name] = function
                yield function, owner
            elif isinstance(node, ast.ClassDef):
                made = new_class(f"{prefix}.{node.name}", node, module)
                yield None, made
                pending.append((node.body, made, made.key))


def new_class(key: str, node: ast.ClassDef, module: Module) -> Class:
    fields = {
        inner.target.id: inner.annotation
        for inner in node.body
        if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)
    }
    return Class(key, node, module, fields)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, also those under `if`, `try` and `with`, where definitions may stand."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _statements(getattr(node, name, []))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _statements(handler.body)


def _find_class(program: Program, module: Module, name: str) -> Class | None:
    if not name:
        return None
    own = program.classes.get(f"{module.name}.{name}")
    if own is not None:
        return own
    head, _, rest = name.partition(".")
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == head:
                    base = module.absolute(node.level, node.module)
                    return program.classes.get(".".join([base, alias.name, *([rest] if rest else [])]))
    return None


def decorators(node: ast.AST) -> list[str]:
    """The dotted names of a definition's decorators."""
    found = getattr(node, "decorator_list", [])
    return [dotted(item.func if isinstance(item, ast.Call) else item) for item in found]


def dotted(node: ast.AST) -> str:
    """`a.b.c` for a chain of names, else nothing. `List[int]` counts as `List`."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Name):
            return ".".join([node.id, *parts])
        else:
            return ""
