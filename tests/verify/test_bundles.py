"""Bundles on disk: good ones hold, changed ones are found, and where."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tools.vectors.pieces import b64, key_of, kid_of, public_bytes, uid
from tools.vectors.scenarios import refusals, session, three_steps
from tools.vectors.writer import Run, bundle_files, erasure

from reenact.errors import StoreUnavailable
from reenact.values.digest import ZERO_DIGEST
from reenact.verify import verify_bundle
from tests.conftest import ROOT
from tests.verify.changing import changed_files, read_folder, remade, write_folder

BUNDLES = ROOT / "test_vectors" / "bundles"
MUTATIONS = json.loads((BUNDLES / "mutations.json").read_text(encoding="utf-8"))["cases"]
SCENARIOS = {"three_steps": three_steps, "refusals": refusals, "session": session}


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_good_bundle_holds_in_every_respect_but_the_anchor(name: str) -> None:
    report = verify_bundle(BUNDLES / name)
    assert report.findings == ()
    assert (report.integrity, report.completeness, report.authenticity) == ("holds", "holds", "holds")
    assert report.anchoring == "absent"
    assert report.exit_code == 0
    run = SCENARIOS[name]()
    counts = report.counts
    assert (counts.commits, counts.traces, counts.attempts) == (len(run.bodies), len(run.traces), len(run.attempts))
    assert counts.payloads == counts.present == len(run.payloads)
    assert counts.signatures == sum("minted_capability" in t.artifacts["supervisor_decision"] for t in run.traces)


@pytest.mark.parametrize("case", MUTATIONS, ids=lambda case: case["name"])
def test_a_changed_bundle_is_judged_as_its_vector_says(case: dict[str, Any], tmp_path: Path) -> None:
    files = changed_files(read_folder(BUNDLES / case["bundle"]), case["changes"])
    if case["manifest"]:
        files = remade(files)
    report = verify_bundle(write_folder(tmp_path / "bundle", files))
    assert report.exit_code == case["exit_code"], report.findings
    first = report.first_break
    assert ("" if first is None else first.code) == case["code"], report.findings
    for key, value in case["where"].items():
        assert first is not None
        assert getattr(first.where, key) == value, report.findings


def test_the_manifest_alone_finds_every_change_that_nobody_covers_up(tmp_path: Path) -> None:
    files = bundle_files(three_steps())
    for name in files:
        if name == "manifest.json":
            continue
        flipped = dict(files)
        flipped[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])
        report = verify_bundle(write_folder(tmp_path / name.replace("/", "-"), flipped))
        assert report.exit_code == 1, name
        assert "FILE_CHANGED" in {f.code for f in report.findings} or name.startswith("payloads/"), name


def test_every_changed_byte_of_the_manifest_is_found_there(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, bundle_files(three_steps()))
    manifest = folder / "manifest.json"
    data = manifest.read_bytes()
    # Of a digest the digits at both ends: those between are read and compared in one go with them.
    between = {
        at for digest in re.finditer(rb"[0-9a-f]{64}", data) for at in range(digest.start() + 1, digest.end() - 1)
    }
    for at in sorted(set(range(len(data))) - between):
        manifest.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        report = verify_bundle(folder)
        assert report.exit_code == 1, data[at - 20 : at + 1]
        assert report.first_break is not None
        assert report.first_break.where.file == "manifest.json", data[at - 20 : at + 1]


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_run_without_a_seal_is_open_and_nothing_worse(name: str, tmp_path: Path) -> None:
    report = verify_bundle(write_folder(tmp_path, bundle_files(SCENARIOS[name](seal=False))))
    assert report.findings == ()
    assert (report.integrity, report.completeness, report.exit_code) == ("holds", "open", 4)


def test_erased_payloads_keep_integrity_and_are_counted(tmp_path: Path) -> None:
    run = three_steps()
    request = run.traces[2].artifacts["action_request"]
    named = [request["proposal"]["args"]["$commit"], request["meta"]["key"]]
    named += [item["hash"] for item in run.traces[2].artifacts["tool_effect"]["document_hashes"]]
    files = bundle_files(run, erasures=erased(run, named))
    report = verify_bundle(write_folder(tmp_path, files))
    assert report.findings == ()
    assert (report.exit_code, report.counts.erased) == (0, 4)
    assert report.counts.present == len(run.payloads) - 4


def erased(run: Run, commitments: list[str]) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for number, commitment in enumerate(commitments):
        prev = records[-1]["digest"] if records else ZERO_DIGEST
        records.append(erasure(commitment, run.run_id, prev, who="privacy@example.com", reason="asked", ms=number))
    return records


def test_a_value_that_was_erased_in_the_name_of_another_run_is_told(tmp_path: Path) -> None:
    run = three_steps()
    commitment = run.traces[2].artifacts["action_request"]["proposal"]["args"]["$commit"]
    other = erasure(commitment, uid(77), ZERO_DIGEST, who="privacy@example.com", reason="asked", ms=0)
    first = verify_bundle(write_folder(tmp_path, bundle_files(run, erasures=[other]))).first_break
    assert first is not None
    assert (first.code, first.where.payload, first.got) == ("ERASURE_CHAIN", commitment, uid(77))


def test_a_run_whose_plan_and_every_value_was_erased_still_holds(tmp_path: Path) -> None:
    run = three_steps()
    report = verify_bundle(write_folder(tmp_path, bundle_files(run, erasures=erased(run, list(run.payloads)))))
    assert report.findings == ()
    assert (report.exit_code, report.counts.present, report.counts.erased) == (0, 0, len(run.payloads))


def test_a_payload_that_was_erased_and_is_there_contradicts_its_record(tmp_path: Path) -> None:
    run = three_steps()
    commitment = run.traces[0].artifacts["action_request"]["proposal"]["args"]["$commit"]
    files = bundle_files(run, erasures=erased(run, [commitment]))
    files[f"payloads/{commitment}"] = run.payloads[commitment]
    report = verify_bundle(write_folder(tmp_path, remade(files)))
    assert report.exit_code == 1
    assert report.first_break is not None
    assert report.first_break.code == "PAYLOAD_NOT_ERASED"


def test_an_erasure_record_that_does_not_recompute_hides_nothing(tmp_path: Path) -> None:
    run = three_steps()
    commitment = run.traces[0].artifacts["action_request"]["proposal"]["args"]["$commit"]
    records = erased(run, [commitment])
    records[0]["who"] = "somebody else"
    report = verify_bundle(write_folder(tmp_path, bundle_files(run, erasures=records)))
    assert report.exit_code == 1
    assert {finding.code for finding in report.findings} == {"ERASURE_CHAIN", "ERASURE_SIGNATURE", "PAYLOAD_LOST"}


def test_payloads_that_were_left_out_are_neither_lost_nor_checked(tmp_path: Path) -> None:
    run = session()
    report = verify_bundle(write_folder(tmp_path, bundle_files(run, payloads="none")))
    assert report.findings == ()
    assert (report.exit_code, report.counts.withheld, report.counts.lost) == (0, len(run.payloads), 0)
    assert any("left out" in note for note in report.notes)


def test_without_keys_authenticity_is_absent_and_nothing_fails(tmp_path: Path) -> None:
    files = bundle_files(three_steps())
    del files["keys.json"]
    report = verify_bundle(write_folder(tmp_path, remade(files)))
    assert (report.exit_code, report.authenticity) == (0, "absent")
    assert any("no key" in note for note in report.notes)


def test_a_key_from_outside_is_used_instead_of_the_bundles_own(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, bundle_files(three_steps()))
    mine, other = key_of("store"), key_of("somebody else")
    assert verify_bundle(folder, keys={kid_of(mine): b64(public_bytes(mine))}).authenticity == "holds"
    assert verify_bundle(folder, keys={kid_of(other): b64(public_bytes(other))}).authenticity == "absent"


def test_a_folder_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="reenact export") as caught:
        verify_bundle(tmp_path / "nowhere")
    assert caught.value.exit_code == 3


def test_an_empty_folder_is_broken_evidence_and_no_error(tmp_path: Path) -> None:
    report = verify_bundle(tmp_path)
    assert report.exit_code == 1
    assert [finding.code for finding in report.findings] == ["MANIFEST_MISSING", "FILE_MISSING"]
