"""A session that went on as another run: what is exported of it is whole, and parent and child are named."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.errors import EvidenceError
from reenact.record.document import read_document
from reenact.record.export import export_run
from reenact.runtime.session.sync import SyncSession
from reenact.values.canonical import canonicalize
from reenact.values.digest import digest
from reenact.verify import verify_bundle
from tests.cli.harness import Command
from tests.engines.places import store_at
from tests.runtime.session.answering.programs import MADE, look, pay, runtime, start, stopped

FORK = {"on_divergence": "fork", "accept": ["main:2", "main:3"]}


def paying(*amounts: int) -> Callable[[SyncSession], list[object]]:
    return lambda session: [session.call("pay", {"amount": amount}).output for amount in amounts]


@pytest.fixture
def family(tmp_path: Path) -> list[str]:
    """Run ids of a session that forked twice, the newest first."""
    MADE.clear()
    stopped(tmp_path, paying(1, 2))

    def dies(session: SyncSession) -> None:
        paying(1, 3, 4)(session)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, dies, **FORK)
    start(tmp_path, paying(1, 3, 5), **FORK)
    store = runtime(tmp_path).store
    found = [row.run_id for row in store.runs()]
    assert [store.find_run(run_id).status for run_id in found] == ["completed", "cancelled", "cancelled"]
    return found


@pytest.fixture
def bundle(tmp_path: Path, family: list[str]) -> Path:
    exported = export_run(store_at(tmp_path / "store.db"), "order-42", tmp_path / "bundle")
    assert exported.parents == tuple(family[1:])
    return tmp_path / "bundle"


def replayed(bundle: Path, program: Callable[[SyncSession], list[object]]) -> list[object]:
    with Runtime(store_at(":memory:"), skills=[look, pay]).session(replay=bundle) as session:
        return program(session)


def test_a_bundle_answers_what_was_carried_over_from_both_parents(bundle: Path, tmp_path: Path) -> None:
    report = verify_bundle(bundle)
    assert (report.exit_code, report.authenticity) == (0, "holds"), report.findings
    made = list(MADE)
    assert replayed(bundle, paying(1, 3, 5)) == [{"paid": 1}, {"paid": 3}, {"paid": 5}]
    assert made == MADE
    done = Command(tmp_path)("replay", bundle)
    assert done.code == 0, done.err


def test_one_of_before_says_what_to_do(bundle: Path) -> None:
    shutil.rmtree(bundle / "parents")
    remade(bundle, lambda files: {name: sha for name, sha in files.items() if not name.startswith("parents/")})
    assert verify_bundle(bundle).exit_code == 0
    with pytest.raises(EvidenceError, match=r"continues one that it needs.*export it again"):
        replayed(bundle, paying(1, 3, 5))


def remade(folder: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    """The manifest with other files, its digest computed again."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = change(manifest["files"])
    del manifest["digest"]
    manifest["digest"] = digest(manifest)
    (folder / "manifest.json").write_bytes(canonicalize(manifest) + b"\n")


def test_what_is_wrong_with_a_parent_is_wrong_with_the_bundle(bundle: Path, family: list[str]) -> None:
    parent = bundle / "parents" / family[2]
    for name in ("journal.jsonl", "manifest.json", "seal.json", "keys.json"):
        before = (parent / name).read_bytes()
        (parent / name).write_bytes(re.sub(rb"[0-9]", lambda found: b"%d" % (9 - int(found[0])), before, count=1))
        report = verify_bundle(bundle)
        assert report.exit_code == 1, name
        assert report.first_break is not None
        assert str(report.first_break.where.file).startswith(f"parents/{family[2]}/"), name
        (parent / name).write_bytes(before)
    (parent / "extra").touch()
    assert [each.code for each in verify_bundle(bundle).findings] == ["FILE_EXTRA"]
    (parent / "extra").unlink()
    shutil.rmtree(parent)
    findings = verify_bundle(bundle).findings
    assert {each.code for each in findings} == {"FILE_MISSING"}
    assert any(f"parents/{family[2]}/" in each.what for each in findings)


def test_a_parent_that_nobody_continues_is_found(bundle: Path, family: list[str], tmp_path: Path) -> None:
    stranger = family[2][:-1] + ("0" if family[2][-1] != "0" else "1")
    shutil.copytree(bundle / "parents" / family[2], bundle / "parents" / stranger)
    assert [each.code for each in verify_bundle(bundle).findings] == ["FILE_EXTRA"]
    name = f"parents/{stranger}/manifest.json"
    remade(bundle, lambda files: {**files, name: files[f"parents/{family[2]}/manifest.json"]})
    assert "FILE_EXTRA" in {each.code for each in verify_bundle(bundle).findings}


def test_a_parent_of_another_store_is_not_believed(bundle: Path, family: list[str], tmp_path: Path) -> None:
    """Whoever has no key of the store brings a parent that he signed himself."""
    other = tmp_path / "other"
    other.mkdir()
    stopped(other, paying(1, 2))
    start(other, paying(1, 2))
    export_run(store_at(other / "store.db"), "order-42", tmp_path / "forged")
    parent = bundle / "parents" / family[1]
    keys = (tmp_path / "forged" / "keys.json").read_bytes()
    assert keys != (parent / "keys.json").read_bytes()
    (parent / "keys.json").write_bytes(keys)
    assert "KEY_HISTORY" in {each.code for each in verify_bundle(bundle).findings}


def test_a_link_in_the_place_of_a_parent_is_not_followed(bundle: Path, family: list[str], tmp_path: Path) -> None:
    parent = bundle / "parents" / family[1]
    parent.rename(tmp_path / "elsewhere")
    parent.symlink_to(tmp_path / "elsewhere")
    assert verify_bundle(bundle).exit_code == 1


def test_parent_and_child_name_each_other(tmp_path: Path, family: list[str]) -> None:
    newest, middle, oldest = family
    store = runtime(tmp_path).store
    documents = {run_id: read_document(store, run_id) for run_id in family}
    assert [documents[run_id]["parent_run"] for run_id in family] == [middle, oldest, None]
    assert [documents[run_id]["continued_by"] for run_id in family] == [None, newest, middle]
    (cancelled,) = [event for event in documents[oldest]["events"] if event["type"] == "cancel"]
    assert (
        cancelled["reason"] == f"continued by run {middle}: main:2 is recorded for something else: pay: /amount: 2 → 3."
    )
    command = Command(tmp_path)
    shown = {run_id: command("show", run_id).out for run_id in family}
    assert f"{middle}, which it continues" in shown[newest]
    assert f"{oldest}, which it continues" in shown[middle]
    assert f"{newest}, which continues it" in shown[middle]
    listed = {line[:36]: line for line in command("ls").out.splitlines()}
    assert listed[oldest].endswith(f"continued by {middle}")
    assert listed[newest].endswith(f"continues {middle}")
