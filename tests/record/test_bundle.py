"""A run as a folder: complete, verifiable without the store, and never written over anything."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import jsonschema_rs
import pytest
from tools.vectors.writer import content

from reenact.errors import DamagedRecord, RunNotFound, StoreUnavailable, UsageError
from reenact.record.export import export_run
from reenact.store.open import open_evidence
from reenact.verify.verifier import verify_bundle
from tests.engines.places import store_at
from tests.store.checks.store_file import StoreFile, run_plan, tamper


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_an_exported_run_verifies_on_its_own(original: StoreFile, tmp_path: Path) -> None:
    exported = export_run(store_at(original.path), original.first, tmp_path / "bundle")
    report = verify_bundle(tmp_path / "bundle")
    assert report.exit_code == 0
    assert (report.integrity, report.completeness, report.authenticity) == ("holds", "holds", "holds")
    assert (exported.commits, exported.payloads) == (report.counts.commits, report.counts.payloads)
    assert (exported.sealed, exported.lost, exported.erased) == (True, 0, 0)


def test_the_manifest_names_every_file_with_its_digest_and_fits_its_schema(
    original: StoreFile, tmp_path: Path, root: Path
) -> None:
    folder = tmp_path / "bundle"
    export_run(store_at(original.path), original.first, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    schema = json.loads((root / "schemas" / "bundle_manifest.schema.json").read_text())
    jsonschema_rs.validator_for(schema).validate(manifest)
    assert names(folder) == {*manifest["files"], "manifest.json"}
    for name, digest in manifest["files"].items():
        assert sha256(content(name, (folder / name).read_bytes())).hexdigest() == digest
    with open_evidence(store_at(original.path)) as evidence:
        bodies = b"".join(row.body or b"" for row in evidence.run(original.number(original.first)).commits())
    assert (folder / "journal.jsonl").read_bytes() == bodies


def test_values_stay_at_home_when_they_are_not_asked_for(original: StoreFile, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    exported = export_run(store_at(original.path), original.first, folder, payloads="none")
    assert names(folder) == {
        "journal.jsonl",
        "keys.json",
        "manifest.json",
        "notes.jsonl",
        "seal.json",
        "seal.note",
        "seal.tlog-proof",
    }
    assert not (folder / "payloads").exists()
    assert exported.payloads == 0
    assert b"good morning" not in b"".join((folder / name).read_bytes() for name in names(folder))
    report = verify_bundle(folder)
    assert (report.exit_code, report.counts.withheld, report.counts.present) == (0, report.counts.payloads, 0)


def test_what_was_erased_goes_along_as_a_record_and_only_for_its_own_run(original: StoreFile, tmp_path: Path) -> None:
    exported = export_run(store_at(original.path), original.second, tmp_path / "second")
    assert (exported.erased, exported.lost) == (original.erased, 0)
    report = verify_bundle(tmp_path / "second")
    assert (report.exit_code, report.counts.erased) == (0, original.erased)
    export_run(store_at(original.path), original.first, tmp_path / "first")
    assert not (tmp_path / "first" / "erasures.jsonl").exists()


def test_a_lost_payload_is_counted_and_breaks_the_bundle(original: StoreFile, tmp_path: Path) -> None:
    path = original.copy(tmp_path / "copy.db")
    tamper(path, ("DELETE FROM payloads WHERE id = (SELECT min(id) + 1 FROM payloads)", ()))
    exported = export_run(store_at(path), original.first, tmp_path / "bundle")
    assert exported.lost == 1
    report = verify_bundle(tmp_path / "bundle")
    assert report.exit_code == 1
    assert report.first_break is not None
    assert report.first_break.code == "PAYLOAD_LOST"


def test_a_run_without_a_seal_can_be_exported_and_is_open(original: StoreFile, tmp_path: Path) -> None:
    exported = export_run(store_at(original.path), original.killed, tmp_path / "bundle")
    assert not exported.sealed
    assert not (tmp_path / "bundle" / "seal.json").exists()
    report = verify_bundle(tmp_path / "bundle")
    assert (report.exit_code, report.integrity, report.completeness) == (4, "holds", "open")


def test_nothing_is_overwritten(original: StoreFile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("file", "full", "link"):
        with pytest.raises(UsageError):
            export_run(store_at(original.path), original.first, tmp_path / name)
    assert (tmp_path / "full" / "file").read_text() == "mine"
    assert list((tmp_path / "empty").iterdir()) == []
    export_run(store_at(original.path), original.first, tmp_path / "empty")
    assert verify_bundle(tmp_path / "empty").exit_code == 0


def test_a_bundle_appears_whole_or_not_at_all(original: StoreFile, tmp_path: Path) -> None:
    path = original.copy(tmp_path / "copy.db")
    tamper(path, ("UPDATE commits SET body = x'09' WHERE id = (SELECT min(id) + 2 FROM commits)", ()))
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(DamagedRecord, match="commit 3"):
        export_run(store_at(path), original.first, target / "bundle")
    assert list(target.iterdir()) == []
    with pytest.raises(RunNotFound):
        export_run(store_at(path), "ffff", target / "bundle")
    with pytest.raises(StoreUnavailable):
        export_run(store_at(path), original.last, tmp_path / "copy.db" / "bundle")
    assert list(target.iterdir()) == []


def test_two_exports_of_a_run_are_the_same_bytes(original: StoreFile, tmp_path: Path) -> None:
    for name in ("one", "two"):
        export_run(store_at(original.path), original.last, tmp_path / name)
    for name in names(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_export_of_a_run_knows_nothing_of_the_others(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    first, second = run_plan(store), run_plan(store)
    export_run(store_at(store), first, tmp_path / "bundle")
    whole = b"".join(path.read_bytes() for path in (tmp_path / "bundle").rglob("*") if path.is_file())
    assert first.encode() in whole
    assert second.encode() not in whole
