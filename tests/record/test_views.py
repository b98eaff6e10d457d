"""REPLAY.jsonl and RECEIPT.json in a bundle: what the journal says, the same each time, and nothing else passes."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import Runtime, SkillContext, skill
from reenact.record.erase import erase
from reenact.record.export import export_run
from reenact.trace import ReplayReader, SessionReceipt, verify_replay
from reenact.trace.hashing import canonical_hash
from reenact.values.canonical import canonicalize
from reenact.verify import views
from reenact.verify.verifier import verify_bundle
from tests.engines.places import opened, store_at
from tests.record.test_kinds_of_runs import ENDED, Story, a_session_that_waited, send
from tests.store.checks.store_file import StoreFile, run_plan, talk

SKILLS = [talk, send]


@pytest.fixture
def bundle(original: StoreFile, tmp_path: Path) -> Path:
    export_run(store_at(original.path), original.first, tmp_path / "bundle")
    return tmp_path / "bundle"


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "REPLAY.jsonl").read_text().splitlines()]


def named(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in events(folder) if event["event"] == kind]


def unpacked(data: bytes) -> bytes:
    """What the digest of packed payloads covers; of garbage, itself."""
    with suppress(OSError, EOFError, zlib.error):
        return gzip.decompress(data)
    return data


def rewrite(folder: Path, name: str, data: bytes) -> None:
    """Put other bytes in a file's place, and the manifest right again: no key is needed for that."""
    (folder / name).write_bytes(data)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"][name] = sha256(unpacked(data) if name.endswith(".gz") else data).hexdigest()
    manifest.pop("digest")
    manifest["digest"] = sha256(canonicalize(manifest)).hexdigest()
    path.write_bytes(canonicalize(manifest) + b"\n")


def first_code(folder: Path) -> str | None:
    report = verify_bundle(folder)
    assert (report.first_break is None) == (report.exit_code != 1)
    return None if report.first_break is None else report.first_break.code


def test_two_exports_are_the_same_bytes_and_fit_each_other(original: StoreFile, bundle: Path, tmp_path: Path) -> None:
    export_run(store_at(original.path), original.first, tmp_path / "again")
    for path in sorted(bundle.rglob("*")):
        if path.is_file():
            assert (tmp_path / "again" / path.relative_to(bundle)).read_bytes() == path.read_bytes()
    receipt = SessionReceipt.from_file(bundle / "RECEIPT.json")
    result = verify_replay(ReplayReader.from_file(bundle / "REPLAY.jsonl"), receipt)
    assert (result.success, result.mismatches) == (True, [])
    assert receipt.replay_hash == "sha256:" + sha256((bundle / "REPLAY.jsonl").read_bytes()).hexdigest()
    assert receipt.session_id == original.first


def test_it_says_what_happened_in_order(bundle: Path) -> None:
    told = [(event["event"], event.get("step_id")) for event in events(bundle)]
    of_steps = [
        (kind, None if kind == "ToolResult" else step)
        for step in ("first", "keyed", "again", "refused")
        for kind in ("ToolCall", "ToolResult", "StepComplete")
    ]
    start = [("ReplayHeader", None), ("SessionStart", None), ("PlanStart", None)]
    assert told == [*start, *of_steps, ("SessionEnd", None)]
    assert [(each["status"], each["iterations"]) for each in named(bundle, "StepComplete")] == [
        ("Success", 3), ("Success", 1), ("Success", 1), ("Failed", 0),
    ]  # fmt: skip
    assert [each["step_utility"] for each in named(bundle, "ToolResult")] == [0.2, 0.2, 0.2, -0.4]
    [start] = named(bundle, "SessionStart")
    assert (start["issue_number"], start["policy_version"]) == (None, "unversioned")


def test_hashes_cover_what_stands_there_and_previews_are_cut(bundle: Path) -> None:
    for call in named(bundle, "ToolCall"):
        assert call["params_hash"] == canonical_hash(call["params"])
    said = {"said": "good morning" * 40}
    result = named(bundle, "ToolResult")[0]
    assert result["output_hash"] == canonical_hash({"content": said, "error": None, "success": True})
    assert result["output_preview"] == canonicalize(said).decode()


