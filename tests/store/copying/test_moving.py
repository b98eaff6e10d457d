"""A store copied into another place is the same store there, and nobody writes to the first one any more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from reenact.cli.options import open_runtime
from reenact.contracts.facts import Facts
from reenact.errors import DamagedRecord, LockAcquireFailed, ReenactError, StoreError, UsageError
from reenact.record.export import export_evidence
from reenact.replay.runtime import Runtime
from reenact.runtime.call.doubt import Late, vouched
from reenact.store.checks.verification import verify_run
from reenact.store.copying import moving
from reenact.store.copying.moving import Moved, give_up, move
from reenact.store.doctor.examine import examine
from reenact.store.evidence import said_id
from reenact.store.open import open_evidence, open_source, open_store, open_target
from reenact.values.clock import SystemClock
from tests.attacks.cells import COUNT_UP, fill, pay, plan, rate
from tests.crash.harness import in_child
from tests.store.checks.store_file import rewrite, tamper
from tests.store.copies import copy_store
from tests.store.units import TS

PLAN = plan("another", rate("a"), pay("another"))


def working(url: str) -> closing[Runtime]:
    return closing(open_runtime(url, [str(Path(url.removeprefix("sqlite:///")).with_name("skills.py"))]))


def quietly(_what: str, _done: int, _total: int) -> None:
    pass


def copy(source: str, target: str, progress: Callable[[str, int, int], None] = quietly) -> Moved:
    with open_source(source) as one, open_target(target) as other:
        return move(one, other, progress)


def bundles(url: str, folder: Path) -> dict[str, bytes]:
    """Every file of every run's bundle."""
    with open_evidence(url) as evidence:
        for number in evidence.run_numbers():
            run_id = said_id(evidence.run(number))
            assert run_id is not None
            export_evidence(evidence, run_id, folder / str(number))
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of which every table has rows."""
    path, runs = fill(tmp_path_factory.mktemp("filled"))
    tamper(path, ("DELETE FROM late_effects", ()))  # it names a call, and says nothing
    with closing(open_store(path)) as store:
        trace = store.trace_at(runs["cut off"], 0)
        assert trace is not None
        late = Late(
            trace_id=trace.trace_id, attempt=0, facts=Facts(), started_at=TS, ended_at=TS, latency_ms=1, output=1
        )
        store.add_late_effect(
            runs["cut off"], vouched(store, runs["cut off"], trace.trace_id, msgspec.to_builtins(late))
        )
    return path


@pytest.fixture
def source(filled: Path, tmp_path: Path) -> str:
    shutil.copy(filled.with_name("skills.py"), tmp_path)
    return f"sqlite:///{copy_store(filled, tmp_path / 'source.db')}"


@pytest.fixture
def target(source: str, tmp_path: Path) -> str:
    """A place where there is nothing but the key of the store."""
    shutil.copy(tmp_path / "source.db.key", tmp_path / "target.db.key")
    return f"sqlite:///{tmp_path / 'target.db'}"


def test_the_copy_is_the_same_store_with_its_id_numbers_and_chains(source: str, target: str, tmp_path: Path) -> None:
    before = bundles(source, tmp_path / "before")
    done = copy(source, target)
    assert (done.runs, done.went_on) == (7, False)
    assert bundles(target, tmp_path / "after") == before
    with open_evidence(source) as one, open_evidence(target) as other:
        assert one.store_id() == other.store_id() == done.store_id
        assert one.key_secret() == other.key_secret()
        assert one.run_numbers() == other.run_numbers()
    for store in (open_store(source, to_read=True), open_store(target, to_read=True)):
        assert len(store.runs()) == 7
        for row in store.runs():
            assert verify_run(store.url, row.run_id).exit_code in (0, 4)
        store.close()


def test_work_goes_on_in_the_copy(source: str, target: str) -> None:
    copy(source, target)
    with working(target) as runtime:
        assert {result.status for result in runtime.recover()} == {"completed", "held", "waiting"}
        counted = runtime.run(plan("counting", COUNT_UP))
        assert counted.outcomes[0].details["output"] == {"found": True, "value": 4}
        again = runtime.run(plan("paid", pay("paid")))
        assert again.outcomes[0].details["served_from"]


def test_the_source_says_where_it_went_and_takes_nothing_more(source: str, target: str) -> None:
    with working(source) as before:
        copy(source, target)
        with working(source) as after:
            for runtime in (before, after):
                with pytest.raises(StoreError, match=f"this store was moved to {target}: name that one"):
                    runtime.run(PLAN)
                open_run = next(row for row in runtime.store.runs() if row.status == "running")
                with pytest.raises(StoreError, match="was moved to"):
                    runtime.store.acquire(open_run.run_id, "somebody")
    assert verify_run(source, "last").report.notes == ()
    told = [finding for finding in examine(source, SystemClock()) if target in finding.says]
    assert [finding.verdict for finding in told] == ["note"]
    with pytest.raises(UsageError, match="was moved to"):
        copy(source, target + "2")


def test_there_and_back_every_bundle_is_the_same(source: str, target: str, tmp_path: Path) -> None:
    before = bundles(source, tmp_path / "before")
    copy(source, target)
    copy(target, f"sqlite:///{tmp_path / 'back.db'}")
    assert bundles(f"sqlite:///{tmp_path / 'back.db'}", tmp_path / "after") == before


def test_while_somebody_works_on_a_run_nothing_is_copied(source: str, target: str) -> None:
    with working(source) as runtime:
        with runtime.session(id="at work", agent_id="clerk", context={"allow_hosts": []}) as session:
            session.call("rate", {"currency": "EUR"})
            with pytest.raises(LockAcquireFailed, match="is being worked on"):
                copy(source, target)
            session.call("rate", {"currency": "EUR"})
        assert runtime.run(PLAN).status == "completed"
    copy(source, target)


@pytest.mark.parametrize("steps", [1, 9, 30, 80, 100])
def test_killed_at_any_point_it_goes_on(
    source: str, target: str, tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "ROWS", 3)
    before = bundles(source, tmp_path / "before")
    left = [steps]

    def die(_what: str, _done: int, _total: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), 9)

    ended = in_child(lambda: copy(source, target, die))
    assert ended == 9 or steps == 100
    if ended == 9:
        with pytest.raises(StoreError, match="is being copied to"), working(source) as runtime:
            runtime.run(PLAN)
        assert copy(source, target).went_on
    assert bundles(target, tmp_path / "after") == before


def test_a_copy_that_is_given_up_leaves_the_source_as_it_was(source: str, target: str, tmp_path: Path) -> None:
    def die(what: str, _done: int, _total: int) -> None:
        if what == "copying":
            os.kill(os.getpid(), 9)

    assert in_child(lambda: copy(source, target, die)) == 9
    with open_source(source) as one, open_target(target + "2") as other, pytest.raises(UsageError, match="not being"):
        give_up(one, other)
    with open_source(source) as one, open_target(target) as other:
        give_up(one, other)
    assert [path.name for path in tmp_path.glob("target.db*")] == ["target.db.key"]
    with working(source) as runtime:
        assert runtime.run(PLAN).status == "completed"
    assert verify_run(source, "last").report.notes == ()


def test_a_store_with_a_run_that_does_not_verify_stays_where_it_is(source: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "source.db"
    tamper(path, rewrite(path, 1 << 24 | 2, lambda body: body[:-2] + b" }\n"))
    with pytest.raises(DamagedRecord, match="does not verify; see `reenact verify"):
        copy(source, target)
    assert not Path(target.removeprefix("sqlite:///")).exists()
    with working(source) as runtime:
        assert runtime.run(PLAN).status == "completed"


def test_a_copy_goes_where_there_is_no_store(source: str, target: str) -> None:
    with working(target) as runtime:
        runtime.run(PLAN)
    with pytest.raises(UsageError, match="there is a store at"):
        copy(source, target)
    with pytest.raises(UsageError, match="to itself"):
        copy(source, source)
    with working(source) as runtime:
        assert runtime.run(PLAN).status == "completed"


def test_a_row_that_changes_under_way_is_found(source: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(what: str, _done: int, _total: int) -> None:
        if what == "verifying the copy":
            raise AssertionError("the copy was believed")
        if what == "copying":
            draft = Path(target.removeprefix("sqlite:///") + ".copying")
            tamper(draft, ("UPDATE kv SET value = x'00'", ()))

    with pytest.raises(ReenactError, match="row 1 of kv"):
        copy(source, target, change)
