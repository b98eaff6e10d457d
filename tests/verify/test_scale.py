"""Long runs: checkpoints of the run are recomputed, and memory does not grow with what the values hold."""

from __future__ import annotations

import tracemalloc
from time import process_time
from typing import Any

from tools.vectors.pieces import b64, kid_of, public_bytes
from tools.vectors.scenarios import FETCH, plan
from tools.vectors.writer import Run

from reenact.values.canonical import canonicalize
from reenact.verify import Report, verify_lines
from reenact.verify.report import Findings
from reenact.verify.signed.notes import FolderNotes
from tests.verify.test_tampering import Kept


def long_run(count: int, *, size: int = 1, checkpoint: Any = None) -> Run:
    """A run of `count` steps whose outputs have about `size` bytes, with a run checkpoint every 64."""
    run = Run(0x9, plan("long", [{**FETCH, "step_id": f"s{index}"} for index in range(count)]))
    for index in range(count):
        trace = run.step(index).request(risk="READ", public=["method"]).approve().call()
        value = {"body": f"{index}".rjust(size)}
        trace.attempt("OK_HTTP_CALL", facts={"http_status": 200}, response=value)
        trace.effect("OK_HTTP_CALL", output=value)
        if index and index % 64 == 0:
            run.run_checkpoint(change=checkpoint)
        run.commit()
    run.seal()
    return run


def judge(run: Run) -> Report:
    return verify_lines(iter(run.bodies), Kept(run), keys={kid_of(run.key): b64(public_bytes(run.key))})


def peak(run: Run) -> int:
    """The most bytes that were held while the run was verified."""
    tracemalloc.start()
    report = judge(run)
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.exit_code == 0
    return highest


def test_a_long_run_with_checkpoints_holds() -> None:
    report = judge(long_run(200))
    assert report.findings == ()
    assert (report.exit_code, report.counts.traces, report.counts.commits) == (0, 200, 201)


def test_a_run_checkpoint_that_does_not_add_up_is_found_where_it_stands() -> None:
    report = judge(long_run(70, checkpoint={"root": "0" * 64}))
    assert [finding.code for finding in report.findings] == ["STATE_CHECKSUM_MISMATCH"]
    assert report.first_break is not None
    assert report.first_break.where.commit == 65


def test_memory_does_not_grow_with_what_the_values_hold() -> None:
    small, large = long_run(60, size=10), long_run(60, size=50_000)
    held = sum(map(len, large.payloads.values()))
    assert held > 2_900_000
    assert peak(large) - peak(small) < 500_000


def test_notes_are_found_by_what_they_are_about_however_many_there_are() -> None:
    """Each vote and each erasure asks for the notes about it: a bundle of 15 MB kept the verifier for half an hour."""
    about = [f"{number:064x}" for number in range(10_000)]
    line = {"kid": "a" * 16, "schema": "reenact.erasure.v1", "signature": "A" * 86, "store_id": "x"}
    notes = FolderNotes([canonicalize({**line, "digest": digest}) for digest in about], Findings())
    began = process_time()
    assert all(len(notes.about(digest)) == 1 for digest in about)
    assert process_time() - began < 1, "each with each takes three times as long"


def test_what_breaks_nothing_is_told_once_however_much_of_it_there_is() -> None:
    findings = Findings()
    began = process_time()
    for number in range(10_000):
        findings.note(f"values are archived in the bundle {number:064x}")
    assert len(findings.notes) == 10_000
    assert process_time() - began < 1.5, "each with each takes three times as long"
