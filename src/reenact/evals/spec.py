"""The spec of an evaluation: which models, under which conditions, on which samples, and how answers are scored.

`docs/reference/eval.md` has every field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct

from reenact.errors import EvalSpecError, JsonSyntaxError
from reenact.evals.patterns import Pattern, quoted
from reenact.values.bounds import read_file
from reenact.values.canonical import MAX_SAFE_INTEGER, canonicalize, parse_json
from reenact.values.digest import digest
from reenact.values.threads import build

MOST_SAMPLES: Final = 100_000
MOST_CALLS: Final = 1_000_000
PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
WAYS: Final = ("exact", "contains", "regex", "skill")
Fields = dict[str, Any]
Reader = Callable[[str, Path], bytes]
"""What an input holds, by its name in a sidecar and its place; OSError where it cannot be read."""
Count = Annotated[int, Meta(ge=1, le=MOST_SAMPLES)]


class Scoring(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How an answer is scored: one of the first four. `of` is the field of the output that holds it."""

    exact: str | None = None
    contains: str | None = None
    regex: str | None = None
    skill: str | None = None
    ignore_case: bool = False
    of: str = "text"

    @property
    def how(self) -> str:
        """Which one it is."""
        return next(name for name in WAYS if getattr(self, name) is not None)


class SpecFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What stands in the file."""

    name: str
    models: list[str | Fields]
    conditions: dict[str, Fields]
    score: Scoring
    title: str | None = None
    skill: str = "llm_invoke"
    parameters: Fields = {}
    n: Count | None = None
    data: str | None = None
    seed: int = 0
    seeds: list[int] | None = None
    budget_cents: Annotated[int, Meta(ge=0)] | None = None
    context: Fields = {}
    report: str | None = None


class Cell(NamedTuple):
    """One sample of one model under one condition. `lane` names it in the journal."""

    sample: int
    model: int
    condition: int

    @property
    def lane(self) -> str:
        return f"s{self.sample}-m{self.model}-c{self.condition}"


@dataclass(frozen=True)
class Spec:
    """A spec with all that it names read: `inputs` are those files by name, `rows` the data."""

    path: Path
    file: SpecFile
    models: list[Fields]
    rows: list[Fields]
    seeds: list[int]
    inputs: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """By path, the files that stand in for texts."""

    @property
    def n(self) -> int:
        return len(self.seeds)

    @property
    def conditions(self) -> list[str]:
        return list(self.file.conditions)

    def cells(self) -> Iterator[Cell]:
        """Sample by sample, so that one that stops early has compared like with like."""
        for sample in range(self.n):
            for model in range(len(self.models)):
                for condition in range(len(self.file.conditions)):
                    yield Cell(sample, model, condition)

    @property
    def total(self) -> int:
        return self.n * len(self.models) * len(self.file.conditions)

    def row(self, sample: int) -> Fields:
        return self.rows[sample % len(self.rows)] if self.rows else {}

    @property
    def digest(self) -> str:
        """Of all that the answers depend on: another one is another evaluation. Where it is reported is not."""
        said = msgspec.to_builtins(self.file)
        said = {name: value for name, value in said.items() if name not in ("report", "title")}
        return digest({"spec": said, "rows": self.rows, "texts": self.texts})

    def parameters(self, cell: Cell) -> tuple[Fields, dict[str, str]]:
        """What a cell's call is made with, and the names of its secrets by their pointers."""
        condition = self.file.conditions[self.conditions[cell.condition]]
        model = self.models[cell.model]
        row, secrets = self.row(cell.sample), dict[str, str]()
        asked = {**self.file.parameters, **{key: value for key, value in model.items() if key != "id"}, **condition}
        asked = {**asked, "model": model["id"], "seed": self.seeds[cell.sample]}
        return self._filled(asked, row, secrets, ""), secrets

    def expected(self, sample: int, text: str, quote: Any = str) -> str:
        """A text of the scoring with the sample's fields in it."""
        return fill(text, self.row(sample), f"score.{self.file.score.how}", quote)

    def _filled(self, value: Any, row: Fields, secrets: dict[str, str], where: str) -> Any:
        if isinstance(value, str):
            return fill(value, row, where)
        if isinstance(value, list):
            return [self._filled(each, row, secrets, f"{where}/{place}") for place, each in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"$file"}:
            return fill(self.texts[value["$file"]], row, value["$file"])
        if value.keys() == {"$secret"}:
            secrets[where] = str(value["$secret"])
            return None
        return {key: self._filled(each, row, secrets, f"{where}/{pointed(key)}") for key, each in value.items()}


