"""Every kind over the evidence that it is about, and every check taken away: what the long and the short form share."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.tampering.switching_off import SWITCHES, Site

PASSES = Path(__file__).with_name("passes.json")
ALWAYS: dict[str, str] = {
    "FILE_TOO_LARGE": "a limit for the reader's memory: tests/verify/test_hostile_bundles.py holds it",
    "LINE_TOO_LONG": "a limit for the reader's memory, at which reading ends: what follows is missed by the others",
    "LINE_NOT_JSON": "what is no JSON says nothing that could pass",
    "EVIDENCE_VERSION_UNKNOWN": "another word for an unknown form, so that newer evidence is not called damaged",
    "HEAD_MISMATCH": "only whoever remembers a head asks for it: tests/verify/test_tampering.py does",
}
"""Codes without which no kind of tampering with a bundle passes, and why that is so."""


class Corpus:
    """All kinds, each made once. Import after `switching_off.install()` where checks are to be taken away."""

    def __init__(self, share: tuple[int, int] = (1, 1)) -> None:
        from tests.tampering.kinds import all_kinds

        part, parts = share
        kinds = all_kinds()
        self.kinds = {name: kind for number, (name, kind) in enumerate(kinds.items()) if number % parts == part - 1}

    @cached_property
    def made(self) -> dict[str, dict[str, bytes]]:
        from tests.tampering.evidence import whole

        return {name: kind.change(whole(kind.of)) for name, kind in self.kinds.items()}

    def told(self, name: str) -> dict[str, Any]:
        from tests.tampering.evidence import whole
        from tests.tampering.judging import summed
        from tests.tampering.reading import judge

        kind = self.kinds[name]
        return summed(judge(self.made[name], kind.reader, whole(kind.of)), kind)

    def all_told(self) -> dict[str, dict[str, Any]]:
        return {name: self.told(name) for name in self.kinds}

    def write(self, folder: Path) -> dict[str, dict[str, Any]]:
        """Each as a folder; what must be found, and with which arguments, in `expected.json`, for another verifier."""
        import msgspec

        from tests.tampering.evidence import whole
        from tests.tampering.reading import arguments
        from tests.verify.changing import write_folder

        said = {}
        for number, name in enumerate(self.kinds, start=1):
            place, kind = f"{number:04}", self.kinds[name]
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
    from reenact.values.canonical import parse_json
    from reenact.verify import lines
    from tests.tampering.judging import untouched

    untouched.cache_clear()
    strict = lines.parse_canonical
    if code == "LINE_NOT_CANONICAL":  # it reads the value, so it is read less strictly instead
        lines.parse_canonical = lambda data, what="": parse_json(data, what=what)  # type: ignore[assignment]
    SWITCHES.code_off, SWITCHES.off = code, site
    try:
        yield
    finally:
        SWITCHES.code_off = SWITCHES.off = None
        lines.parse_canonical = strict


def checks_by_code() -> tuple[dict[str, str], list[str]]:
    """({code: a kind that passes without it}, codes without which none does)."""
    from reenact.verify.report import CODES

    corpus, found = WithoutChecks(), {}
    for code in CODES:
        name = corpus.without_code(code)
        if name is not None:
            found[code] = name
    return found, [code for code in CODES if code not in found]


def checks_as_kept() -> dict[str, str | None]:
    """For each code the kind that `passes.json` names for it, where it does pass without that code."""
    import msgspec

    kept: dict[str, str] = msgspec.json.decode(PASSES.read_bytes())
    corpus = WithoutChecks(only=set(kept.values()))
    found = {}
    for code, name in kept.items():
        with switched_off(code=code):
            found[code] = corpus.passing([name])
    return found


def checks_by_site() -> tuple[int, int, list[str]]:
    """(sites that were met, those without which a kind passes, the others in words, and what was never met)."""
    corpus = WithoutChecks()
    met = sorted(SWITCHES.known)
    others = [
        f"{site} {'overlaps' if any(site in s for s in corpus.fired.values()) else 'told nothing'}"
        for site in met
        if corpus.without_site(site) is None
    ]
    unmet = SWITCHES.places - {(site.module, site.line) for site in met}
    never = [f"{module.removeprefix('reenact.verify.')}:{line} never met" for module, line in sorted(unmet)]
    return len(met), len(met) - len(others), others + never


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
