"""Whatever is changed in a journal is found, and where; the manifest is always made anew, so it cannot help."""

from __future__ import annotations

import json
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from tools.vectors.pieces import b64, kid_of, public_bytes
from tools.vectors.scenarios import refusals, session, three_steps
from tools.vectors.writer import Run

from reenact.values.canonical import canonicalize
from reenact.verify import Report, verify_lines
from tests.spec.corpus import mutations
from tests.verify.changing import split_bodies

SCENARIOS = (three_steps, refusals, session)
EXAMPLES = settings(max_examples=150)


@cache
def sealed(index: int) -> Run:
    return SCENARIOS[index]()


@cache
def unsealed(index: int) -> Run:
    return SCENARIOS[index](seal=False)


class Kept:
    """A run's payloads as they were."""

    def __init__(self, run: Run) -> None:
        self._payloads = run.payloads

    def get(self, commitment: str, /) -> bytes | None:
        return self._payloads.get(commitment)


def judge(run: Run, journal: bytes) -> Report:
    keys = {kid_of(run.key): b64(public_bytes(run.key))}
    return verify_lines(split_bodies(journal), Kept(run), keys=keys)


def journal_of(run: Run) -> bytes:
    return b"".join(run.bodies)


def located(report: Report, line: int, journal: bytes) -> None:
    """The first break is told at the changed line, or later where only a later line can tell."""
    first = report.first_break
    assert first is not None
    where = first.where
    assert where.file == "journal.jsonl"
    assert where.line is not None
    assert where.offset is not None
    assert where.line >= line
    starts = [0]
    for raw in journal.splitlines(keepends=True):
        starts.append(starts[-1] + len(raw))
    assert where.offset == starts[where.line - 1]


def line_at(journal: bytes, offset: int) -> int:
    return journal.count(b"\n", 0, offset) + 1


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_any_changed_byte_of_a_sealed_run_is_found_and_located(index: int, data: st.DataObject) -> None:
    run = sealed(index)
    journal = journal_of(run)
    offset = data.draw(st.integers(0, len(journal) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != journal[offset]))
    changed = journal[:offset] + bytes([value]) + journal[offset + 1 :]
    report = judge(run, changed)
    assert report.exit_code == 1
    located(report, line_at(journal, offset), changed)


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_any_removed_or_repeated_line_of_a_sealed_run_is_found_and_located(index: int, data: st.DataObject) -> None:
    run = sealed(index)
    lines = journal_of(run).splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    repeat = data.draw(st.booleans())
    kept = lines[: at + repeat] + lines[at + (not repeat) :]
    changed = b"".join(kept)
    report = judge(run, changed)
    if not repeat and at == len(lines) - 1:
        assert (report.exit_code, report.completeness) == (4, "open")  # the seal itself: its copy tells, see below
        return
    assert report.exit_code == 1
    located(report, at + 1, changed)


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_any_two_swapped_lines_of_a_sealed_run_are_found_and_located(index: int, data: st.DataObject) -> None:
    run = sealed(index)
    lines = journal_of(run).splitlines(keepends=True)
    a = data.draw(st.integers(0, len(lines) - 1))
    b = data.draw(st.integers(0, len(lines) - 1).filter(lambda number: number != a))
    lines[a], lines[b] = lines[b], lines[a]
    changed = b"".join(lines)
    report = judge(run, changed)
    assert report.exit_code == 1
    located(report, min(a, b) + 1, changed)


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_any_cut_of_a_sealed_run_is_found_by_the_copy_of_its_seal(index: int, data: st.DataObject) -> None:
    run = sealed(index)
    journal = journal_of(run)
    end = data.draw(st.integers(0, len(journal) - 1))
    keys = {kid_of(run.key): b64(public_bytes(run.key))}
    seal = b"".join(run.bodies).splitlines()[-1][len(b'{"kind":"seal","seal":') : -1]
    report = verify_lines(split_bodies(journal[:end]), Kept(run), keys=keys, expect_seal=seal)
    assert report.exit_code == 1
    assert "SEAL_MISSING" in {finding.code for finding in report.findings}


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_a_cut_of_an_unsealed_run_is_torn_or_open_and_never_holds(index: int, data: st.DataObject) -> None:
    run = unsealed(index)
    journal = journal_of(run)
    end = data.draw(st.integers(1, len(journal) - 1))
    report = judge(run, journal[:end])
    assert report.exit_code in (1, 4)
    assert report.completeness == "open"
    torn = not journal[:end].endswith(b"\n")
    assert ("EVIDENCE_TORN_TAIL" in {finding.code for finding in report.findings}) == torn
    whole_commits = journal[:end] in {b"".join(run.bodies[:n]) for n in range(1, len(run.bodies))}
    if whole_commits:
        assert report.exit_code == 4


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_in_an_unsealed_run_any_changed_byte_before_the_last_commit_is_found(index: int, data: st.DataObject) -> None:
    run = unsealed(index)
    journal = journal_of(run)
    offset = data.draw(st.integers(0, len(journal) - len(run.bodies[-1]) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != journal[offset]))
    changed = journal[:offset] + bytes([value]) + journal[offset + 1 :]
    report = judge(run, changed)
    assert report.exit_code == 1
    located(report, line_at(journal, offset), changed)


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_the_last_commit_of_an_unsealed_run_shows_changes_too_where_it_holds_entries(
    index: int, data: st.DataObject
) -> None:
    run = unsealed(index)
    journal = journal_of(run)
    start = len(journal) - len(run.bodies[-1])
    offset = data.draw(st.integers(start, len(journal) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != journal[offset]))
    changed = journal[:offset] + bytes([value]) + journal[offset + 1 :]
    assert judge(run, changed).exit_code == 1


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_in_an_unsealed_run_a_removed_or_swapped_commit_is_found(index: int, data: st.DataObject) -> None:
    run = unsealed(index)
    last = len(run.bodies) - 1
    a = data.draw(st.integers(0, last))
    b = data.draw(st.integers(0, last))
    bodies = list(run.bodies)
    if a == b:
        del bodies[a]
    else:
        bodies[a], bodies[b] = bodies[b], bodies[a]
    report = verify_lines(bodies, Kept(run))
    assert report.exit_code == (4 if a == b == last else 1)


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_two_neighbouring_lines_swapped_in_the_last_commit_of_an_unsealed_run_are_found(
    index: int, data: st.DataObject
) -> None:
    run = unsealed(index)
    lines = journal_of(run).splitlines(keepends=True)
    inside = run.bodies[-1].count(b"\n")
    at = len(lines) - inside + data.draw(st.integers(0, inside - 2))
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    assert judge(run, b"".join(lines)).exit_code == 1


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_any_changed_byte_of_any_payload_is_found_at_the_line_that_names_it(index: int, data: st.DataObject) -> None:
    run = sealed(index)
    commitment = data.draw(st.sampled_from(sorted(run.payloads)))
    envelope = run.payloads[commitment]
    offset = data.draw(st.integers(0, len(envelope) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != envelope[offset]))

    class Changed(Kept):
        def get(self, name: str, /) -> bytes | None:
            return (
                envelope[:offset] + bytes([value]) + envelope[offset + 1 :] if name == commitment else super().get(name)
            )

    report = verify_lines(run.bodies, Changed(run))
    assert report.exit_code == 1
    first = report.first_break
    assert first is not None
    assert first.code == "PAYLOAD_CHANGED"
    journal = journal_of(run).splitlines()
    assert first.where.line is not None
    assert commitment.encode() in journal[first.where.line - 1]


