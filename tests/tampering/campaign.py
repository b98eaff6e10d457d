"""Every kind over the evidence that it is about, and every check taken away: what the long and the short form share."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.tampering.switching_off import SWITCHES, Site

PASSES = Path(__file__).with_name("passes.json")


class Corpus:
    """All kinds, each made once. Import after `switching_off.install()` where checks are to be taken away."""

    def __init__(self, share: tuple[int, int] = (1, 1), *, large: bool = True) -> None:
        from tests.tampering.kinds import all_kinds

        part, parts = share
        kinds = {name: kind for name, kind in all_kinds().items() if large or not kind.is_large}
        self.kinds = {name: kind for number, (name, kind) in enumerate(kinds.items()) if number % parts == part - 1}

    @cached_property
    def made(self) -> dict[str, dict[str, bytes]]:
        from tests.tampering.evidence import whole

        return {name: kind.change(whole(kind.of)) for name, kind in self.kinds.items()}

    def told(self, name: str) -> dict[str, Any]:
        from tests.tampering.judging import summed
        from tests.tampering.reading import judge

        kind = self.kinds[name]
        return summed(judge(kind, self.made[name]), kind)

    def all_told(self) -> dict[str, dict[str, Any]]:
        return {name: self.told(name) for name in self.kinds}

    def write(self, folder: Path) -> dict[str, dict[str, Any]]:
        """Each as a folder; what must be found, and with which arguments, in `expected.json`, for another verifier."""
        import msgspec

        from tests.tampering.evidence import whole
        from tests.tampering.reading import OF_STORES, arguments
        from tests.verify.changing import write_folder

        said = {}
        bundles = {name: kind for name, kind in self.kinds.items() if kind.reader not in OF_STORES}
        for number, (name, kind) in enumerate(bundles.items(), start=1):
            place = f"{number:04}"
            (folder / place).mkdir(parents=True)
            write_folder(folder / place, self.made[name])
            given = arguments(kind.reader, whole(kind.of), folder)
            said[place] = {"name": name, "arguments": given, **self.told(name)}
        (folder / "expected.json").write_bytes(msgspec.json.format(msgspec.json.encode(said)) + b"\n")
        return said


class WithoutChecks(Corpus):
    """The same, with the verifier's checks under switches."""

    def __init__(self, only: set[str] | None = None) -> None:
        super().__init__()
        self.kinds = {name: kind for name, kind in self.kinds.items() if only is None or name in only}
        self._let_nothing_pass_by_an_error()
        self.fired: dict[str, set[Site]] = {}
        for name in self.kinds:
            SWITCHES.fired = []
            self.told(name)
            self.fired[name] = set(SWITCHES.fired)

    @staticmethod
    def _let_nothing_pass_by_an_error() -> None:
        """What is off makes no problem, and then nothing is added."""
        from reenact.verify.report import Findings

        add = Findings.add
        Findings.add = lambda self, problem, where: None if problem is None else add(self, problem, where)  # type: ignore[method-assign,assignment]

    def fires(self, code: str) -> list[str]:
        """The kinds in which a check of this code told something, those that tell least first."""
        found = [name for name, sites in self.fired.items() if any(site.code == code for site in sites)]
        return sorted(found, key=lambda name: len(self.fired[name]))

    def passing(self, names: list[str]) -> str | None:
        """The first of these kinds that passes now: nothing is found, and the exit code is that of whole evidence."""
        from tests.tampering.judging import untouched
        from tests.tampering.reading import exit_code

        for name in names:
            kind = self.kinds[name]
            try:
                said = self.told(name)
            except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
                continue  # without the check nothing can be made of it
            if said["code"] is None and said["exit_code"] == exit_code(untouched(kind.of, kind.reader), kind.reader):
                return name
        return None

    def without_code(self, code: str) -> str | None:
        with switched_off(code=code):
            return self.passing(self.fires(code))

    def without_site(self, site: Site) -> str | None:
        names = [name for name, sites in self.fired.items() if site in sites]
        with switched_off(site=site):
            return self.passing(sorted(names, key=lambda name: len(self.fired[name])))


@contextmanager
def switched_off(code: str | None = None, site: Site | None = None) -> Iterator[None]:
    from tests.tampering.judging import untouched

    untouched.cache_clear()
    SWITCHES.code_off, SWITCHES.off = code, site
    try:
        with read_less_strictly(code or (site.code if site is not None and site.reads else "")):
            yield
    finally:
        SWITCHES.code_off = SWITCHES.off = None


