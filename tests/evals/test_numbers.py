"""The numbers of a published evaluation are held against the run: they are made again from its evidence."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.evals.written import MARK
from reenact.provenance.hashing import hash_raw
from tests.cli.harness import Command
from tests.evals.samples import write_skills, write_spec


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    published(Command(folder), write_spec(folder, n=2, models=["m1"]))
    return folder


@pytest.fixture
def reenact(original: Path, tmp_path: Path) -> Command:
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return Command(tmp_path)


def published(command: Command, spec: Path, *more: str) -> None:
    done = command("eval", spec, "--skills", write_skills(command.folder), *more)
    assert done.code == 0, done.err


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def in_report(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: replaced(folder / "capitals.md", old, new)


def in_results(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: replaced(folder / "capitals.results.json", old, new)


CHANGES = {
    "the scores": (in_report("0.000", "0.833"), "report: differs: line "),
    "a line more": (in_report(MARK, f"And so it is.\n\n{MARK}"), "report: differs: "),
    "a line less": (in_report("|---|---|---|---|---|---|---|\n", ""), "report: differs: "),
    "the mark put up": (in_report("| model |", f"{MARK}\n| model |"), "report: differs: "),
    "the mark gone, and words below": (in_report(MARK, "We like m1."), "report: differs: "),
    "a score": (in_results('"score": 0.0', '"score": 1.0'), "results: differs: capitals.results.json"),
    "a mean": (in_results('"mean": 0.0', '"mean": 0.833'), "results: differs: capitals.results.json"),
    "an answer": (in_results("It is France", "It is Paris"), "results: differs: capitals.results.json"),
    "no results": (lambda folder: (folder / "capitals.results.json").unlink(), "results: missing: "),
}


def test_numbers_that_the_run_says_hold(reenact: Command) -> None:
    held = reenact("verify-replay", "--strict", "capitals.md")
    assert "ok    results: capitals.results.json is what the run in capitals.bundle comes to" in held.out
    assert "ok    report: it says what the run says" in held.out
    assert (held.code, "verdict: holds" in held.out) == (0, True)


def test_a_report_of_before_there_was_a_mark_is_read_to_its_end(reenact: Command) -> None:
    in_report(MARK, "")(reenact.folder)
    held = reenact("verify-replay", "--strict", "capitals.md")
    assert "ok    report: it says what the run says; it has no mark" in held.out
    assert (held.code, "verdict: holds" in held.out) == (0, True)


@pytest.mark.parametrize("name", CHANGES)
def test_numbers_that_the_run_does_not_say_are_found(reenact: Command, name: str) -> None:
    change, says = CHANGES[name]
    change(reenact.folder)
    found = reenact("verify-replay", "capitals.md")
    assert (found.code, "verdict: drifted" in found.out) == (1, True)
    assert f"FAIL  {says}" in found.out


def test_they_are_made_again_from_a_zip_and_from_a_store_too(reenact: Command) -> None:
    bundle = reenact.folder / "capitals.bundle"
    shutil.make_archive(str(bundle), "zip", bundle)
    shutil.rmtree(bundle)
    assert "what the run in capitals.bundle.zip comes to" in reenact("verify-replay", "capitals.md").out
    Path(f"{bundle}.zip").unlink()
    store = ("verify-replay", "capitals.md", "--store", reenact.store)
    held = reenact(*store)
    assert (held.code, "what the run in the store comes to" in held.out) == (0, True)
    in_report("0.000", "0.833")(reenact.folder)
    assert reenact(*store).code == 1


def test_without_evidence_it_says_that_the_numbers_were_not_checked(reenact: Command) -> None:
    shutil.rmtree(reenact.folder / "capitals.bundle")
    alone = reenact("verify-replay", "capitals.md")
    assert (alone.code, "warn  results: the numbers were not checked: " in alone.out) == (0, True)
    several = reenact("verify-replay", "capitals.md", ".")
    assert "verdict: holds" in several.out
    assert reenact("verify-replay", "--strict", "capitals.md").code == 1
    (reenact.folder / "capitals.results.json").unlink()
    assert reenact("verify-replay", "capitals.md").code == 1


def test_evidence_without_its_values_does_not_speak_for_numbers(reenact: Command) -> None:
    bundle = reenact.folder / "capitals.bundle"
    run_id = json.loads((bundle / "seal.json").read_bytes())["run_id"]
    shutil.rmtree(bundle)
    assert reenact("export", run_id, "--to", bundle, "--payloads", "none").code == 0
    done = reenact("verify-replay", "capitals.md")
    assert (done.code, "warn  results: the numbers were not checked: " in done.out) == (0, True)
    in_store = reenact("verify-replay", "--strict", "capitals.md", "--store", reenact.store)
    assert (in_store.code, "what the run in the store comes to" in in_store.out) == (0, True)


def test_what_a_person_wrote_below_the_mark_is_theirs_and_stays(reenact: Command) -> None:
    report = reenact.folder / "capitals.md"
    mine = "\n## What we make of it\n\nTelling helps: 0.000 without.\n"
    report.write_text(report.read_text(encoding="utf-8") + mine, encoding="utf-8")
    held = reenact("verify-replay", "--strict", report)
    assert (held.code, "what stands below its mark is its author's" in held.out) == (0, True)
    published(reenact, reenact.folder / "spec.json")
    assert report.read_text(encoding="utf-8").endswith(mine)
    report.write_bytes(report.read_bytes().replace(b"\n", b"\r\n"))
    assert reenact("verify-replay", "--strict", report).code == 0, "line ends may change"


def test_a_sidecar_that_disowns_the_run_beside_it_is_found(reenact: Command) -> None:
    sidecar = reenact.folder / "capitals.replay.json"
    document = json.loads(sidecar.read_bytes())
    document["run"] = None
    sidecar.write_text(json.dumps(document), encoding="utf-8")
    done = reenact("verify-replay", "capitals.md")
    assert (done.code, "run: differs: the sidecar names no run, and capitals.bundle lies" in done.out) == (1, True)


def test_a_sidecar_that_tells_of_another_beginning_or_other_seeds_is_found(reenact: Command) -> None:
    sidecar = reenact.folder / "capitals.replay.json"
    document = json.loads(sidecar.read_bytes())
    document["invoked_at"] = "2020-01-01T00:00:00.000Z"
    document["argv"].append("--jobs")
    document["sampling"]["seeds"][1] = 7
    sidecar.write_text(json.dumps(document), encoding="utf-8")
    done = reenact("verify-replay", "capitals.md")
    for name in ("invoked_at", "argv", "seeds"):
        assert f"FAIL  sidecar: differs: {name} is not what the run says" in done.out


def test_samples_that_the_run_was_not_scored_by_are_found(reenact: Command) -> None:
    """The hashes in a sidecar are anybody's to write; the digest of spec and data stands in the journal."""
    rows, sidecar = reenact.folder / "rows.jsonl", reenact.folder / "capitals.replay.json"
    before = hash_raw(rows.read_bytes())
    replaced(rows, '"Paris"', '"France"')
    replaced(sidecar, before, hash_raw(rows.read_bytes()))
    done = reenact("verify-replay", "capitals.md")
    assert (done.code, "results: differs: the run is one of another spec, or of other data" in done.out) == (1, True)


def test_at_a_commit_the_samples_are_those_of_that_commit(tmp_path: Path) -> None:
    command = Command(tmp_path)
    spec = write_spec(tmp_path, n=2, models=["m1"])
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (["init", "-q"], ["add", "spec.json", "rows.jsonl"], ["commit", "-qm", "the spec"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    published(command, spec)
    replaced(tmp_path / "rows.jsonl", '"Paris"', '"Lyon"')
    now = command("verify-replay", "capitals.md")
    assert (now.code, "warn  results: the numbers were not checked: data does not hold" in now.out) == (1, True)
    then = command("verify-replay", "--at-commit", "capitals.md")
    assert (then.code, "ok    results: " in then.out) == (0, True)


@pytest.mark.parametrize("score", [{"skill": "judge"}, {"regex": "\\b{capital}\\b"}])
def test_judgements_and_patterns_are_made_again(tmp_path: Path, score: dict[str, str]) -> None:
    command = Command(tmp_path)
    published(command, write_spec(tmp_path, score=score, models=["m1"], n=2), "--jobs", "2")
    assert command("verify-replay", "--strict", "capitals.md").code == 0
    in_report("1.000", "0.999")(tmp_path)
    assert command("verify-replay", "capitals.md").code == 1
