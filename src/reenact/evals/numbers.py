"""The numbers of a published evaluation, made again from the evidence of its run and held against what is written.

The samples are the inputs that the sidecar names; that the run was scored by them is what its first record says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Final

import msgspec

from reenact.errors import EvalSpecError, ReenactError
from reenact.evals.results import Results, read_results
from reenact.evals.running import BEGAN, BEGIN, BEGIN_SKILL
from reenact.evals.spec import Spec, read_spec
from reenact.evals.written import MARK, as_json, as_markdown, own_words
from reenact.provenance.safe_paths import FileRefused, Refusal
from reenact.provenance.sidecar.block import BlockError, parse_block
from reenact.provenance.sidecar.paths import results_path
from reenact.provenance.sidecar.sidecar import AnySidecar, ReenactSidecar
from reenact.provenance.verify.model import Check, Status
from reenact.provenance.verify.verify import MAX_MARKDOWN_BYTES, Subject
from reenact.record.bundle import fill
from reenact.record.result import RunResult
from reenact.store.naming import part, read_lines
from reenact.store.open import in_memory
from reenact.verify.files.listing import Files
from reenact.verify.report import Report

RESULTS: Final = "results"
REPORT: Final = "report"
NO_EVIDENCE: Final = "no evidence of the run that holds is here: its bundle beside the report, or a --store"


class Numbers:
    """What is to be said of the numbers of one report, whichever evidence of its run is there."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._found: list[Check] = []
        self._why_not = NO_EVIDENCE
        inputs = {each.name for each in subject.sidecar.verifiable_inputs}
        self._is_evaluation = subject.sidecar.kind == "eval" and "spec" in inputs

    def wants(self, bodies: Iterable[bytes]) -> bool:
        """Whether evidence of the run, which holds and has these commits, is still of use."""
        self._is_evaluation = begins_evaluation(bodies)
        return self._is_evaluation and not self._found

    def take(self, files: Files, report: Report, where: str) -> None:
        """Make the numbers again from evidence that verified, with this report."""
        gone = report.counts.payloads - report.counts.present
        if gone:
            self._why_not = f"{where} is without {gone} of the values that they come from"
            return
        lacking = [
            each.name for each in self._subject.sidecar.verifiable_inputs if self._subject.held(each.name) is None
        ]
        if lacking:
            self._why_not = f"{lacking[0]} does not hold"
            return
        try:
            self._found = made_again(files, str(report.run_id), self._subject, where)
        except (ReenactError, msgspec.MsgspecError, ArithmeticError) as error:  # the values in a bundle are anybody's
            detail = f"the numbers cannot be made again from {where}: {error}"
            self._found = [Check(RESULTS, Status.INCONSISTENT, detail)]

    def checks(self) -> list[Check]:
        if self._found or not self._is_evaluation:
            return self._found
        try:
            self._subject.near(results_path(self._subject.report), 0)
        except FileRefused as refused:
            if refused.refusal is Refusal.MISSING:
                return [missing(self._subject)]
        return [Check(RESULTS, Status.ABSENT, f"the numbers were not checked: {self._why_not}")]


def begins_evaluation(bodies: Iterable[bytes]) -> bool:
    """Whether the first call of a run is the one that `reenact eval` begins with."""
    for body in bodies:
        for line in read_lines(body):
            meta = part(line, "artifact").get("meta")
            if isinstance(meta, dict):
                return (meta.get("step_id"), meta.get("skill_id")) == (BEGIN, BEGIN_SKILL)
    return False


def made_again(files: Files, run_id: str, subject: Subject, where: str) -> list[Check]:
    spec = spec_of(subject)
    with closing(in_memory()) as store:
        fill(store, run_id, files, where)
        results = read_results(RunResult(run_id, store.find_run(run_id).status, store), spec)
    if results.began.get("digest") != spec.digest:
        return [Check(RESULTS, Status.DIFFERS, "the run is one of another spec, or of other data")]
    checks = [check_results(spec, results, subject, where), check_report(spec, results, subject)]
    return [
        *checks,
        *(
            Check("sidecar", Status.DIFFERS, f"{name} is not what the run says")
            for name in unlike(subject.sidecar, spec, results)
        ),
    ]