@contextmanager
def read_less_strictly(code: str) -> Iterator[None]:
    """Where a check is what reads, it is off when all is read: any JSON, a line without its newline, any size."""
    from reenact.values.canonical import parse_json
    from reenact.verify import folder, journal, lines, verifier
    from reenact.verify.files import packed

    def whole_line(raw: bytes, entries: Any = None) -> Any:
        return lines.read_line(raw if raw.endswith(b"\n") else raw + b"\n", entries)

    instead: dict[str, list[tuple[Any, str, object]]] = {
        "LINE_NOT_CANONICAL": [(lines, "parse_canonical", lambda data, what="": parse_json(data, what=what))],
        "EVIDENCE_TORN_TAIL": [(journal, "read_line", whole_line)],
        "LINE_TOO_LONG": [(journal, "MAX_LINE_BYTES", 1 << 40), (verifier, "MAX_LINE_BYTES", 1 << 40)],
        "FILE_TOO_LARGE": [
            (folder, "MAX_FILE_BYTES", 1 << 40),
            (packed, "MAX_LINES_BYTES", 1 << 40),
            (packed, "MAX_LINE", 1 << 40),
        ],
    }
    before = [(module, name, getattr(module, name)) for module, name, _ in instead.get(code, [])]
    try:
        for module, name, other in instead.get(code, []):
            setattr(module, name, other)
        yield
    finally:
        for module, name, own in before:
            setattr(module, name, own)


def checks_by_code() -> list[str]:
    """The codes without which no kind passes."""
    from reenact.verify.report import CODES

    corpus = WithoutChecks()
    return [code for code in CODES if corpus.without_code(code) is None]


def named(sites: Iterable[Site]) -> dict[Site, str]:
    """Names that stay when a line moves: the module, the code, and what is compared, or which of several it is."""
    found: dict[Site, str] = {}
    several: Counter[str] = Counter()
    for site in sorted(sites):
        name = f"{site.module.removeprefix('reenact.verify.')} {site.code} {site.what}".strip()
        several[name] += 1
        found[site] = name if several[name] == 1 else f"{name} #{several[name]}"
    return found


def checks_by_site() -> tuple[dict[str, str | None], list[str]]:
    """({place that tells: a kind that passes without it}, what no kind met)."""
    corpus = WithoutChecks()
    found = {name: corpus.without_site(site) for site, name in named(SWITCHES.known).items()}
    return found, never_met()


def never_met() -> list[str]:
    met = {(site.module, site.line) for site in SWITCHES.known}
    return [
        f"{module.removeprefix('reenact.verify.')}:{line} never met" for module, line in sorted(SWITCHES.places - met)
    ]


def checks_as_kept() -> dict[str, str | None]:
    """As `checks_by_site`, with the kind that `passes.json` names for each place, but for those that take long."""
    import msgspec

    from tests.tampering.kinds import all_kinds

    kept: dict[str, str] = msgspec.json.decode(PASSES.read_bytes())
    large = {name for name, kind in all_kinds().items() if kind.is_large}
    corpus, found = WithoutChecks(only=set(kept.values()) - large), dict[str, str | None]()
    for site, name in named(SWITCHES.known).items():
        with switched_off(site=site):
            found[name] = corpus.passing([kept[name]] if name in kept else [])
    left_out = {name for name, kind in kept.items() if kind in large}
    return {name: kind for name, kind in found.items() if name not in left_out} | dict.fromkeys(left_out, "left out")


def table(all_told: dict[str, dict[str, Any]]) -> str:
    lines = []
    for name, said in all_told.items():
        place = ":".join(str(said[part]) for part in ("file", "line") if said.get(part) is not None)
        verdicts = "".join(word[0] for word in said.get("verdicts", "").split())
        lines.append(f"{said['exit_code']} {verdicts} {said['code'] or '-':26} {place:32} {name}")
    counted = Counter(said["code"] or "no code" for said in all_told.values())
    lines.append(
        f"{len(all_told)} kinds; first break: " + ", ".join(f"{code} {n}" for code, n in counted.most_common())
    )
    return "\n".join(lines)


def share_of(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    return int(part), int(parts or 1)


def out(text: str) -> None:
    sys.stdout.write(text + "\n")
