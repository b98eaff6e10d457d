"""Somebody who can write the database wants another name, reason or time on an erasure, or one that nobody made."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.record.erase import erase
from reenact.record.export import export_run
from reenact.store.checks.verification import verify_run
from reenact.values.canonical import canonicalize, parse_json
from reenact.values.digest import digest
from reenact.verify import Report, verify_bundle


@skill("add", version="1.0.0", tool_class="read")
def add(value: int) -> int:
    return value + 1


STEPS = [{"step_id": f"s{n}", "skill_id": "add", "parameters": {"value": n}} for n in range(2)]
PLAN = {"plan_id": "p", "agent_id": "a", "steps": STEPS}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two steps erased one after the other, and a run sealed after them."""
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=[add])
    run_id = runtime.run(PLAN).run_id
    erase(runtime.store, run_id, "s0", who="ada", reason="asked to")
    runtime.run(PLAN)
    erase(runtime.store, run_id, "s1", who="ada", reason="asked to")
    runtime.close()
    return path


def rows(path: Path, sql: str, *values: object) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        found = db.execute(sql, values).fetchall()
        db.commit()
    return found


def chained(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every digest and link made to fit again."""
    last = "0" * 64
    for record in records:
        record.pop("digest", None)
        record["prev"] = last
        last = record["digest"] = digest(record)
    return records


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """The whole chain of erasures, changed consistently."""
    stored = rows(path, "SELECT run_no, body FROM erasures ORDER BY id")
    records = [parse_json(body, what="record") for _, body in stored]
    change(records)
    rows(path, "DELETE FROM erasures")
    for number, record in enumerate(chained(records), start=1):
        rows(path, "INSERT INTO erasures VALUES (?, ?, ?)", number, stored[0][0], canonicalize(record))


def first_run(path: Path) -> Report:
    ((run_id,),) = rows(path, "SELECT run_id FROM runs ORDER BY run_no LIMIT 1")
    return verify_run(str(path), run_id).report


def another_name(records: list[dict[str, Any]]) -> None:
    records[-1]["who"] = "eve"


def another_reason(records: list[dict[str, Any]]) -> None:
    records[0]["reason"] = "by law"


def another_time(records: list[dict[str, Any]]) -> None:
    records[0]["ts"] = "2020-01-01T00:00:00.000Z"


def one_more(records: list[dict[str, Any]]) -> None:
    records.append(dict(records[-1], commitment="a" * 64))


def others_dropped(records: list[dict[str, Any]]) -> None:
    del records[:]


def another_order(records: list[dict[str, Any]]) -> None:
    records.reverse()


def test_signed_as_they_are(path: Path) -> None:
    """The control: what nobody touched verifies, with signatures for every erasure."""
    report = first_run(path)
    assert report.exit_code == 0
    erased = rows(path, "SELECT count(*) FROM erasures")[0][0]
    assert erased >= 4
    assert rows(path, "SELECT count(*) FROM notes WHERE schema = 'reenact.erasure.v1'") == [(erased,)]


@pytest.mark.parametrize(
    "change", [another_name, another_reason, another_time, one_more, others_dropped, another_order]
)
def test_says_otherwise_who_when_and_why(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """The chain of erasures is computed anew over a changed record: no key signed that."""
    rewritten(path, change)
    report = first_run(path)
    assert report.exit_code == 1
    codes = {finding.code for finding in report.findings}
    assert codes & {"ERASURE_SIGNATURE", "ERASURE_CHAIN"}


def test_takes_the_signatures_away(path: Path) -> None:
    """Without its note a record is one that nobody signed, whatever it says."""
    rows(path, "DELETE FROM notes WHERE schema = 'reenact.erasure.v1'")
    rewritten(path, another_name)
    assert "ERASURE_SIGNATURE" in {finding.code for finding in first_run(path).findings}


def test_erases_what_nobody_erased(path: Path) -> None:
    """A payload is deleted and a fitting record made up for it."""
    ((run_no, commitment, row_id),) = rows(
        path, "SELECT r.run_no, hex(p.commitment), p.id FROM payloads p JOIN runs r ON r.run_no = p.id >> 36 "
        "ORDER BY p.id DESC LIMIT 1"
    )  # fmt: skip
    ((run_id,),) = rows(path, "SELECT run_id FROM runs WHERE run_no = ?", run_no)
    rows(path, "DELETE FROM payloads WHERE id = ?", row_id)
    stored = [parse_json(body, what="r") for (body,) in rows(path, "SELECT body FROM erasures ORDER BY id")]
    record = dict(stored[-1], commitment=commitment.lower(), run_id=run_id, prev=stored[-1]["digest"])
    record.pop("digest")
    record["digest"] = digest(record)
    rows(path, "INSERT INTO erasures (run_no, body) VALUES (?, ?)", run_no, canonicalize(record))
    report = verify_run(str(path), run_id).report
    assert report.exit_code == 1
    assert {finding.code for finding in report.findings} == {"ERASURE_SIGNATURE"}


def test_forgets_erasures_that_a_seal_has_counted(path: Path) -> None:
    """The newest erasures go with their notes: what a later seal counted is no longer there."""
    kept = rows(path, "SELECT record FROM notes WHERE schema = 'reenact.erasures.v1'")
    assert len(kept) == 1, "with the first seal after an erasure"
    counted = parse_json(kept[0][0], what="r")["erasures"]["count"]
    rows(path, "DELETE FROM erasures WHERE id >= ?", counted)
    assert "ERASURE_CHAIN" in {finding.code for finding in first_run(path).findings}


@pytest.mark.parametrize("with_notes", [True, False])
def test_rewrites_one_in_a_bundle(path: Path, tmp_path: Path, with_notes: bool) -> None:
    """Offline too: a changed record has no note of its own, and in a store that signs one without is made up."""
    ((run_id,),) = rows(path, "SELECT run_id FROM runs ORDER BY run_no LIMIT 1")
    folder = tmp_path / "bundle"
    export_run(str(path), run_id, folder)
    keys = parse_json((folder / "keys.json").read_bytes(), what="keys")
    assert verify_bundle(folder, keys=keys).authenticity == "holds"
    records = [parse_json(line, what="r") for line in (folder / "erasures.jsonl").read_bytes().splitlines()]
    records[-1]["who"] = "eve"
    chained(records)
    (folder / "erasures.jsonl").write_bytes(b"".join(canonicalize(record) + b"\n" for record in records))
    manifest = parse_json((folder / "manifest.json").read_bytes(), what="m")
    if not with_notes:
        (folder / "notes.jsonl").unlink()
        del manifest["files"]["notes.jsonl"]
    for name in ("erasures.jsonl", *(["notes.jsonl"] if with_notes else [])):
        manifest["files"][name] = sha256((folder / name).read_bytes()).hexdigest()
    manifest.pop("digest")
    manifest["digest"] = digest(manifest)
    (folder / "manifest.json").write_bytes(canonicalize(manifest) + b"\n")
    report = verify_bundle(folder, keys=keys)
    assert report.authenticity == "broken"
    unsigned = [finding.where.line for finding in report.findings if finding.code == "ERASURE_SIGNATURE"]
    assert unsigned == ([len(records)] if with_notes else [*range(1, len(records) + 1)])
