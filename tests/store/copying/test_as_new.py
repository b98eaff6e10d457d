"""A store copied as a new one: another id, secret and key; what ended there is verified as it was, the rest is held."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing

import pytest

from reenact.errors import KeyUnavailable, LockAcquireFailed, UsageError
from reenact.record.erase import erase
from reenact.record.recording import load_recording
from reenact.store.checks.verification import verify_run
from reenact.store.copying import moving
from reenact.store.copying.moving import Moved, give_up, move
from reenact.store.copying.taking import Taking
from reenact.store.doctor.examine import examine
from reenact.store.open import missing, open_evidence, open_source, open_store, open_target
from reenact.values.clock import SystemClock
from reenact.verify.report import Report
from tests.attacks.cells import COUNT_UP, pay, plan
from tests.cli.harness import Command, error_line
from tests.crash.harness import in_child
from tests.store.copying.test_moving import PLAN, WAYS, Places, bundles, copy, filled, places, quietly

__all__ = ["filled", "places"]
OF_A_LOG = ("seal.tlog-proof", "manifest.json")


def copy_as_new(source: str, target: str, progress: moving.Progress = quietly) -> Moved:
    with open_source(source) as one, open_target(target) as other:
        done = move(one, other, progress, Taking(as_new=True))
    for key, place in done.keys:
        shutil.copy(key, place)
    return done


def verdicts(url: str) -> list[tuple[int, str, str, str]]:
    """Of each run, without the word on its log."""
    with closing(open_store(url, to_read=True)) as store:
        found = [verify_run(url, row.run_id) for row in store.runs()]
    return [(each.exit_code, *words(each.report)) for each in found]


def words(report: Report) -> tuple[str, str, str]:
    return report.integrity, report.completeness, report.authenticity


@pytest.mark.parametrize(("one", "other"), WAYS[1:3])
def test_what_ended_is_verified_as_it_was_and_what_is_open_is_held(places: Places, one: str, other: str) -> None:
    source, target = places.filled(one), places.new(other)
    before = verdicts(source)
    done = copy_as_new(source, target)
    assert (done.runs, done.held, done.went_on) == (8, 4, False)
    with open_evidence(source) as here, open_evidence(target) as there:
        assert there.store_id() == done.store_id != here.store_id()
        assert there.key_secret() not in (None, here.key_secret())
        first = here.store_id()
    assert verdicts(target) == before == verdicts(source)
    with places.working(target) as runtime:
        rows = runtime.store.runs()
        assert sum(row.status == "held" for row in rows) == 4
        for row in rows:
            report = verify_run(target, row.run_id).report
            assert [note for note in report.notes if f"began in store {first}" in note], report.notes
            assert report.anchoring == "absent"
            with pytest.raises(KeyUnavailable, match=f"began in store {first}, and goes on there"):
                runtime.store.acquire(row.run_id, "somebody")
        assert {result.status for result in runtime.recover()} == {"held"}
        assert runtime.run(plan("counting", COUNT_UP)).status == "completed"
        paid = runtime.run(plan("paid", pay("paid")))
        assert not paid.outcomes[0].details.get("served_from"), "its keys are its own"
    assert verdicts(target)[:2] == [(0, "holds", "holds", "holds")] * 2
    assert verdicts(target)[2:] == before
    told = [finding for finding in examine(target, SystemClock()) if finding.verdict in ("trouble", "warning")]
    assert {finding.says for finding in told if finding.subject != "durability"} == {"is held"}, told
    with places.working(source) as runtime:
        assert runtime.run(PLAN).status == "completed", "the first one goes on"
        assert {result.status for result in runtime.recover()} > {"completed"}


@pytest.mark.parametrize(("one", "other"), WAYS[1:3])
def test_what_travels_from_the_copy_is_what_travelled_before_but_for_the_log(
    places: Places, one: str, other: str
) -> None:
    source, target = places.filled(one), places.new(other)
    before = bundles(source, places.folder / "before")
    copy_as_new(source, target)
    after = bundles(target, places.folder / "after")
    assert {name: data for name, data in before.items() if not name.endswith(OF_A_LOG)} == {
        name: data for name, data in after.items() if not name.endswith(OF_A_LOG)
    }


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_run_of_another_store_is_read_and_replayed_and_never_changed(places: Places, engine: str) -> None:
    source, target = places.filled("sqlite"), places.new(engine)
    copy_as_new(source, target)
    with places.working(target) as runtime:
        store = runtime.store
        ended = next(row for row in store.runs() if row.status == "completed")
        assert load_recording(store, ended.run_id).seal.status == "completed"
        with pytest.raises(KeyUnavailable, match="nothing of the run is changed here"):
            erase(store, ended.run_id, None, who="ada", reason="asked for")
        open_one = next(row for row in store.runs() if row.status == "held")
        with pytest.raises(KeyUnavailable, match="nothing of the run is changed here"):
            store.request_cancel(open_one.run_id, "no")


def test_stores_that_share_a_key_share_no_run(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key vouches for both; each head names its store."""
    source, target = places.filled("sqlite"), places.new("postgres")
    before = verdicts(source)
    monkeypatch.setenv("REENACT_SIGNING_KEY", f"{source.removeprefix('sqlite:///')}.key")
    copy_as_new(source, target)
    with places.working(target) as runtime:
        own = runtime.run(PLAN)
        assert own.status == "completed"
        assert runtime.store.log.advance() is not None
        for row in runtime.store.runs()[1:]:
            runtime.store.check_recorded(row.run_id)
            with pytest.raises(KeyUnavailable, match="and goes on there"):
                runtime.store.acquire(row.run_id, "somebody")
    assert verdicts(target) == [(0, "holds", "holds", "holds"), *before]
    notes = [note for run_id in (own.run_id, "last") for note in verify_run(target, run_id).report.notes]
    assert not [note for note in notes if "was not checked" in note]


