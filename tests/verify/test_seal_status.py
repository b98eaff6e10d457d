"""A seal says how the run ended, and that follows from the run: whoever seals it anew cannot make it end otherwise."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tools.vectors.pieces import b64, kid_of, public_bytes, uid
from tools.vectors.scenarios import CHANGES, FETCH, plan, refusals, session
from tools.vectors.writer import Run

from reenact.record.export import export_run
from reenact.replay.runtime import Runtime
from reenact.values.canonical import canonicalize
from reenact.values.digest import digest
from reenact.verify import Report, verify_bundle, verify_lines
from tests.engines.places import store_at
from tests.store.checks.store_file import PLAN, REGISTRY
from tests.verify.changing import JOURNAL, read_folder, remade, write_folder
from tests.verify.test_tampering import Kept

STATUSES = ("completed", "failed", "cancelled")


def judge(run: Run, *, with_values: bool = True) -> Report:
    keys = {kid_of(run.key): b64(public_bytes(run.key))}
    return verify_lines(run.bodies, Kept(run) if with_values else None, keys=keys)


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def ended(
    code: str,
    status: str,
    *,
    on_error: str | None = None,
    cancelled: bool = False,
    context: dict[str, Any] | None = None,
    record: dict[str, Any] | None = None,
) -> Run:
    """A run of one step that ends with this code, sealed with this status."""
    step = {**FETCH, **({} if on_error is None else {"on_error": on_error})}
    run = Run(0x9, plan("ends", [step], **(context or {})), change=record)
    trace = run.step(0).request(risk="READ", public=["method"])
    if code == "DENIED_DUPLICATE":
        trace.deny("duplicate", code, duplicate_of=uid(0x77))
    elif code == "ERR_PERMISSION_DENIED":
        trace.deny("permission", code)
    else:
        trace.approve().call()
        run.commit()
        good = code == "OK_HTTP_CALL"
        trace.attempt(code, facts={"http_status": 200 if good else 404}, response=CHANGES)
        trace.effect(code, **({"output": CHANGES} if good else {"status": "failure", "raw": "FAILURE"}))
    if cancelled:
        run.commit()
        run.event("cancel")
    run.seal(status)
    return run


@pytest.mark.parametrize("said", STATUSES)
@pytest.mark.parametrize(
    ("code", "fields", "status"),
    [
        ("OK_HTTP_CALL", {}, "completed"),
        ("ERR_HTTP_NOT_FOUND", {}, "failed"),
        ("ERR_HTTP_NOT_FOUND", {"on_error": "abort", "context": {"on_error": "continue"}}, "failed"),
        ("ERR_HTTP_NOT_FOUND", {"on_error": "continue"}, "completed"),
        ("ERR_HTTP_NOT_FOUND", {"context": {"on_error": "continue"}}, "completed"),
        ("ERR_PERMISSION_DENIED", {}, "failed"),
        ("ERR_PERMISSION_DENIED", {"on_error": "continue"}, "completed"),
        ("DENIED_DUPLICATE", {}, "completed"),
        ("OK_HTTP_CALL", {"cancelled": True}, "cancelled"),
        ("ERR_HTTP_NOT_FOUND", {"cancelled": True}, "cancelled"),
    ],
)
def test_a_run_of_a_plan_ended_as_its_steps_did(code: str, fields: dict[str, Any], status: str, said: str) -> None:
    findings = judge(ended(code, said, **fields)).findings
    told = [(finding.code, finding.expected, finding.got) for finding in findings]
    assert told == ([] if said == status else [("SEAL_STATUS", status, said)])


@pytest.mark.parametrize("said", STATUSES)
def test_a_session_does_not_fail_with_its_calls(said: str) -> None:
    run = session(seal=False)
    run.event("finish", data=run.plan)
    run.seal(said)
    assert codes(judge(run)) == ([] if said == "completed" else ["SEAL_STATUS"])


def test_without_the_plan_a_failed_step_leaves_open_whether_it_ended_the_run() -> None:
    for said in ("completed", "failed"):
        assert codes(judge(ended("ERR_HTTP_NOT_FOUND", said), with_values=False)) == []
    assert codes(judge(ended("OK_HTTP_CALL", "failed"), with_values=False)) == ["SEAL_STATUS"]
    assert codes(judge(refusals(), with_values=False)) == []


@pytest.mark.parametrize(
    ("mode", "parent", "good"),
    [
        ("live", None, True),
        ("live", uid(0x5), False),
        ("fork", None, False),
        ("fork", uid(0x5), True),
        ("full_replay", None, False),
        ("full_replay", uid(0x5), True),
        ("mock_replay", None, False),
        ("mock_replay", uid(0x5), True),
        ("dry_run", None, True),
        ("dry_run", uid(0x5), True),
    ],
)
def test_what_repeats_a_run_names_it_and_nothing_else_does(mode: str, parent: str | None, good: bool) -> None:
    run = ended("OK_HTTP_CALL", "completed", record={"mode": mode, "parent_run": parent})
    assert codes(judge(run)) == ([] if good else ["RUN_MISMATCH"])


# -- as the runtime writes it

FAILING: dict[str, object] = {
    **PLAN,
    "steps": [{"step_id": "s", "skill_id": "talk", "parameters": {"text": "no", "failures": 9}}],
}


def sealed_as(files: dict[str, bytes], status: str) -> dict[str, bytes]:
    """What somebody without a key can do to a bundle: another status, every digest made anew."""
    lines = files[JOURNAL].splitlines(keepends=True)
    seal = json.loads(lines[-1])["seal"]
    changed = {**seal, "status": status}
    changed["seal_digest"] = digest({key: value for key, value in changed.items() if key != "seal_digest"})
    lines[-1] = canonicalize({"kind": "seal", "seal": changed}) + b"\n"
    files = {name: data for name, data in files.items() if name != "seal.tlog-proof"}  # he has no log that signs his
    return remade({**files, JOURNAL: b"".join(lines), "seal.json": canonicalize(changed) + b"\n"})


def a_completed_run(runtime: Runtime) -> str:
    return runtime.run(PLAN).run_id


def a_failed_run(runtime: Runtime) -> str:
    return runtime.run(FAILING).run_id


def a_session(runtime: Runtime) -> str:
    async def loop() -> str:
        async with runtime.session(agent_id="a") as session:
            await session.call("talk", {"text": "no", "failures": 9})
        return session.run_id

    return asyncio.run(loop())


@pytest.mark.parametrize("story", [a_completed_run, a_failed_run, a_session], ids=lambda story: story.__name__)
def test_a_bundle_sealed_anew_with_another_status_is_found(story: Any, tmp_path: Path) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=REGISTRY)
    run_id = story(runtime)
    runtime.close()
    export_run(store_at(tmp_path / "store.db"), run_id, tmp_path / "bundle")
    files = read_folder(tmp_path / "bundle")
    status = json.loads(files["seal.json"])["status"]
    assert verify_bundle(write_folder(tmp_path / "same", sealed_as(files, status))).exit_code == 0
    for other in set(STATUSES) - {status}:
        report = verify_bundle(write_folder(tmp_path / other, sealed_as(files, other)))
        assert (report.exit_code, codes(report)) == (1, ["SEAL_STATUS", "NOTE_MALFORMED", "SEAL_NOT_SIGNED"]), other
