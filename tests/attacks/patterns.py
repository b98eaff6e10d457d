"""Finds every regular expression in the source, and makes texts that one with too many ways to match chokes on."""

from __future__ import annotations

import ast
import importlib
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]  # the parser's own names
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import reenact

SOURCE = Path(reenact.__file__).parent
FUNCTIONS = frozenset({"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
CANDIDATES = "a0 _-./:\n\t{}[]()'\"`#~,A+=%!?<>$|*&^;@\\éß\x00\r\ufeff\ud800"
SUFFIXES = ("", "\x00", "\n!")
MANY = 16
"""A part that may be repeated more often than this is worth pumping."""
SMALL, LARGE = 1_000, 10_000
FLOOR_S = 0.01
RATIO = 30
"""A linear pattern takes 10 times as long for 10 times the text, a quadratic one 100 times."""
LIMIT_S = 1.5


@dataclass(frozen=True)
class Found:
    """One place where a pattern is written. `value` is None where only the running program knows it."""

    key: str
    line: int
    value: re.Pattern[Any] | None
    how: str


def patterns() -> Iterator[Found]:
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "re." in text or "pattern=" in text:
            yield from in_file(file.relative_to(SOURCE), ast.parse(text))


def in_file(file: Path, tree: ast.Module) -> Iterator[Found]:
    counts: dict[str, int] = {}
    for node, owner in calls(tree, "module"):
        name = written_as(node)
        if name is None:
            continue
        counts[owner] = counts.get(owner, 0) + 1
        numbered = owner if counts[owner] == 1 else f"{owner}#{counts[owner]}"
        yield Found(f"{file.as_posix()}:{numbered}", node.lineno, value_of(file, node, name), name)


def calls(node: ast.AST, owner: str) -> Iterator[tuple[ast.Call, str]]:
    """Every call with the name that its value is given, or the function in which it stands."""
    for child in ast.iter_child_nodes(node):
        inner = owner
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = child.name
        elif isinstance(child, ast.Assign | ast.AnnAssign) and owner == "module":
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            inner = target.id if isinstance(target, ast.Name) else owner
        if isinstance(child, ast.Call):
            yield child, inner
        yield from calls(child, inner)


def written_as(node: ast.Call) -> str | None:
    called = node.func
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "re":
        return called.attr if called.attr in FUNCTIONS else None
    is_meta = isinstance(called, ast.Name) and called.id == "Meta"
    return "Meta" if is_meta and any(item.arg == "pattern" for item in node.keywords) else None


def value_of(file: Path, node: ast.Call, name: str) -> re.Pattern[Any] | None:
    module = importlib.import_module(".".join(("reenact", *file.with_suffix("").parts)).removesuffix(".__init__"))
    named = {item.arg: item.value for item in node.keywords}
    expression = named["pattern"] if name == "Meta" else node.args[0]
    try:
        text = eval(compile(ast.Expression(expression), str(file), "eval"), vars(module).copy())  # our own
        flags = flags_of(node, name, vars(module))
    except NameError:
        return None
    return re.compile(text, flags)


def flags_of(node: ast.Call, name: str, names: dict[str, Any]) -> int:
    at = {"compile": 1, "match": 2, "search": 2, "fullmatch": 2, "findall": 2, "finditer": 2}.get(name)
    given = [item.value for item in node.keywords if item.arg == "flags"]
    given += [] if at is None or len(node.args) <= at else [node.args[at]]
    return int(eval(compile(ast.Expression(given[0]), "flags", "eval"), names.copy())) if given else 0


# -- texts that hurt ---------------------------------------------------------------------------------------------------


Attack = tuple[str, str, str]
"""What stands before, what is repeated, what stands behind."""


def attacks_on(pattern: re.Pattern[Any]) -> list[Attack]:
    """Each part that may be repeated, repeated behind what leads to it; and the beginnings of the pattern itself."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(text, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    found = dict.fromkeys(pumped(tree, ""))
    found.update(dict.fromkeys(("", pump) for pump in beginnings(tree) if pump))
    return [(before, pump, behind) for before, pump in found if pump for behind in SUFFIXES]


def beginnings(tree: Any) -> Iterator[str]:
    for end in range(1, len(tree) + 1):
        yield sample(tree[:end])
        op, given = tree[end - 1]
        for branch in inside(op, given) if op in (ops.BRANCH, ops.SUBPATTERN) else ():
            yield from (sample(tree[: end - 1]) + rest for rest in beginnings(branch))


def pumped(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    for op, given in tree:
        if op in REPEATS and (given[1] is ops.MAXREPEAT or given[1] > MANY):
            bodies = list(dict.fromkeys(samples(given[2])))
            for body in bodies:
                yield before, body
                yield before + sample(given[2]) * given[0], body
            yield before, "".join(bodies)
        for inner in inside(op, given):
            yield from pumped(inner, before)
        before += sample([(op, given)])


def inside(op: Any, given: Any) -> list[Any]:
    if op in REPEATS:
        return [given[2]]
    if op is ops.SUBPATTERN:
        return [given[3]]
    if op is ops.BRANCH:
        return list(given[1])
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [given[1]]
    return [given] if op is ops.ATOMIC_GROUP else []


def samples(tree: Any) -> Iterator[str]:
    """Texts that fit: one for each branch, and for each of two characters of a class."""
    yield sample(tree)
    yield sample(tree, other=True)
    for op, given in tree:
        if op is ops.IN and fits(given, "\n"):
            yield "\n"
        for inner in inside(op, given):
            yield from samples(inner)


def sample(tree: Any, *, other: bool = False) -> str:
    return "".join(one(op, given, other=other) for op, given in tree)


def one(op: Any, given: Any, *, other: bool) -> str:
    if op is ops.LITERAL:
        return chr(given)
    if op is ops.ANY:
        return "." if other else "a"
    if op is ops.NOT_LITERAL:
        return next(char for char in CANDIDATES if ord(char) != given)
    if op is ops.IN:
        fitting = [char for char in CANDIDATES if fits(given, char)]
        return (fitting[-1] if other else fitting[0]) if fitting else ""
    if op in REPEATS:
        return sample(given[2], other=other) * max(1, given[0])
    if op is ops.BRANCH:
        return sample(given[1][-1 if other else 0], other=other)
    return "".join(sample(inner, other=other) for inner in inside(op, given) if op is not ops.ASSERT_NOT)


def fits(members: Any, char: str) -> bool:
    negated, found = False, False
    for op, given in members:
        if op is ops.NEGATE:
            negated = True
        elif op is ops.LITERAL:
            found |= ord(char) == given
        elif op is ops.RANGE:
            found |= given[0] <= ord(char) <= given[1]
        elif op is ops.CATEGORY:
            found |= in_category(given, char)
    return found != negated


def in_category(category: Any, char: str) -> bool:
    name = str(category).lower()
    tests: dict[str, Callable[[str], bool]] = {
        "digit": str.isdigit,
        "space": str.isspace,
        "word": lambda char: char.isalnum() or char == "_",
    }
    test = next(test for kind, test in tests.items() if name.endswith(kind))
    return test(char) != ("not_" in name)


# -- the clock ---------------------------------------------------------------------------------------------------------


class TooSlow(Exception):
    """A single match took longer than all of them together may."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Python looks for signals while it matches: a pattern that never ends is stopped here, by its own CPU time."""

    def stop(_number: int, _frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def applied(pattern: re.Pattern[Any], method: str, text: str) -> Callable[[], object]:
    subject: Any = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    if method in ("match", "fullmatch"):
        return lambda: getattr(pattern, method)(subject)
    if method == "search":
        return lambda: pattern.search(subject)
    return lambda: sum(1 for _ in pattern.finditer(subject))


def cpu_seconds(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def is_linear(pattern: re.Pattern[Any], method: str, attack: Attack, most: int | None = None) -> bool:
    """Whether ten times the text takes about ten times as long. Noise is met by taking the best of several."""
    small, large = (applied(pattern, method, stretched(attack, n if most is None else most)) for n in (SMALL, LARGE))
    try:
        with cpu_limit(LIMIT_S):
            taken = cpu_seconds(large)
            if taken <= FLOOR_S:
                return True
            least = min(taken, *(cpu_seconds(large) for _ in range(2)))
            return least <= max(FLOOR_S, RATIO * min(cpu_seconds(small) for _ in range(5)))
    except TooSlow:
        return False


def stretched(attack: Attack, length: int) -> str:
    before, pump, behind = attack
    return before + pump * max(1, length // len(pump)) + behind
