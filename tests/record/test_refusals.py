"""A recording that is cut, edited, newer, of another run or not yet ended: a precise refusal, never half a replay."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tools.vectors.writer import content, gzipped

from reenact.errors import DamagedRecord, EvidenceError, ReenactError, TornTail, UnknownVersion, UnsealedRecording
from reenact.record.bundle import load_bundle
from reenact.record.erase import erase
from reenact.record.export import export_run
from reenact.replay import Recording, load_recording, replay
from reenact.replay.runtime import Runtime
from reenact.store.base import Store
from tests.engines.places import store_at
from tests.replay.compare.forge import Forge
from tests.replay.recording import memory_runtime, mocked, record
from tests.replay.skills import registry
from tests.store.backends import Backend, backend_of

COMMITS = 4
PLAN: dict[str, Any] = {
    "plan_id": "refused",
    "agent_id": "agent",
    "steps": [
        {"step_id": "one", "skill_id": "reader", "skill_version": "1.0.0",
         "parameters": {"script": ["503", "ok"], "value": "a value"}},
        {"step_id": "two", "skill_id": "keyed", "skill_version": "1.0.0",
         "parameters": {"script": ["ok"], "value": "{{one.value}}"}},
    ],
}  # fmt: skip

Tamper = Callable[[Backend, Store, str], None]


def stored(folder: Path) -> tuple[Backend, Store, str]:
    runtime = memory_runtime()
    run_id = asyncio.run(record(runtime, PLAN))
    return backend_of(runtime.store, folder), runtime.store, run_id


def without(*commits: int) -> Tamper:
    def tamper(backend: Backend, store: Store, run_id: str) -> None:
        for n in commits:
            backend.remove_commit(store, run_id, n)

    return tamper


def rewrite(change: Callable[[bytes], bytes], *, n: int = COMMITS) -> Tamper:
    def tamper(backend: Backend, store: Store, run_id: str) -> None:
        backend.change_commit(store, run_id, n, change)

    return tamper


def last_payload(store: Store, run_id: str) -> tuple[str, bytes]:
    return [*store.payloads(run_id)][-1]


def payload_lost(backend: Backend, store: Store, run_id: str) -> None:
    backend.remove_payload(store, last_payload(store, run_id)[0])


def payload_edited(backend: Backend, store: Store, run_id: str) -> None:
    commitment, envelope = last_payload(store, run_id)
    backend.change_payload(store, commitment, envelope.replace(b"two", b"too"))


def another_runs_journal(backend: Backend, store: Store, run_id: str) -> None:
    """The run's row names the commits of another one."""
    other = Runtime(store, skills=registry())
    other_id = asyncio.run(record(other, {**PLAN, "plan_id": "other"}))
    backend.rename_run(store, run_id, "aside")
    backend.rename_run(store, other_id, run_id)


