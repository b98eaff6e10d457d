"""The context manager around a program that produces a report."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.contracts.records import Seal
from reenact.provenance import (
    CaptureError,
    Conditions,
    ProviderRequest,
    ReenactModel,
    ReenactSampling,
    ReenactSidecar,
    RunRef,
    Sidecar,
    parse_sidecar,
    record_report,
    request_id_from_headers,
)
from reenact.provenance.verify.verify import verify_reports
from tests.provenance.capture.repository import TOKEN, Repository
from tests.provenance.vector_files import load

MODELS = [ReenactModel("m", "anthropic"), ReenactModel("n", "openai")]


def written(repository: Repository) -> ReenactSidecar:
    sidecar = parse_sidecar((repository.root / "docs/r.replay.json").read_text())
    assert isinstance(sidecar, ReenactSidecar)
    return sidecar


def test_seeds_requests_and_conditions_are_collected_on_the_way(repository: Repository) -> None:
    repository.commit()
    with record_report(
        repository.report,
        "eval-live",
        ["eval"],
        repository.inputs,
        ReenactSampling(3),
        MODELS,
        Conditions(("raw", "compiled")),
    ) as recording:
        recording.seed(0, 11)
        recording.seed(2, -5)
        assert recording.request("m", {"Request-Id": "req_1"}, sample=0, condition="raw") == "req_1"
        assert recording.request("n", "req_2", sample=2) == "req_2"
        assert recording.request("n", {"content-type": "text/plain"}, sample=1) is None
        repository.report.write_text("# Report\n")
    sidecar = written(repository)
    assert sidecar.sampling.seeds == (11, None, -5)
    assert sidecar.models[0].requests == (ProviderRequest("req_1", 0, "raw"),)
    assert sidecar.models[1].requests == (ProviderRequest("req_2", 2, None),)
    assert sidecar.conditions == Conditions(("raw", "compiled"), ("raw",))
    assert verify_reports([str(repository.report)]).reports[0].checks[0].level == "ok"


def test_without_a_note_all_requested_conditions_count_as_run(repository: Repository) -> None:
    with record_report(repository.report, "eval", [], conditions=Conditions(("raw", "compiled"))):
        repository.report.write_text("# Report\n")
    assert written(repository).conditions.effective == ("raw", "compiled")
    assert written(repository).sampling.seeds == ()


def test_commit_and_dirtiness_are_those_from_before_the_run(repository: Repository) -> None:
    commit = repository.commit()
    with record_report(repository.report, "eval", [], repository.inputs):
        repository.write("scratch.txt", "made by the run")
        repository.commit()
        repository.report.write_text("# Report\n")
    assert (written(repository).commit, written(repository).dirty) == (commit, False)


def test_nothing_is_written_when_the_program_fails(repository: Repository) -> None:
    with pytest.raises(ZeroDivisionError), record_report(repository.report, "eval", []):
        repository.report.write_text("# Report\n")
        raise ZeroDivisionError
    assert repository.report.read_text() == "# Report\n"
    assert not (repository.root / "docs/r.replay.json").exists()


def test_an_input_that_the_run_changed_is_an_error(repository: Repository) -> None:
    with (
        pytest.raises(CaptureError, match="input token changed"),
        record_report(repository.report, "eval", [], repository.inputs),
    ):
        repository.write("tokens/t.yml", TOKEN + "x: 1\n")
        repository.report.write_text("# Report\n")


def test_a_program_that_writes_no_report_is_an_error(repository: Repository) -> None:
    with pytest.raises(CaptureError, match="no such report"), record_report(repository.report, "eval", []):
        pass


def test_notes_that_fit_nothing_are_errors_at_once(repository: Repository) -> None:
    with pytest.raises(CaptureError, match="same id"), record_report(repository.report, "eval", models=MODELS * 2):
        pass
    with record_report(repository.report, "eval", [], sampling=ReenactSampling(2), models=MODELS) as recording:
        with pytest.raises(CaptureError, match="sample 2"):
            recording.seed(2, 1)
        with pytest.raises(CaptureError, match="sample -1"):
            recording.request("m", "r", sample=-1)
        with pytest.raises(CaptureError, match="model x"):
            recording.request("x", "r")
        repository.report.write_text("# Report\n")


def test_the_originals_sidecar_can_be_recorded_too(repository: Repository) -> None:
    with record_report(
        repository.report, "eval-live", ["ahd"], repository.inputs, models=MODELS, schema_version=1, version="0.11.0"
    ) as recording:
        recording.request("m", "r1", sample=0, condition="raw")
        repository.report.write_text("# Report\n")
    sidecar = parse_sidecar((repository.root / "docs/r.replay.json").read_text())
    assert isinstance(sidecar, Sidecar)
    assert sidecar.models[0].provider_request_ids == ("r1",)


SEAL = Seal(
    attempts_root="0" * 64, commits=1, plan_hash=None, prev_store_seal="0" * 64, root="0" * 64, run_head="0" * 64,
    run_id="019b76da-a800-7000-8000-000000000001", seal_digest="cd" * 32, sealed_at="2026-01-01T00:00:00.000Z",
    status="completed", steps_planned=0, traces=0,
)  # fmt: skip


class Store:
    def __init__(self, *bodies: bytes) -> None:
        self._bodies = bodies

    def bodies(self, run_id: str) -> Iterator[bytes]:
        assert run_id == SEAL.run_id
        return iter(self._bodies)


class Run:
    def __init__(self, *bodies: bytes) -> None:
        self.run_id = SEAL.run_id
        self.store = Store(*bodies)


def test_a_report_is_tied_to_the_seal_of_its_run(repository: Repository) -> None:
    line = json.dumps({"kind": "seal", "seal": {"seal_digest": "cd" * 32}}).encode()
    for run in (SEAL, Run(b'{"kind":"commit"}\n', b'{"kind":"commit"}\n' + line + b"\n")):
        with record_report(repository.report, "eval", []) as recording:
            assert recording.tie_to(run) == RunRef(SEAL.run_id, "cd" * 32)
            repository.report.write_text("# Report\n")
        assert written(repository).run == RunRef(SEAL.run_id, "cd" * 32)


def test_a_run_without_a_seal_is_tied_to_nothing(repository: Repository) -> None:
    with record_report(repository.report, "eval", []) as recording:
        assert recording.tie_to(Run(b'{"kind":"commit"}\n')) is None
        assert recording.tie_to(Run()) is None
        repository.report.write_text("# Report\n")
    assert written(repository).run is None


PROGRAM = """\
from pathlib import Path
from reenact.provenance import record_report

with record_report("docs/r.md", "eval", inputs={"token": "tokens/t.yml"}) as recording:
    Path("docs/r.md").write_text("# Report\\n")
"""


def test_a_whole_program_records_its_own_command(repository: Repository) -> None:
    repository.write("eval.py", PROGRAM)
    commit = repository.commit()
    subprocess.run([sys.executable, str(repository.root / "eval.py"), "--n=2"], cwd=repository.root, check=True)
    sidecar = written(repository)
    assert sidecar.argv == (Path(sys.executable).name, "eval.py", "--n=2")
    assert sidecar.commit == commit
    markdown = repository.report.read_text()
    assert f"\ngit checkout {commit}\n{Path(sys.executable).name} eval.py --n=2\n" in markdown


@pytest.mark.parametrize("vector", load("header_vectors"))
def test_a_request_id_comes_from_the_header_that_the_original_takes(vector: dict[str, list[list[str]]]) -> None:
    pairs = [(name, value) for name, value in vector["headers"]]
    assert request_id_from_headers(pairs) == vector["id"]