@pytest.mark.parametrize("story", [*ENDED, a_session_that_waited], ids=lambda story: story.__name__)
def test_whatever_a_run_went_through_the_live_log_is_the_exported_one(story: Story, tmp_path: Path) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=SKILLS, replay_log=tmp_path / "logs")
    run_id = story(runtime)
    for row in runtime.store.runs():
        folder = tmp_path / row.run_id
        export_run(store_at(tmp_path / "store.db"), row.run_id, folder)
        assert verify_bundle(folder).first_break is None
        log = tmp_path / "logs" / f"{row.run_id}.jsonl"
        assert log.read_bytes() == (folder / "REPLAY.jsonl").read_bytes()
        receipt = SessionReceipt.from_file(folder / "RECEIPT.json")
        assert verify_replay(ReplayReader.from_file(log), receipt).mismatches == []
    ended = (tmp_path / "logs" / f"{run_id}.jsonl").read_text().splitlines()[-1]
    assert ('"event":"SessionEnd"' in ended) == (story is not a_session_that_waited)
    runtime.close()


GARBAGE: dict[str, Callable[[bytes], bytes]] = {
    "other bytes": lambda _: b"garbage\n",
    "nothing": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "one byte more": lambda data: data + b"\n",
    "a digit": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_no_file_of_a_bundle_is_decoration(kind: str, original: StoreFile, tmp_path: Path) -> None:
    """Garbage in the place of any one, its digest in the manifest made right: found, and blamed on that file."""
    export_run(store_at(original.path), original.second, tmp_path / "whole")
    files = sorted(json.loads((tmp_path / "whole" / "manifest.json").read_text())["files"])
    assert {"REPLAY.jsonl", "RECEIPT.json", "plan.json", "seal.json", "keys.json", "notes.jsonl"} <= set(files)
    for name in files:
        whole = (tmp_path / "whole" / name).read_bytes()
        rewrite(tmp_path / "whole", name, GARBAGE[kind](whole))
        report = verify_bundle(tmp_path / "whole")
        assert report.exit_code == 1, name
        assert report.first_break is not None
        if name in ("REPLAY.jsonl", "RECEIPT.json"):
            assert report.first_break.code == name.partition(".")[0] + "_MISMATCH"
            assert report.first_break.where.file == name
        rewrite(tmp_path / "whole", name, whole)
    assert verify_bundle(tmp_path / "whole").exit_code == 0


def test_a_line_that_is_changed_added_left_out_or_moved_is_found_where_it_stands(bundle: Path) -> None:
    lines = (bundle / "REPLAY.jsonl").read_bytes().splitlines(keepends=True)
    changed = [line.replace(b'"step_utility":0.2', b'"step_utility":1', 1) for line in lines]
    for number, other in (
        (5, changed),
        (7, lines[:6] + lines[7:]),
        (4, [*lines[:3], lines[4], lines[3], *lines[5:]]),
        (6, [*lines[:5], lines[4], *lines[5:]]),
    ):
        rewrite(bundle, "REPLAY.jsonl", b"".join(other))
        report = verify_bundle(bundle)
        assert report.first_break is not None
        assert report.first_break.what == f"line {number} of REPLAY.jsonl is not what the journal says"
    rewrite(bundle, "REPLAY.jsonl", b"".join(lines[:-1]))
    assert verify_bundle(bundle).first_break.what == "REPLAY.jsonl ends too early"  # type: ignore[union-attr]
    rewrite(bundle, "REPLAY.jsonl", b"".join([*lines, lines[-1]]))
    assert "goes on after line" in verify_bundle(bundle).first_break.what  # type: ignore[union-attr]


def test_a_receipt_that_fits_a_forged_log_is_found_too(bundle: Path) -> None:
    receipt = json.loads((bundle / "RECEIPT.json").read_text())
    receipt["tool_calls"][1]["step_utility"] = 1
    rewrite(bundle, "RECEIPT.json", canonicalize(receipt) + b"\n")
    found = verify_bundle(bundle).first_break
    assert found is not None
    assert (found.code, found.expected, found.got) == ("RECEIPT_MISMATCH", "0.2", "1")
    assert found.what == "RECEIPT.json is not what the journal says, at /tool_calls/1/step_utility"


def test_bundles_without_them_are_as_good_as_before(bundle: Path) -> None:
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in ("REPLAY.jsonl", "RECEIPT.json"):
        (bundle / name).unlink()
        del manifest["files"][name]
    manifest.pop("digest")
    manifest["digest"] = sha256(canonicalize(manifest)).hexdigest()
    path.write_bytes(canonicalize(manifest) + b"\n")
    assert first_code(bundle) is None


def test_where_values_stay_at_home_neither_is_written_nor_believed(original: StoreFile, tmp_path: Path) -> None:
    export_run(store_at(original.path), original.first, tmp_path / "bundle", payloads="none")
    assert not (tmp_path / "bundle" / "REPLAY.jsonl").exists()
    rewrite(tmp_path / "bundle", "REPLAY.jsonl", b"{}\n")
    assert first_code(tmp_path / "bundle") == "MANIFEST_MALFORMED"


def test_what_was_erased_is_marked_and_no_hash_of_it_is_left(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run_id = run_plan(path)
    export_run(store_at(path), run_id, tmp_path / "before")
    with closing(opened(path)) as store:
        erase(store, run_id, "first", reason="asked for", who="ann")
    export_run(store_at(path), run_id, tmp_path / "after")
    assert verify_bundle(tmp_path / "after").exit_code == 0
    call, result = named(tmp_path / "after", "ToolCall")[0], named(tmp_path / "after", "ToolResult")[0]
    assert call["params"] == {"$erased": True}
    assert call["params_hash"] == canonical_hash({"$erased": True})
    assert result["output_preview"] == '{"$erased":true}'
    before = tmp_path / "before"
    gone = [named(before, "ToolCall")[0]["params_hash"], named(before, "ToolResult")[0]["output_hash"]]
    after = (tmp_path / "after" / "REPLAY.jsonl").read_text() + (tmp_path / "after" / "RECEIPT.json").read_text()
    assert not any(hashed in after for hashed in gone)


def test_more_than_255_attempts_are_capped_and_said_whole_beside_it(tmp_path: Path) -> None:
    @skill("stubborn", version="1.0.0", tool_class="read", idempotent=True)
    def stubborn(ctx: SkillContext) -> int:
        """Works at last."""
        if ctx.attempt < 299:
            raise TimeoutError("not yet")
        return ctx.attempt

    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[stubborn])
    retry = {"max_retries": 300, "backoff_base_ms": 0, "max_backoff_ms": 0}
    steps = [{"step_id": "s", "skill_id": "stubborn", "retry": retry}]
    run = runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps})
    export_run(store_at(tmp_path / "store.db"), run.run_id, tmp_path / "bundle")
    [done] = named(tmp_path / "bundle", "StepComplete")
    assert (done["iterations"], done["iterations_total"], done["status"]) == (255, 300, "Success")
    runtime.close()