@pytest.mark.parametrize(("one", "other"), WAYS[1:2])
def test_a_copy_of_a_copy_knows_both_stores(places: Places, one: str, other: str) -> None:
    source, second, third, moved = places.filled(one), places.new(other), places.new(one), places.new(other)
    before = verdicts(source)
    copy_as_new(source, second)
    with places.working(second) as runtime:
        assert runtime.run(PLAN).status == "completed"
    copy_as_new(second, third)
    assert verdicts(third) == [(0, "holds", "holds", "holds"), *before]
    with places.working(third) as runtime:
        assert runtime.run(PLAN).status == "completed"
    copy(third, moved)
    assert verdicts(moved) == [(0, "holds", "holds", "holds")] * 2 + before
    with open_evidence(moved) as evidence:
        assert len(evidence.origins().stores) == 2


def test_a_run_that_is_said_to_be_of_another_store_does_not_verify(places: Places) -> None:
    source, target = places.filled("sqlite"), places.new("postgres")
    copy_as_new(source, target)
    with closing(open_store(target)) as store:
        said = json.loads(store.database.ask("SELECT value FROM :schema.store WHERE key = 'copied_as_new'")[0][0])  # type: ignore[attr-defined]
        said[0]["last_run"] = 1
        sql = "UPDATE :schema.store SET value = %s WHERE key = 'copied_as_new'"
        store.database.call(sql, (json.dumps(said),))  # type: ignore[attr-defined]
    codes = {finding.code for finding in verify_run(target, "last").report.findings}
    assert {"STORE_MISMATCH"} <= codes
    with closing(open_store(target)) as store:
        store.database.call("UPDATE :schema.store SET value = 'x' WHERE key = 'copied_as_new'")  # type: ignore[attr-defined]


@pytest.mark.parametrize("steps", [30, 75])
def test_killed_at_any_point_it_goes_on_as_it_was_begun(
    places: Places, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places.filled("sqlite"), places.new("postgres")
    monkeypatch.setattr(moving, "ROWS", 3)
    left = [steps]

    def die(_what: str, _done: int, _total: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), 9)

    assert in_child(lambda: copy_as_new(source, target, die)) == 9
    with pytest.raises(UsageError, match="the beginning of another copy"):
        copy(source, target)
    done = copy_as_new(source, target)
    assert done.went_on
    assert verdicts(target) == verdicts(source)


def test_it_is_given_up_and_refused_like_any_copy(places: Places) -> None:
    source, target = places.filled("sqlite"), places.new("postgres")

    def die(what: str, _done: int, _total: int) -> None:
        if what == "copying":
            os.kill(os.getpid(), 9)

    assert in_child(lambda: copy_as_new(source, target, die)) == 9
    with open_source(source) as here, open_target(target) as there:
        give_up(here, there)
    assert missing(target) is not None
    with places.working(source) as runtime, runtime.session(id="at work", agent_id="clerk") as session:
        with pytest.raises(LockAcquireFailed, match="is being worked on"):
            copy_as_new(source, target)
        session.call("rate", {"currency": "EUR"})


@pytest.mark.parametrize(("one", "other"), WAYS[1:3])
def test_the_command_says_what_came_of_it_and_who_goes_on(places: Places, one: str, other: str) -> None:
    source, target = places.filled(one), places.new(other)
    reenact, data = Command(places.folder), {"XDG_DATA_HOME": str(places.folder / "data")}
    done = reenact("db", "copy", source, target, "--as-new", "--json", **data)
    assert (done.code, done.err) == (0, "")
    said = json.loads(done.out)
    assert (said["runs"], said["held"]) == (8, 4)
    again = reenact("db", "copy", source, target, "--as-new", **data)
    assert (again.code, "there is a store at" in error_line(again)) == (2, True)
    listed = json.loads(reenact("ls", "--json", "--store", target, **data).out)
    runs = {run["run_id"]: run["status"] for run in listed}
    assert sorted(runs.values()).count("held") == 4
    for status in ("completed", "held"):
        run_id = next(each for each in runs if runs[each] == status)
        verified = reenact("verify", run_id, "--store", target, **data)
        assert verified.code == (4 if status == "held" else 0), verified.out
        assert "of which this one is a copy: what is signed of it is signed for that one" in verified.out
    open_run = next(run_id for run_id, status in runs.items() if status == "held")
    skills = str(places.folder / "skills.py")
    for command in (
        ("resume", open_run, "--skills", skills),
        ("cancel", open_run, "--reason", "no"),
        ("erase", open_run, "--reason", "asked for", "--yes"),
    ):
        refused = reenact(*command, "--store", target, **data)
        assert (refused.code, "and goes on there" in error_line(refused)) == (4, True), (command, refused)
    recovered = reenact("recover", "--skills", skills, "--store", target, **data)
    assert recovered.code == 4
    assert reenact("db", "upgrade", "--as-new", **data).code == 2
    assert reenact("ls", "--store", source, **data).code == 0
