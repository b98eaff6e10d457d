"""What the analysis knows about a value: where it came from, what it is, what stands in it. Immutable throughout."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

EACH: Final = "[]"  # the path component for "some element"
LENGTH: Final = "len()"  # for "how many there are"
KEYS: Final = "keys()"  # and for "some key"
ERROR_TEXT: Final = "an error's text"
# Fields that are one text: a helper that goes through its characters or cuts it writes it, and decides nothing.
ONE_TEXT: Final = frozenset({"message", "timestamp", "trace_id", "span_id", ERROR_TEXT})
MAX_LABELS: Final = 12
MAX_DEPTH: Final = 4
MAX_MEMBERS: Final = 48
MAX_PATH: Final = 3
MAX_KEPT: Final = 60  # parts of a value that is kept between functions
MAX_HELD: Final = 400  # and of one that a local name holds


class Source(NamedTuple):
    """A forbidden field, or an error's text, that was read. `definite`: from what is known to be an outcome."""

    name: str
    line: int
    file: str
    definite: bool


class Param(NamedTuple):
    """Whatever the caller of `function` passes as its parameter at `position`, at `path` inside it."""

    function: str
    position: int
    path: tuple[str, ...]


Label = Source | Param
Labels = frozenset[Label]


class Kind(Enum):
    """What a value is, as far as that matters for a decision."""

    UNKNOWN = "unknown"
    BLANK = "a constant"
    TEXT = "text"
    OTHER = "something of a known type that is no outcome"
    OUTCOME = "an outcome"
    PART = "an object inside an outcome"
    SESSION = "a session, whose calls return outcomes"
    ERROR = "an exception"
    SET = "a set"
    VIEW = "the keys or items of a dict"
    DICT = "a dict"
    LIST = "a list or tuple"
    NAMED = "a module, function or class outside the analysed code"
    MADE = "an object made by a class outside the analysed code"
    MODULE = "an analysed module"
    FUNCTION = "an analysed function"
    CLASS = "an analysed class"
    INSTANCE = "an object of an analysed class"
    GETTER = "a function that reads fields by name"


class Order(NamedTuple):
    """An order that may differ between two runs: the rule that speaks about it, and where it arose."""

    rule: str
    line: int
    column: int
    end_line: int
    what: str


class Value(Struct, frozen=True):
    """What is known of one value. `members` are known keys, attributes or indices; `inside` any other element."""

    labels: Labels = frozenset()
    kind: Kind = Kind.UNKNOWN
    name: str = ""  # dotted name, or key of the module, function or class
    texts: frozenset[str] = frozenset()  # the constants that it may be
    order: Order | None = None
    inside: Value | None = None
    members: dict[str, Value] = {}
    bound: Value | None = None  # the object that a method was read from
    same: Param | None = None  # the very thing that a caller passes there, not something made from it

    def member(self, key: str) -> Value | None:
        return self.members.get(key)


UNKNOWN: Final = Value()
BLANK: Final = Value(kind=Kind.BLANK)
OUTCOME: Final = Value(kind=Kind.OUTCOME)


def text(constant: str) -> Value:
    return Value(kind=Kind.TEXT, texts=frozenset({constant}))


def labelled(labels: Iterable[Label]) -> Value:
    kept = limit(frozenset(labels))
    return Value(labels=kept) if kept else UNKNOWN


def limit(labels: Labels) -> Labels:
    """A bound on the work: what is reported first, in the order of the text, is enough."""
    return labels if len(labels) <= MAX_LABELS else frozenset(ranked(labels)[:MAX_LABELS])


def ranked(labels: Iterable[Label]) -> list[Label]:
    """The labels in an order that does not depend on the hash seed."""
    return sorted(labels, key=_rank)


def _rank(label: Label) -> tuple[object, ...]:
    if isinstance(label, Source):
        return (0, not label.definite, label.file, label.line, label.name)
    return (1, False, label.function, label.position, "/".join(label.path))


def join(first: Value, second: Value, depth: int = 0) -> Value:
    """What holds for a value that is one of the two."""
    if first is second or first == second or depth > MAX_DEPTH:
        return first
    if not first.labels and first.kind is Kind.BLANK and first.order is None:
        return second
    if not second.labels and second.kind is Kind.BLANK and second.order is None:
        return first
    same = first.kind is second.kind and first.name == second.name
    names = [*first.members, *(name for name in second.members if name not in first.members)][:MAX_MEMBERS]
    return Value(
        labels=limit(first.labels | second.labels),
        kind=first.kind if same else Kind.UNKNOWN,
        name=first.name if same else "",
        texts=first.texts | second.texts if len(first.texts | second.texts) <= 8 else frozenset(),
        order=first.order or second.order,
        inside=_join_optional(first.inside, second.inside, depth),
        members={
            name: value
            for name in names
            if (value := _join_optional(first.members.get(name), second.members.get(name), depth)) is not None
        },
        bound=first.bound if same else None,
        same=first.same if first.same == second.same else None,
    )


