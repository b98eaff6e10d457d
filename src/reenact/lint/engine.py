"""Runs the analysis until nothing new is learned: which unit depends on what, and what each unit found."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from reenact.lint.abstract import (
    UNKNOWN,
    Kind,
    Param,
    Value,
    deep_labels,
    join,
    map_labels,
    only_sources,
    trimmed,
    without_error_text,
)
from reenact.lint.findings import Finding
from reenact.lint.program import Class, Function, Module, Program, Sink

MAX_RUNS: Final = 6  # of one unit; the values that it reads stop growing long before
MAX_SINKS: Final = 40


@dataclass(frozen=True, slots=True)
class Unit:
    """What is analysed in one go: a module's top level (`function` is None), a function or a method."""

    key: str
    module: Module
    function: Function | None = None
    size: int = 0  # how many nodes its tree has


@dataclass(slots=True)
class Engine:
    """The state that units share. Units are analysed again when something that they read has changed."""

    program: Program
    functions: dict[str, Function] = field(default_factory=dict)  # with nested ones and lambdas
    findings: dict[str, dict[Finding, None]] = field(default_factory=dict)
    seeded: set[str] = field(default_factory=set)  # names of modules that seed a library's own generator
    _readers: dict[str, dict[str, None]] = field(default_factory=dict)
    _queue: deque[str] = field(default_factory=deque)
    _queued: set[str] = field(default_factory=set)
    _units: dict[str, Unit] = field(default_factory=dict)
    _runs: dict[str, int] = field(default_factory=dict)

    def run(self, analyse: Callable[[Engine, Unit], None]) -> None:
        """Call `analyse` for each unit, module bodies first, and again for what depends on what it changed."""
        self.functions.update(self.program.functions)
        modules = list(self.program.modules.values())
        units = [Unit(f"module {module.name}", module, None, _size(module.tree)) for module in modules]
        units += [
            Unit(function.key, module, function, _size(function.node))
            for module in modules
            for function in module.functions
        ]
        self._units = {unit.key: unit for unit in units}
        self._queue, self._queued = deque(self._units), set(self._units)
        while self._queue:
            key = self._queue.popleft()
            self._queued.discard(key)
            self._runs[key] = self._runs.get(key, 0) + 1
            self.findings[key] = {}
            analyse(self, self._units[key])

    def _changed(self, thing: str) -> None:
        for reader in self._readers.get(thing, ()):
            if self._runs.get(reader, 0) < MAX_RUNS and reader not in self._queued:
                self._queue.append(reader)
                self._queued.add(reader)

    def _read(self, thing: str, unit: str) -> None:
        self._readers.setdefault(thing, {})[unit] = None

    def read_global(self, module: Module, name: str, unit: str) -> Value | None:
        self._read(f"global {module.name}:{name}", unit)
        return module.values.get(name)

    def define_global(self, module: Module, name: str, value: Value) -> None:
        """What a module's body makes of a name: it replaces what an earlier pass, which knew less, made of it."""
        kept = trimmed(without_error_text(only_sources(value)))
        assigned = module.assigned.get(name)
        after = kept if assigned is None else join(kept, assigned)
        if after != module.values.get(name):
            module.values[name] = after
            self._changed(f"global {module.name}:{name}")

    def assign_global(self, module: Module, name: str, value: Value) -> None:
        """What a function makes of a name: one of the things that it may be."""
        thing = f"global {module.name}:{name}"
        self._store(module.assigned, name, value, thing)
        self._store(module.values, name, value, thing)

    def read_attribute(self, owner: Class, name: str, unit: str) -> Value | None:
        """What the program stores under a name on objects of a class or of its bases."""
        found: Value | None = None
        for one in owner.lineage():
            self._read(f"attribute {one.key}:{name}", unit)
            value = one.attributes.get(name)
            if value is not None:
                value = map_labels(value, lambda _: ()) if name in one.mixed else value
                found = value if found is None else join(found, value)
        return found

    def set_attribute(self, owner: Class, name: str, value: Value) -> None:
        """Something is stored under a name on an object of a class.

        A class whose objects hold now a forbidden field and now something else (a text, a table) is a container:
        what one object holds says nothing about the others. Starting values do not make it one.
        """
        thing = f"attribute {owner.key}:{name}"
        if not deep_labels(value) and value.kind is not Kind.BLANK and not value.texts and name not in owner.mixed:
            owner.mixed.add(name)
            self._changed(thing)
        self._store(owner.attributes, name, value, thing)

    def _store(self, table: dict[str, Value], name: str, value: Value, thing: str) -> None:
        kept = trimmed(without_error_text(only_sources(value)))
        before = table.get(name)
        after = kept if before is None else join(before, kept)
        if after != before:
            table[name] = after
            self._changed(thing)

    def read_summary(self, function: Function, unit: str) -> None:
        self._read(f"summary {function.key}", unit)

    def set_returns(self, function: Function, value: Value) -> None:
        kept = trimmed(without_error_text(value))
        if kept != (function.summary.returns or UNKNOWN):
            function.summary.returns = kept
            self._changed(f"summary {function.key}")

    def add_stored(self, function: Function, name: str, value: Value) -> None:
        """A method stores `value` on its object under `name`."""
        before = function.summary.attributes.get(name)
        after = trimmed(value) if before is None else join(before, trimmed(value))
        if after != before:
            function.summary.attributes[name] = after
            self._changed(f"summary {function.key}")

    def add_sink(self, label: Param, sink: Sink) -> None:
        function = self.functions.get(label.function)
        if function is None or label in function.summary.sinks or len(function.summary.sinks) >= MAX_SINKS:
            return
        function.summary.sinks[label] = sink
        self._changed(f"summary {function.key}")

    def prepare(self) -> None:
        """Bind what every module defines and imports, so that the order of modules makes no difference."""
        for module in self.program.modules.values():
            for one in module.classes:
                if one.key == f"{module.name}.{one.node.name}":
                    module.values[one.node.name] = Value(kind=Kind.CLASS, name=one.key)
            for function in module.functions:
                if function.owner is None:
                    module.values[function.name] = Value(kind=Kind.FUNCTION, name=function.key)
            if any(_is_seeding(node) for node in ast.walk(module.tree)):
                self.seeded.add(module.name)


def _size(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


def _is_seeding(node: ast.AST) -> bool:
    """`random.seed(something)`, under whatever name the module was imported."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "seed"
        and bool(node.args or node.keywords)
    )