REFUSED: dict[str, tuple[Tamper, type[ReenactError], str]] = {
    "the last commit is gone": (without(COMMITS), TornTail, "no seal after commit 3: the recording was cut"),
    "a commit in the middle is gone": (without(2), DamagedRecord, "COMMIT_NUMBER"),
    "the first commit is gone": (without(1), DamagedRecord, "commit"),
    "every commit is gone": (without(*range(1, COMMITS + 1)), TornTail, "JOURNAL_EMPTY"),
    "the last line is torn": (rewrite(lambda body: body[:-10]), TornTail, "EVIDENCE_TORN_TAIL"),
    "the seal is gone": (
        rewrite(lambda body: body[: body.rindex(b"\n", 0, -1) + 1]), TornTail, "the recording was cut",
    ),
    "a code is edited": (
        rewrite(lambda body: body.replace(b'"ERR_HTTP_503"', b'"ERR_HTTP_502"'), n=2),
        DamagedRecord, "step one",
    ),
    "a line is no JSON": (
        rewrite(lambda body: body.replace(b'"seal":', b'seal":')),
        DamagedRecord,
        "LINE_NOT_CANONICAL",
    ),
    "a record is of a newer format": (
        rewrite(lambda body: body.replace(b"reenact.run.v1", b"reenact.run.v9"), n=1),
        UnknownVersion, "update reenact",
    ),
    "the seal is of a newer format": (
        rewrite(lambda body: body.replace(b"reenact.seal.v1", b"reenact.seal.v2")), UnknownVersion, "update reenact",
    ),
    "a value is lost": (payload_lost, DamagedRecord, "PAYLOAD_LOST"),
    "a value is edited": (payload_edited, DamagedRecord, "PAYLOAD_CHANGED"),
    "it is the journal of another run": (another_runs_journal, DamagedRecord, "its journal is that of run"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_store_is_refused_when(case: str, tmp_path: Path) -> None:
    tamper, error, words = REFUSED[case]
    backend, store, run_id = stored(tmp_path)
    assert mocked(load_recording(store, run_id)).matches
    tamper(backend, store, run_id)

    with pytest.raises(error) as caught:
        replay(backend.open() if backend.is_durable else store, run_id)
    message = str(caught.value)
    assert words in message
    assert run_id in message
    assert "\n" not in message


def test_a_recording_of_a_newer_release_is_refused_although_its_format_is_known(tmp_path: Path) -> None:
    _, store, run_id = stored(tmp_path)
    forge = Forge(load_recording(store, run_id))
    next(line["run"] for line in forge.lines() if line["kind"] == "run")["reenact_version"] = "99.0.0"

    with pytest.raises(UnknownVersion, match=r"recorded by reenact 99\.0\.0.*update reenact"):
        forge.recording()


def test_a_run_that_has_not_ended_is_refused_with_the_way_to_end_it(tmp_path: Path) -> None:
    backend, store, run_id = stored(tmp_path)
    backend.remove_commit(store, run_id, COMMITS)
    backend.change_status(store, run_id, "running")

    with pytest.raises(UnsealedRecording, match=f"reenact resume {run_id}") as caught:
        replay(store, run_id)
    assert caught.value.exit_code == 4


def test_erased_values_are_no_damage_and_behaviour_can_still_be_compared(tmp_path: Path) -> None:
    _, store, run_id = stored(tmp_path)
    erase(store, run_id, step_id="one", reason="asked for", who="somebody")

    result = mocked(load_recording(store, run_id))
    assert result.verdict == "matched"
    assert result.comparison is not None
    assert result.comparison.steps[0].verdicts["parameters"] == "not compared"
    assert result.comparison.steps[1].verdicts["parameters"] == "match"


def test_without_its_plan_a_run_cannot_be_replayed(tmp_path: Path) -> None:
    _, store, run_id = stored(tmp_path)
    erase(store, run_id, step_id=None, reason="asked for", who="somebody")

    with pytest.raises(EvidenceError, match=r"the plan of run .* was erased; it cannot be run again"):
        replay(store, run_id)


# -- exported folders -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    runtime = Runtime(store_at(folder / "store.db"), skills=registry())
    run_id = runtime.run(PLAN).run_id
    other = runtime.run({**PLAN, "plan_id": "other"}).run_id
    runtime.close()
    export_run(store_at(folder / "store.db"), run_id, folder / "whole")
    export_run(store_at(folder / "store.db"), other, folder / "other")
    export_run(store_at(folder / "store.db"), run_id, folder / "bare", payloads="none")
    return folder


def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return tamper


def exchange_journal(folder: Path) -> None:
    shutil.copy(folder.parent / "other" / "journal.jsonl", folder / "journal.jsonl")


BUNDLES: dict[str, tuple[Callable[[Path], None], type[ReenactError], str]] = {
    "its journal is cut": (edit("journal.jsonl", lambda data: data[:-30]), TornTail, "EVIDENCE_TORN_TAIL"),
    "its journal ends earlier": (
        edit("journal.jsonl", lambda data: data[: data.rindex(b'{"kind":"commit"')]), TornTail, "SEAL_MISSING",
    ),
    "its journal is edited": (
        edit("journal.jsonl", lambda data: data.replace(b"503", b"504", 1)), DamagedRecord, "journal.jsonl",
    ),
    "its plan is another": (
        edit("plan.json", lambda data: data.replace(b"a value", b"another")), DamagedRecord, "plan.json",
    ),
    "a value is gone": (
        edit("payloads.jsonl.gz", lambda data: gzipped(content(".gz", data).partition(b"\n")[2])),
        DamagedRecord, "PAYLOAD_LOST",
    ),
    "its journal is of another run": (exchange_journal, DamagedRecord, "journal.jsonl"),
    "its manifest is gone": (lambda folder: (folder / "manifest.json").unlink(), DamagedRecord, "MANIFEST_MISSING"),
    "it is of a newer format": (
        edit("manifest.json", lambda data: data.replace(b"reenact.bundle.v2", b"reenact.bundle.v7")),
        UnknownVersion, "update reenact",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BUNDLES)
def test_a_folder_is_refused_when(case: str, bundle: Path, tmp_path: Path) -> None:
    tamper, error, words = BUNDLES[case]
    folder = tmp_path / "whole"
    shutil.copytree(bundle / "whole", folder)
    shutil.copytree(bundle / "other", tmp_path / "other")
    assert mocked(load_bundle(folder)).matches
    tamper(folder)

    with pytest.raises(error) as caught:
        load_bundle(folder)
    assert words in str(caught.value)


def test_a_folder_without_values_is_refused_with_the_way_to_get_them(bundle: Path) -> None:
    with pytest.raises(EvidenceError, match="its values were left out of the export; export it with --payloads full"):
        load_bundle(bundle / "bare")


# -- every check is needed --------------------------------------------------------------------------------------------


NEEDED: dict[str, tuple[str, str]] = {
    "reenact.record.recording.refuse_broken": ("a code is edited", "a value is lost"),
    "reenact.record.recording.refuse_open": ("the last commit is gone", "the seal is gone"),
}


@pytest.mark.parametrize("check", NEEDED)
def test_without_a_check_some_damaged_recording_is_not_refused_as_it_must_be(check: str, tmp_path: Path) -> None:
    missed = []
    for case in NEEDED[check]:
        tamper, error, _ = REFUSED[case]
        backend, store, run_id = stored(tmp_path)
        tamper(backend, store, run_id)
        with patch(check, lambda *_: None):
            try:
                mocked(load_recording(store, run_id))
            except error:
                continue
            except Exception:
                missed.append(case)
            else:
                missed.append(case)

    assert missed


def test_without_the_check_of_the_release_a_newer_recording_is_replayed(tmp_path: Path) -> None:
    _, store, run_id = stored(tmp_path)
    forge = Forge(load_recording(store, run_id))
    next(line["run"] for line in forge.lines() if line["kind"] == "run")["reenact_version"] = "99.0.0"

    with patch("reenact.record.recording.refuse_newer", lambda _: None):
        assert isinstance(forge.recording(), Recording)