def pointed(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def fill(text: str, row: Mapping[str, Any], where: str, quote: Any = str) -> str:
    """`{field}` is what the sample has there, `{{` and `}}` are braces."""

    def put(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0][0]
        if name not in row:
            has = f"it has {', '.join(sorted(row))}" if row else "there is no data"
            raise EvalSpecError(f"{where}: the sample has no field {name!r}; {has}; a brace itself is {{{{ or }}}}")
        value = row[name]
        return str(quote(value if isinstance(value, str) else canonicalize(value).decode()))

    return PLACEHOLDER.sub(put, text)


def from_disk(_: str, place: Path) -> bytes:
    return read_file(place)


def read_spec(path: Path, read: Reader = from_disk) -> Spec:
    """The spec in a file, whole and checked; EvalSpecError says what is wrong with it, and where."""
    document = _read_json(path, read)
    try:
        file = msgspec.convert(document, SpecFile)
    except msgspec.ValidationError as error:
        raise EvalSpecError(f"{path}: {error}") from None
    models = [{"id": each} if isinstance(each, str) else each for each in file.models]
    inputs = {"spec": path}
    rows = _read_rows(path, file.data, read) if file.data is not None else []
    if file.data is not None:
        inputs["data"] = path.parent / file.data
    texts: dict[str, str] = {}
    for number, name in enumerate(sorted(_files(document)), start=1):
        inputs[f"file_{number}"] = path.parent / name
        texts[name] = _read_text(path, name, f"file_{number}", read)
    spec = Spec(path, file, models, rows, _seeds(path, file, rows), inputs, texts)
    _check(spec)
    return spec


def _seeds(path: Path, file: SpecFile, rows: list[Fields]) -> list[int]:
    n = file.n or len(rows) or len(file.seeds or ())
    if not n:
        raise EvalSpecError(f"{path}: how many samples? say n, data or seeds")
    if n > MOST_SAMPLES:
        raise EvalSpecError(f"{path}: there are at most {MOST_SAMPLES} samples, not {n}")
    if file.seeds is None:
        if file.seed + n - 1 > MAX_SAFE_INTEGER:
            raise EvalSpecError(f"{path}: seed: that of the last sample would be beyond 2^53-1; name a smaller one")
        return [file.seed + sample for sample in range(n)]
    if len(file.seeds) != n:
        raise EvalSpecError(f"{path}: seeds: {len(file.seeds)} for {n} samples; each has one")
    return file.seeds


def _check(spec: Spec) -> None:
    """What no single field can show."""
    path, file = spec.path, spec.file
    if not NAME.match(file.name):
        raise EvalSpecError(f"{path}: name: 1 to 40 of a-z 0-9 -, beginning with a letter, not {file.name!r}")
    if not file.models or not file.conditions:
        raise EvalSpecError(f"{path}: an evaluation has at least one model and one condition")
    for model in spec.models:
        if not isinstance(model.get("id"), str) or not model["id"]:
            raise EvalSpecError(f"{path}: models: each is a name, or an object with the name as its id")
    named = [model["id"] for model in spec.models]
    if len(set(named)) != len(named):
        raise EvalSpecError(f"{path}: models: two have the same id")
    if sum(getattr(file.score, how) is not None for how in WAYS) != 1:
        raise EvalSpecError(f"{path}: score: say one of exact, contains, regex and skill")
    if spec.total > MOST_CALLS:
        raise EvalSpecError(f"{path}: {spec.total} calls are more than {MOST_CALLS}")
    for sample in range(min(spec.n, max(len(spec.rows), 1))):
        _try_out(spec, sample)


def _try_out(spec: Spec, sample: int) -> None:
    """The calls and the scoring of a sample, put together so that mistakes cost nothing."""
    score = spec.file.score
    for condition in range(len(spec.file.conditions)):
        spec.parameters(Cell(sample, 0, condition))
    if score.regex is not None:
        Pattern(spec.expected(sample, score.regex, quoted))
    elif score.skill is None:
        spec.expected(sample, str(getattr(score, score.how)))


def _read_json(path: Path, read: Reader) -> Any:
    try:
        return parse_json(read("spec", path), what=str(path))
    except OSError as error:
        raise EvalSpecError(f"{path}: {error.strerror or 'cannot be read'}") from None


def _read_rows(path: Path, name: str, read: Reader) -> list[Fields]:
    """A JSON list of objects, or a file with one object a line."""
    place = path.parent / name
    try:
        data = read("data", place)
    except OSError as error:
        raise EvalSpecError(f"{place}: {error.strerror or 'cannot be read'}; data names it") from None
    if name.endswith(".jsonl"):
        rows = [
            _row(line, f"{place}:{number}") for number, line in enumerate(data.splitlines(), start=1) if line.strip()
        ]
    else:
        rows = parse_json(data, what=str(place))  # type: ignore[assignment]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise EvalSpecError(f"{place}: data is a list of objects, one for each sample")
    return rows


def _row(line: bytes, where: str) -> Any:
    try:
        return parse_json(line, what=where)
    except JsonSyntaxError as error:
        raise EvalSpecError(str(error)) from None


def _files(value: object) -> set[str]:
    """The names in all `{"$file": …}`."""
    if isinstance(value, dict):
        if value.keys() == {"$file"} and isinstance(value["$file"], str):
            return {value["$file"]}
        return set().union(*map(_files, value.values()))
    return set().union(*map(_files, value)) if isinstance(value, list) else set()


def _read_text(path: Path, name: str, input_name: str, read: Reader) -> str:
    place = path.parent / name
    try:
        return read(input_name, place).decode()
    except OSError as error:
        raise EvalSpecError(f"{place}: {error.strerror or 'cannot be read'}; $file names it") from None
    except UnicodeDecodeError:
        raise EvalSpecError(f"{place}: it is no text in UTF-8") from None


build(SpecFile)
