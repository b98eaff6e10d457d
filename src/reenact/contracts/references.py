"""References between steps, secrets, and the `$` that keeps what a tool says from ever being resolved.

Only what stands literally in the pinned plan is expanded: `{{step.path}}` when a step is requested, `{"$secret": NAME}`
when it is dispatched. A value that is put in from outside has every key that begins with `$` prefixed by one more, and
dispatch takes one off again. `{"$sealed": TEXT}` is something like a secret, encrypted: what was recorded may hold it,
and it stays shut where its key is not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from reenact.values.bounds import place_in
from reenact.values.canonical import canonicalize
from reenact.values.envelope import LARGEST_RESULT

SCALARS = frozenset({str, int, float, bool, type(None)})
REFERENCE = re.compile(r"\{\{([^{}]++)\}\}")
"""Spaces around the path are its reader's to strip: a pattern that skips them tries each of their places."""
LONGEST_PATH = 1000
"""Of a reference, in characters: a step id and names within its output."""
SECRET_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,255}")
MISSING = object()
SECRET_KEYS = frozenset({"$secret", "prefix", "suffix"})
LONGEST_AROUND = 256
LARGE = 1 << 20
"""Bytes that references bring, from which the whole is measured too."""


class UnresolvedReference(Exception):  # it becomes a refusal, nobody handles it as an error
    """A reference that leads nowhere; the message says where it stands and why."""


class EncryptedReference(UnresolvedReference):
    """A reference inside a longer text to a value that is encrypted."""

    def __init__(self, message: str, value: object) -> None:
        super().__init__(message)
        self.value = value