def test_a_session_tells_its_issue_its_policy_its_checks_and_how_sure_it_is(tmp_path: Path) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=SKILLS)
    with runtime.session(id="order-42", issue_number=42, policy_version="v1.2.3") as session:
        with session.lane("writer"):
            session.call("talk", {"text": "hello"})
        session.verify(["echo one", "false"])
        session.verify(["echo one", "true"])
        session.finish(confidence=0.92)
    export_run(store_at(tmp_path / "store.db"), session.run_id, tmp_path / "bundle")
    folder = tmp_path / "bundle"
    [start], [end], [plan] = named(folder, "SessionStart"), named(folder, "SessionEnd"), named(folder, "PlanStart")
    assert (start["issue_number"], start["policy_version"], start["session"]) == (42, "v1.2.3", "order-42")
    assert (end["confidence"], end["status"], plan["step_count"]) == (0.92, "Success", 1)
    assert named(folder, "ToolCall")[0]["step_id"] == "main.writer:1"
    checks = named(folder, "Verification")
    assert [(each["exit_codes"], each["verification_delta"]) for each in checks] == [([0, 1], 1), ([0, 0], 1)]
    assert checks[0]["outputs"][0]["stdout"]["text"] == "one\n"
    receipt = json.loads((folder / "RECEIPT.json").read_text())
    assert receipt["verification"] == {
        "ci_status": "fail", "commands_run": ["echo one", "false", "echo one", "true"], "exit_codes": [0, 1, 0, 0],
        "tests_after": 2, "tests_before": 0, "verification_delta": 2,
    }  # fmt: skip
    assert (receipt["final_confidence"], receipt["policy_bundle_id"], receipt["signature"]) == (0.92, "v1.2.3", None)
    runtime.close()


def test_a_receipt_of_any_length_is_compared_piece_by_piece(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PIECE", 64)
    monkeypatch.setattr(views, "IN_MEMORY", 64)
    assert first_code(bundle) is None
    whole = (bundle / "RECEIPT.json").read_bytes()
    for other in (whole[:-1], whole + b"\n", whole.replace(b"0.2", b"0.3"), b"{}\n", b"", whole[:200] + whole[199:]):
        rewrite(bundle, "RECEIPT.json", other)
        assert first_code(bundle) == "RECEIPT_MISMATCH"


@given(text=st.text(max_size=40))
def test_no_text_in_a_receipt_is_taken_for_the_place_of_its_calls(text: str) -> None:
    said = [text, f'"tool_calls":[]{text}', f'{text}\\"tool_calls":[]']
    written = b"".join(canonicalize({"policy_version": each}) for each in said)
    assert views.NO_CALLS not in written
