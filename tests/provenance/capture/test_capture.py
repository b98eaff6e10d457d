"""What a capture records, when it looks, and what it refuses."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import HashingError, SidecarError
from reenact.provenance import (
    CaptureError,
    Conditions,
    Input,
    Model,
    ProviderRequest,
    ReenactModel,
    ReenactSampling,
    ReenactSidecar,
    ReplayBlock,
    RunRef,
    Sampling,
    Sidecar,
    compare_block,
    hash_raw,
    hash_structured,
    parse_sidecar,
    serialize_sidecar,
)
from reenact.provenance.capture.environment import command_line
from reenact.provenance.verify.verify import verify_reports
from reenact.values.clock import FixedClock
from tests.provenance.capture.repository import BRIEF, TOKEN, Repository

REPORT = "# Report\n\nBody.\n"


def capture(repository: Repository, kind: str = "nightly", **changes: Any) -> ReplayBlock:
    settings: dict[str, Any] = {"argv": ["eval"], "inputs": repository.inputs, "report": repository.report, **changes}
    return ReplayBlock.capture(kind, **settings)


def own(block: ReplayBlock) -> ReenactSidecar:
    assert isinstance(block.sidecar, ReenactSidecar)
    return block.sidecar


def test_everything_is_recorded(repository: Repository) -> None:
    commit = repository.commit()
    run = RunRef("019b76da-a800-7000-8000-000000000001", "ab" * 32)
    models = [ReenactModel("m", "anthropic", (ProviderRequest("req_1", 0, "raw"),)), Model("n", "openai", ("req_2",))]
    sidecar = own(
        capture(
            repository,
            sampling=ReenactSampling(2, 0.5, None, (7, 8)),
            models=models,
            conditions=Conditions(("raw", "compiled"), ("raw",)),
            run=run,
            clock=FixedClock(1_777_000_000_000),
        )
    )
    assert (sidecar.program, sidecar.version) == ("acme-evals", "1.4.0")
    assert (sidecar.commit, sidecar.dirty) == (commit, False)
    assert sidecar.invoked_at == "2026-04-24T03:06:40.000Z"
    assert sidecar.argv == ("eval",)
    assert [(one.name, one.path, one.hash, one.mode) for one in sidecar.inputs] == [
        ("token", "tokens/t.yml", hash_structured(TOKEN), "structured"),
        ("brief", "briefs/b.md", hash_raw(BRIEF.encode()), "raw"),
    ]
    assert sidecar.sampling.seeds == (7, 8)
    assert sidecar.models[0].requests == (ProviderRequest("req_1", 0, "raw"),)
    assert sidecar.models[1].requests == (ProviderRequest("req_2", None, None),)
    assert sidecar.run == run
    assert sidecar.runtime.startswith(("cpython-3.", "pypy-3."))
    assert "-" in sidecar.platform


def test_the_sidecar_and_the_block_are_written_and_hold(repository: Repository) -> None:
    repository.commit()
    block = capture(repository)
    repository.report.write_text(REPORT)
    place = block.write(repository.report)
    assert place == repository.root / "docs" / "r.replay.json"
    assert place.read_text() == serialize_sidecar(block.sidecar)
    assert parse_sidecar(place.read_text()) == block.sidecar
    markdown = repository.report.read_text()
    assert markdown == f"# Report\n\n{block.render()}\n\nBody.\n"
    assert compare_block(markdown, block.sidecar) == ()
    (report,) = verify_reports([str(repository.report)]).reports
    assert [check.level for check in report.checks] == ["ok"] * len(report.checks)
    assert {check.field for check in report.checks} >= {"token", "brief", "commit", "dirty", "version", "markdown"}


def test_a_second_capture_brings_the_block_up_to_date(repository: Repository) -> None:
    repository.commit()
    repository.report.write_text(REPORT)
    capture(repository, argv=["one"]).write(repository.report)
    block = capture(repository, argv=["two"])
    assert own(block).dirty is False
    block.write(repository.report)
    assert repository.report.read_text() == f"# Report\n\n{block.render()}\n\nBody.\n"


def test_a_version_1_sidecar_is_what_the_original_writes(repository: Repository) -> None:
    commit = repository.commit()
    block = capture(
        repository,
        "eval-live",
        argv=["node", "ahd", "eval-live"],
        version="0.11.0",
        sampling=Sampling(30, None, None),
        models=[ReenactModel("m", "p", (ProviderRequest("r", 0, "raw"),))],
        conditions=Conditions(("raw",), ("raw",)),
        schema_version=1,
        clock=FixedClock(1_777_000_000_000),
    )
    sidecar = block.sidecar
    assert isinstance(sidecar, Sidecar)
    assert serialize_sidecar(sidecar) == (
        "{\n"
        '  "schema_version": 1,\n'
        '  "kind": "eval-live",\n'
        '  "ahd_version": "0.11.0",\n'
        f'  "ahd_commit": "{commit}",\n'
        '  "git_dirty": false,\n'
        f'  "node_version": "{sidecar.node_version}",\n'
        f'  "platform": "{sidecar.platform}",\n'
        '  "invoked_at": "2026-04-24T03:06:40.000Z",\n'
        '  "argv": [\n    "node",\n    "ahd",\n    "eval-live"\n  ],\n'
        f'  "token": {{\n    "path": "tokens/t.yml",\n    "hash": "{hash_structured(TOKEN)}"\n  }},\n'
        f'  "brief": {{\n    "path": "briefs/b.md",\n    "hash": "{hash_raw(BRIEF.encode())}"\n  }},\n'
        '  "sampling": {\n    "n": 30,\n    "temperature": null,\n    "seed": null\n  },\n'
        '  "models": [\n    {\n      "id": "m",\n      "provider": "p",\n'
        '      "provider_request_ids": [\n        "r"\n      ]\n    }\n  ],\n'
        '  "conditions": {\n    "requested": [\n      "raw"\n    ],\n    "effective": [\n      "raw"\n    ]\n  }\n'
        "}\n"
    )
    repository.report.write_text(REPORT)
    block.write(repository.report)
    (report,) = verify_reports([str(repository.report)]).reports
    assert {check.level for check in report.checks} == {"ok"}


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "nightly", "version": "1"},
        {"kind": "critique", "inputs": {}},
        {"kind": "critique", "run": RunRef("r", "ab" * 32)},
    ],
)
def test_what_version_1_has_no_place_for_is_refused(repository: Repository, changes: dict[str, Any]) -> None:
    with pytest.raises((CaptureError, SidecarError)):
        capture(repository, schema_version=1, **changes)
    with pytest.raises(CaptureError, match="no other"):
        capture(
            repository, "critique", schema_version=1, inputs={**repository.inputs, "third": repository.inputs["brief"]}
        )


def test_a_tree_with_changes_is_dirty_and_one_without_a_commit_has_none(repository: Repository) -> None:
    sidecar = own(capture(repository))
    assert (sidecar.commit, sidecar.dirty) == (None, None)
    repository.git("init", "-q")
    sidecar = own(capture(repository))
    assert (sidecar.commit, sidecar.dirty) == (None, None)
    commit = repository.commit()
    assert own(capture(repository)).dirty is False
    repository.write("tokens/t.yml", TOKEN + "more: 1\n")
    sidecar = own(capture(repository))
    assert (sidecar.commit, sidecar.dirty) == (commit, True)
    repository.commit()
    assert own(capture(repository)).dirty is False
    repository.write("untracked.txt", "x")
    assert own(capture(repository)).dirty is True


def test_the_report_and_its_sidecar_do_not_make_the_tree_dirty(repository: Repository) -> None:
    repository.commit()
    repository.report.write_text(REPORT)
    capture(repository).write(repository.report)
    assert own(capture(repository)).dirty is False
    assert own(capture(repository, report=repository.root / "docs/other.md")).dirty is True


@pytest.mark.parametrize(
    ("file", "content", "mode", "expected"),
    [
        ("a.yaml", "a: 1\n", None, "structured"),
        ("a.json", "{}", None, "structured"),
        ("a.YML", "a: 1\n", None, "structured"),
        ("a.yml", "a: [", None, "raw"),
        ("a.txt", "a: 1\n", None, "raw"),
        ("a.txt", "a: 1\n", "structured", "structured"),
        ("a.yml", "a: 1\n", "raw", "raw"),
    ],
)
def test_an_input_is_hashed_by_value_where_it_has_one_and_by_its_bytes_elsewhere(
    repository: Repository, file: str, content: str, mode: Any, expected: str
) -> None:
    path = repository.write(file, content)
    (one,) = own(capture(repository, inputs={"x": Input(path, mode)})).inputs
    assert one.mode == expected
    assert one.hash == (hash_structured(content) if expected == "structured" else hash_raw(content.encode()))


def test_an_input_without_a_value_cannot_be_captured_by_value(repository: Repository) -> None:
    path = repository.write("a.yml", "a: [")
    with pytest.raises(HashingError):
        capture(repository, inputs={"x": Input(path, "structured")})


def test_paths_are_recorded_relative_to_the_root_from_wherever_they_are_given(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.root / "docs")
    sidecar = own(capture(repository, inputs={"token": "../tokens/t.yml"}, report="r.md"))
    assert sidecar.inputs[0].path == "tokens/t.yml"


def test_what_lies_outside_the_root_is_refused(repository: Repository, tmp_path: Path) -> None:
    repository.commit()
    outside = tmp_path / "secret.yml"
    outside.write_text("a: 1\n")
    (repository.root / "link.yml").symlink_to(outside)
    (repository.root / "linked").symlink_to(tmp_path)
    for path in (
        outside,
        repository.root / "link.yml",
        repository.root / "linked" / "secret.yml",
        repository.root / "..",
    ):
        with pytest.raises(CaptureError, match="input x"):
            capture(repository, inputs={"x": path})


def test_a_folder_a_fifo_and_a_missing_file_are_no_inputs(repository: Repository) -> None:
    os.mkfifo(repository.root / "pipe.yml")
    for name in ("docs", "pipe.yml", "none.yml"):
        with pytest.raises(CaptureError, match="input x"):
            capture(repository, inputs={"x": repository.root / name})


def test_the_report_cannot_be_its_own_input(repository: Repository) -> None:
    repository.report.write_text(REPORT)
    with pytest.raises(CaptureError, match="the report itself"):
        capture(repository, inputs={"x": repository.report})


def test_an_input_that_changed_meanwhile_stops_the_writing(repository: Repository) -> None:
    block = capture(repository)
    repository.report.write_text(REPORT)
    repository.write("tokens/t.yml", "# only a comment\n" + TOKEN)
    block.check_inputs()
    repository.write("tokens/t.yml", TOKEN.replace("black", "red"))
    with pytest.raises(CaptureError, match="input token changed"):
        block.write(repository.report)
    assert repository.report.read_text() == REPORT
    assert not (repository.root / "docs" / "r.replay.json").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such report"), (b"# \xff\n", "not UTF-8"), (b"```yaml ahd-replay\n", "closing fence")],
)
def test_a_report_that_cannot_take_a_block_stops_the_writing(
    repository: Repository, content: bytes | None, message: str
) -> None:
    block = capture(repository)
    if content is not None:
        repository.report.write_bytes(content)
    with pytest.raises(Exception, match=message):
        block.write(repository.report)
    assert not (repository.root / "docs" / "r.replay.json").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "No Such"},
        {"sampling": ReenactSampling(0)},
        {"sampling": ReenactSampling(2, seeds=(1,))},
        {"sampling": ReenactSampling(1, float("nan"))},
        {"sampling": ReenactSampling(1, float("inf"))},
        {"sampling": ReenactSampling(1, None, 2**53 + 1)},
        {"models": [ReenactModel("", "p")]},
        {"run": RunRef("r", "nope")},
        {"inputs": {"two words": "tokens/t.yml"}},
    ],
)
def test_what_would_not_read_back_is_refused_before_anything_is_written(
    repository: Repository, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.root)
    with pytest.raises(SidecarError):
        capture(repository, **changes)


def test_a_version_that_contradicts_the_manifest_is_refused(repository: Repository) -> None:
    with pytest.raises(CaptureError, match=r"manifest of acme-evals says 1\.4\.0"):
        capture(repository, version="9")
    assert own(capture(repository, program="other", version="9")).version == "9"


def test_a_report_outside_the_root_of_its_inputs_is_refused_unless_the_root_was_given(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit()
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text(REPORT)
    with pytest.raises(CaptureError, match="outside the root"):
        capture(repository).write(elsewhere)
    capture(repository, root=repository.root).write(elsewhere)
    assert elsewhere.with_name("elsewhere.replay.json").exists()


def test_the_command_line_names_files_below_the_root_as_any_checkout_has_them(repository: Repository) -> None:
    given = [
        "/usr/bin/python3.12",
        "-X",
        "dev",
        str(repository.root / "eval.py"),
        "/etc/hosts",
        str(repository.root),
        "--n=3",
    ]
    expected = ("python3.12", "-X", "dev", "eval.py", "/etc/hosts", str(repository.root), "--n=3")
    assert command_line(repository.root, given) == expected
    assert own(capture(repository, argv=None)).argv[1:] == command_line(repository.root)[1:]


def test_files_are_replaced_whole_and_keep_their_mode(repository: Repository) -> None:
    repository.report.write_text(REPORT)
    repository.report.chmod(0o640)
    before = repository.report.stat().st_ino
    capture(repository).write(repository.report)
    after = repository.report.stat()
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert after.st_ino != before
    assert sorted(path.name for path in repository.report.parent.iterdir()) == ["r.md", "r.replay.json"]


def test_a_failed_write_leaves_nothing_behind(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.report.write_text(REPORT)
    block = capture(repository)

    def no_space(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(CaptureError, match="No space left"):
        block.write(repository.report)
    assert [path.name for path in repository.report.parent.iterdir()] == ["r.md"]
    assert repository.report.read_text() == REPORT


def test_a_link_in_the_reports_place_is_followed(repository: Repository) -> None:
    repository.commit()
    real = repository.write("docs/real.md", REPORT)
    repository.report.symlink_to("real.md")
    block = capture(repository)
    block.write(repository.report)
    assert repository.report.is_symlink()
    assert block.render() in real.read_text()


def test_bytes_that_are_no_text_in_the_command_line_survive_in_our_own_schema(repository: Repository) -> None:
    argv = ["eval", os.fsdecode(b"\xff\xfe")]
    repository.report.write_text(REPORT)
    place = capture(repository, argv=argv).write(repository.report)
    assert parse_sidecar(place.read_text()).argv == tuple(argv)
    assert json.loads(place.read_text())["argv"][1] == "\udcff\udcfe"
    with pytest.raises(CaptureError, match="use our own schema"):
        capture(repository, "critique", argv=argv, schema_version=1).write(repository.report)