def escape(value: object, *, recorded: bool = False) -> object:
    """A value from outside, made inert. In a recorded value `$sealed` is our mark, and stays."""
    if isinstance(value, dict):
        if recorded and is_encrypted(value):
            return value
        return {
            "$" + key if key.startswith("$") else key: item
            if type(item) in SCALARS
            else escape(item, recorded=recorded)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [escape(item, recorded=recorded) for item in value]
    return value


def is_secret(value: object) -> bool:
    """`{"$secret": NAME}`, or with a `prefix` or a `suffix` that the skill gets around it."""
    if not isinstance(value, dict) or not isinstance(value.get("$secret"), str):
        return False
    return len(value) == 1 or (value.keys() <= SECRET_KEYS and all(isinstance(text, str) for text in value.values()))


def secret_mistakes(value: object, where: str = "") -> Iterator[str]:
    """What is wrong about the secrets that a plan names, each with its place."""
    if isinstance(value, dict):
        if "$secret" in value:
            yield from (f"{where}: {mistake}" for mistake in mistakes_in_secret(value))
            return
        for key, item in value.items():
            if type(item) not in SCALARS:
                yield from secret_mistakes(item, f"{where}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if type(item) not in SCALARS:
                yield from secret_mistakes(item, f"{where}[{index}]")


def mistakes_in_secret(value: Mapping[str, object]) -> Iterator[str]:
    if not is_secret(value):
        yield 'a secret is written {"$secret": "NAME"}, or {"$secret": "NAME", "prefix": "Bearer ", "suffix": "…"}'
        return
    if SECRET_NAME.fullmatch(str(value["$secret"])) is None:
        yield 'a secret is named in so many words, {"$secret": "NAME"}: no reference, nothing nested'
    for key in ("prefix", "suffix"):
        text = str(value.get(key, " "))
        if not text or not text.isprintable() or "{{" in text or len(text) > LONGEST_AROUND:
            yield f"{key} is a printable text of 1 to {LONGEST_AROUND} characters without references, or is left out"


def is_encrypted(value: object) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$sealed"), str)


def escape_encrypted_marks(value: object) -> object:
    """What a tool said. It cannot encrypt: a key `$sealed` of its own gets one more `$`, so that nothing opens it."""
    if isinstance(value, dict):
        if "$sealed" in value and is_encrypted(value):
            return {"$$sealed": value["$sealed"]}
        if SCALARS.issuperset(map(type, value.values())):
            return value
        found = {key: escape_encrypted_marks(item) for key, item in value.items()}
        return found if any(found[key] is not item for key, item in value.items()) else value
    if isinstance(value, list):
        items = [escape_encrypted_marks(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def first_encrypted(value: object) -> str | None:
    """What was encrypted in a value and still is: the first such text."""
    if isinstance(value, dict):
        if is_encrypted(value):
            return str(value["$sealed"])
        items: Iterable[object] = value.values()
    elif isinstance(value, list):
        items = value
    else:
        return None
    for item in items:
        if type(item) not in SCALARS and (found := first_encrypted(item)) is not None:
            return found
    return None


def has_encrypted(value: object) -> bool:
    return first_encrypted(value) is not None


def unescape(value: object, secret: Callable[[str], object] | None) -> object:
    """What the skill gets: secrets resolved, then one `$` taken off. Without `secret` the references stay."""
    if isinstance(value, dict):
        if "$secret" in value and is_secret(value):
            return value if secret is None else put_around(value, secret(value["$secret"]))
        if "$sealed" in value and is_encrypted(value):
            return value
        return {
            key.removeprefix("$"): item if type(item) in SCALARS else unescape(item, secret)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [unescape(item, secret) for item in value]
    return value


def put_around(mark: Mapping[str, str], secret: object) -> object:
    return secret if len(mark) == 1 else f"{mark.get('prefix', '')}{secret}{mark.get('suffix', '')}"


def secret_names(value: object) -> list[str]:
    if isinstance(value, dict):
        if is_secret(value):
            return [value["$secret"]]
        value = list(value.values())
    if not isinstance(value, list) or SCALARS.issuperset(map(type, value)):
        return []
    return [name for item in value for name in secret_names(item)]


def has_references(value: object) -> bool:
    if isinstance(value, str):
        return "{{" in value and REFERENCE.search(value) is not None
    if isinstance(value, dict):
        return any(has_references(item) for item in value.values())
    if isinstance(value, list):
        return any(has_references(item) for item in value)
    return False


def references_in(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """(place, path) of every reference in a value; places are JSON pointers behind `where`."""
    if isinstance(value, str):
        for match in REFERENCE.finditer(value):
            yield where, match[1].strip()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from references_in(item, f"{where}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from references_in(item, f"{where}/{index}")


def with_unknowns(value: object, *, texts: bool = False) -> object:
    """The value with what stands for a whole reference put as a mark that may be anything, and names the reference.

    With `texts` also a text that holds a reference among other words: what it will be is not known either.
    """
    if isinstance(value, str):
        is_unknown = has_references(value) if texts else REFERENCE.fullmatch(value.strip())
        return {"$secret": value} if is_unknown else value
    if isinstance(value, dict):
        return {key: with_unknowns(item, texts=texts) for key, item in value.items()}
    if isinstance(value, list):
        return [with_unknowns(item, texts=texts) for item in value]
    return value


def resolve(value: object, earlier: Mapping[str, int], output: Callable[[str], object]) -> object:
    """The parameters with every reference replaced. `output(step_id)` gives a step's output."""
    return Resolver(earlier, output).all_of(value)


class Resolver:
    """Replaces the references in one step's parameters: in all they bring no more than a recorded value may hold."""

    def __init__(self, earlier: Mapping[str, int], output: Callable[[str], object]) -> None:
        self._earlier = earlier
        self._output = output
        self._named: dict[str, dict[str, list[str]]] = {}
        """By step, every path into its output, and the names in it."""
        self._found: dict[str, object] = {}
        self._sizes: dict[str, int] = {}
        self._brought = 0

    def all_of(self, value: object) -> object:
        for path in dict.fromkeys(path for _, path in references_in(value)):
            with suppress(UnresolvedReference):  # told where it stands
                step_id, rest = split_path(path, self._earlier, "")
                self._named.setdefault(step_id, {})[path] = rest
        resolved = self._resolve(value, "")
        if self._brought > LARGE and len(msgspec.json.encode(resolved)) > LARGEST_RESULT:
            raise too_much("")
        return resolved

    def _resolve(self, value: object, where: str) -> object:
        if isinstance(value, str):
            return self._resolve_text(value, where) if "{{" in value else value
        if isinstance(value, dict):
            if "$secret" in value:  # what a tool says never becomes the name of a secret
                return value
            return {key: self._resolve(item, f"{where}/{key}") for key, item in value.items()}
        if isinstance(value, list):
            return [self._resolve(item, f"{where}/{index}") for index, item in enumerate(value)]
        return value

    def _resolve_text(self, text: str, where: str) -> object:
        whole = REFERENCE.fullmatch(text.strip())
        if whole is not None:
            return escape(self._look_up(whole[1].strip(), where), recorded=True)

        def put_in(match: re.Match[str]) -> str:
            path = match[1].strip()
            found = self._look_up(path, where)
            if has_encrypted(found):
                raise EncryptedReference(f"{where or '/'}: the value of {path!r} is encrypted", found)
            return found if isinstance(found, str) else canonicalize(found).decode()

        return REFERENCE.sub(put_in, text)

    def _look_up(self, path: str, where: str) -> object:
        if path not in self._found:
            self._read(split_path(path, self._earlier, where)[0])
        value = self._found[path]
        if isinstance(value, Nowhere):
            raise UnresolvedReference(f"{where or '/'}: {value.why}")
        # One value that is named a hundred times, in step after step, is a hundred times as large each time.
        if path not in self._sizes:
            self._sizes[path] = len(value) if isinstance(value, str) else len(msgspec.json.encode(value))
        self._brought += self._sizes[path]
        if self._brought > LARGEST_RESULT:
            raise too_much(where)
        return value

    def _read(self, step_id: str) -> None:
        """A step's output is read once, whatever is taken from it, and not kept."""
        output = self._output(step_id)
        for path, rest in self._named[step_id].items():
            self._found[path] = follow(output, step_id, path, rest)


class Nowhere(NamedTuple):
    """What a reference finds that leads nowhere."""

    why: str


def follow(value: object, step_id: str, path: str, rest: list[str]) -> object:
    if value is MISSING:
        return Nowhere(f"step {step_id!r} has no output to take {path!r} from")
    for part in rest:
        value = descend(value, part)
        if value is MISSING:
            return Nowhere(f"{path!r} leads nowhere: there is no {part!r}")
    return value


def too_much(where: str) -> UnresolvedReference:
    return UnresolvedReference(
        f"{where or '/'}: with what its references bring the step has more than {LARGEST_RESULT} bytes"
    )


def split_path(path: str, earlier: Mapping[str, int], where: str) -> tuple[str, list[str]]:
    """A step id may hold dots: the longest one that is known wins."""
    if len(path) > LONGEST_PATH:
        raise UnresolvedReference(f"{where or '/'}: a reference has more than {LONGEST_PATH} characters")
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        step_id = ".".join(parts[:length])
        if step_id in earlier:
            return step_id, parts[length:]
    raise UnresolvedReference(f"{where or '/'}: {path!r} names no earlier step")


def descend(value: object, part: str) -> object:
    if isinstance(value, dict):
        return value.get(part, MISSING)
    if isinstance(value, list) and (place := place_in(value, part)) is not None:
        return value[place]
    return MISSING