def unlike(sidecar: AnySidecar, spec: Spec, results: Results) -> Iterator[str]:
    """The fields of a sidecar in which it says something else than the run does of its beginning, or other seeds."""
    assert isinstance(sidecar, ReenactSidecar), "it names a run"
    shown = {**msgspec.to_builtins(sidecar), "argv": list(sidecar.argv)}
    yield from (name for name in BEGAN if name in results.began and results.began[name] != shown.get(name))
    named = [(seed, own) for seed, own in zip(sidecar.sampling.seeds, spec.seeds, strict=False) if seed is not None]
    if len(sidecar.sampling.seeds) > spec.n or any(seed != own for seed, own in named):
        yield "seeds"


def spec_of(subject: Subject) -> Spec:
    """The spec and all that it names, from the inputs of the report."""

    def read(name: str, _: Path) -> bytes:
        data = subject.held(name)
        if data is None:
            raise FileNotFoundError(0, f"the sidecar names no input {name} for it")
        return data

    paths = {each.name: each.path for each in subject.sidecar.verifiable_inputs}
    if "spec" not in paths:
        raise EvalSpecError("the sidecar names no spec")
    return read_spec(Path(paths["spec"]), read)


def check_results(spec: Spec, results: Results, subject: Subject, where: str) -> Check:
    path = results_path(subject.report)
    name, expected = Path(path).name, as_json(spec, results)
    try:
        written = subject.near(path, len(expected) + expected.count(b"\n"))
    except FileRefused as refused:
        if refused.refusal is Refusal.MISSING:
            return missing(subject)
        status = Status.DIFFERS if refused.refusal is Refusal.TOO_LARGE else Status.REFUSED
        return Check(RESULTS, status, f"{name}: {refused}")
    for number, (one, other) in enumerate(zip_longest(expected.split(b"\n"), written.split(b"\n")), start=1):
        if other is None or one != other.removesuffix(b"\r"):
            return Check(RESULTS, Status.DIFFERS, f"{name}, line {number}, is not what the run in {where} comes to")
    return Check(RESULTS, Status.OK, f"{name} is what the run in {where} comes to")


def missing(subject: Subject) -> Check:
    name = Path(results_path(subject.report)).name
    return Check(RESULTS, Status.MISSING, f"{name} is not beside the report, which names it")


def check_report(spec: Spec, results: Results, subject: Subject) -> Check:
    """The report down to its mark, but for its block, which is held against the sidecar, and for empty lines.

    One without a mark, as they were published before there was one, is checked to its end.
    """
    try:
        text = subject.near(subject.report, MAX_MARKDOWN_BYTES).decode(errors="replace")
    except FileRefused as refused:
        if refused.refusal is Refusal.MISSING:
            return Check(REPORT, Status.NOT_CHECKED, "the report itself is not here")
        return Check(REPORT, Status.REFUSED, f"the report is not read: {refused}")
    own = own_words(text)
    try:
        written = said_lines(text.removesuffix(own))
    except BlockError as error:
        return Check(REPORT, Status.DIFFERS, str(error))
    expected = said_lines(as_markdown(spec, results, Path(subject.report)))
    is_marked = any(line == MARK for _, line in written)
    if not is_marked:
        expected.pop()
    for one, other in zip_longest(expected, written):
        if other is None:
            return Check(REPORT, Status.DIFFERS, "it ends before it has said all that the run says")
        if one is None or one[1] != other[1]:
            return Check(REPORT, Status.DIFFERS, f"line {other[0]} is not what the run says")
    also = "; what stands below its mark is its author's" if own.strip() else ""
    also = also if is_marked else "; it has no mark, and nothing in it is its author's"
    return Check(REPORT, Status.OK, f"it says what the run says{also}")


def said_lines(markdown: str) -> list[tuple[int, str]]:
    """The lines outside of the replay block that are not empty, with their numbers."""
    block = parse_block(markdown)
    inside = range(0) if block is None else range(block.start, block.end)
    lines = enumerate(line.removesuffix("\r") for line in markdown.split("\n"))
    return [(place + 1, line) for place, line in lines if place not in inside and line.strip()]