def _join_optional(first: Value | None, second: Value | None, depth: int) -> Value | None:
    if first is None or second is None:
        return first or second
    return join(first, second, depth + 1)


def join_all(values: Iterable[Value]) -> Value:
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def deep_labels(value: Value, depth: int = 0, *, records: bool = True) -> Labels:
    """The labels of a value and of all that is known to stand in it; without `records`, only in its sequences."""
    if depth > MAX_DEPTH or (not value.members and value.inside is None):
        return value.labels
    parts = _parts(value, records=records)
    return limit(value.labels.union(*(deep_labels(part, depth + 1, records=records) for part in parts)))


def step_into(labels: Labels, component: str, *, passed: bool = False) -> Labels:
    """The labels of a part: of a forbidden field every part is forbidden, of a parameter a longer path.

    `passed`: it is a helper that looks into what it was given.
    """
    return frozenset(
        Param(label.function, label.position, (*label.path, component)) if isinstance(label, Param) else label
        for label in labels
        if (
            len(label.path) < MAX_PATH
            if isinstance(label, Param)
            else not (passed and component in (EACH, LENGTH) and label.name in ONE_TEXT)
        )
    )


def part_of(value: Value, component: str, found: Value, *, passed: bool = False) -> Value:
    """`found`, read from `value` under `component`, with what it inherits from there."""
    if not value.labels:
        return found
    labels = limit(found.labels | step_into(value.labels, component, passed=passed))
    same = value.same
    if same is not None:
        same = same._replace(path=(*same.path, component)) if len(same.path) < MAX_PATH else None
    return replace(found, labels=labels, same=same)


def element(value: Value, *, passed: bool = False) -> Value:
    """Some element of a container, when nobody knows which.

    Of a forbidden field whose parts are not known, each is forbidden; parts that are known have their own labels.
    `passed`: a helper that goes through all fields of a record, whatever they are, decides on none of them.
    """
    parts = _parts(value, records=not passed)
    if not parts and not value.members:
        return part_of(value, EACH, UNKNOWN, passed=passed)
    return part_of(_only_parameters(value), EACH, join_all(parts), passed=passed)


def _parts(value: Value, *, records: bool) -> list[Value]:
    members = value.members.values() if records or value.kind in (Kind.LIST, Kind.SET) else ()
    return [*members, *([] if value.inside is None else [value.inside])]


def some_key(value: Value) -> Value:
    """Some key of a dict: content where the dict as a whole is, else not."""
    known = bool(value.members) or value.inside is not None
    return part_of(_only_parameters(value) if known else value, KEYS, UNKNOWN)


def _only_parameters(value: Value) -> Value:
    if not any(isinstance(label, Source) for label in value.labels):
        return value
    return replace(value, labels=frozenset(label for label in value.labels if isinstance(label, Param)))


def at_path(value: Value, path: tuple[str, ...]) -> Value:
    """The part of a value that a callee reads under `path`."""
    for component in path:
        if component == EACH:
            value = element(value, passed=True)
            continue
        if component in (LENGTH, KEYS):
            value = some_key(value) if component == KEYS else part_of(value, LENGTH, UNKNOWN, passed=True)
            continue
        known = value.member(component)
        rest = UNKNOWN if value.inside is None else value.inside
        value = part_of(value, component, known if known is not None else rest)
    return value


def map_labels(value: Value, change: Callable[[Label], Iterable[Label]], depth: int = 0) -> Value:
    """The same value with each label, at any depth, replaced by what `change` makes of it."""
    if not value.labels and not value.members and value.inside is None:
        return value
    if depth > MAX_DEPTH:
        return UNKNOWN
    return replace(
        value,
        labels=limit(frozenset(new for label in value.labels for new in change(label))),
        inside=None if value.inside is None else map_labels(value.inside, change, depth + 1),
        members={name: map_labels(member, change, depth + 1) for name, member in value.members.items()},
    )


def only_sources(value: Value) -> Value:
    """What is kept on objects and in globals: a parameter means something only inside its own function."""
    return map_labels(value, lambda label: (label,) if isinstance(label, Source) else ())


def without_error_text(value: Value) -> Value:
    """An error's text is not followed out of its function: what is stored or returned is there to be shown."""
    return map_labels(value, lambda label: () if isinstance(label, Source) and label.name == ERROR_TEXT else (label,))


def trimmed(value: Value, parts: int = MAX_KEPT) -> Value:
    """The value as it is kept: of a large or deep structure the first parts, and all labels."""
    return value if not value.members and value.inside is None else _trimmed(value, [parts], 0)


def _trimmed(value: Value, left: list[int], depth: int) -> Value:
    """`left` holds how many more parts may be kept."""
    if not value.members and value.inside is None:
        return value
    if depth >= MAX_DEPTH or left[0] <= 0:
        return replace(value, labels=deep_labels(value), members={}, inside=None)
    left[0] -= len(value.members) + 1
    return replace(
        value,
        inside=None if value.inside is None else _trimmed(value.inside, left, depth + 1),
        members={name: _trimmed(member, left, depth + 1) for name, member in value.members.items()},
    )