@EXAMPLES
@given(st.integers(0, 2), st.binary(max_size=200), st.data())
def test_bytes_put_anywhere_into_a_sealed_run_are_found(index: int, junk: bytes, data: st.DataObject) -> None:
    run = sealed(index)
    journal = journal_of(run)
    offset = data.draw(st.integers(0, len(journal)))
    changed = journal[:offset] + junk + journal[offset:]
    assert judge(run, changed).exit_code == (0 if not junk else 1)


@cache
def mutants(line: bytes) -> list[bytes]:
    return [canonicalize(mutant) + b"\n" for _, mutant in mutations(json.loads(line))]


@EXAMPLES
@given(st.integers(0, 2), st.data())
def test_any_line_that_says_something_else_in_canonical_form_is_found(index: int, data: st.DataObject) -> None:
    run = sealed(index)
    lines = journal_of(run).splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    changed = data.draw(st.sampled_from(mutants(lines[at])))
    if changed == lines[at]:
        return
    report = judge(run, b"".join([*lines[:at], changed, *lines[at + 1 :]]))
    assert report.exit_code == 1
    assert report.first_break is not None
    assert report.first_break.where.line is not None
    assert report.first_break.where.line >= at + 1


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=300), max_size=5))
def test_noise_is_never_taken_for_evidence_and_never_raises(bodies: list[bytes]) -> None:
    report = verify_lines(bodies, None)
    assert report.exit_code == 1
    assert report.first_break is not None


def test_a_remembered_head_finds_what_the_last_open_commit_cannot_show_itself() -> None:
    run = unsealed(2)
    run_with_event = SCENARIOS[2](seal=False)
    run_with_event.event("turn")
    run_with_event.commit()
    bodies = list(run_with_event.bodies)
    head = verify_lines(bodies, Kept(run)).head
    changed = [*bodies[:-1], bodies[-1].replace(b'"type":"turn"', b'"type":"verify"')]
    assert changed != bodies
    assert verify_lines(changed, Kept(run)).exit_code == 4
    report = verify_lines(changed, Kept(run), expect_head=head)
    assert report.exit_code == 1
    assert report.first_break is not None
    assert (report.first_break.code, report.first_break.where.commit) == ("HEAD_MISMATCH", len(bodies))
