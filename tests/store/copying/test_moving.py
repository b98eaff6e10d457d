"""A store copied into another place is the same store there, and nobody writes to the first one any more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count, takewhile
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
from reenact.store.deltas import DELTA
from reenact.store.doctor.examine import examine
from reenact.store.evidence import said_id
from reenact.store.open import missing, open_evidence, open_source, open_store, open_target
from reenact.values.clock import SystemClock
from tests.attacks.cells import COUNT_UP, fill, pay, plan, rate
from tests.crash.harness import in_child
from tests.postgres.fixtures import Schemas
from tests.store.checks.store_file import query, rewrite, tamper
from tests.store.copies import copy_store
from tests.store.units import TS

BIG = {"operation": "sort", "data": [f"a name that is one of many, number {number}" for number in range(300)]}
PLAN = plan("another", rate("a"), pay("another"))
ENGINES = ("sqlite", "postgres")
EVERY = os.environ.get("KILL_EVERY")
WAYS = [(one, other) for one in ENGINES for other in ENGINES]


def quietly(_what: str, _done: int, _total: int) -> None:
    pass


def copy(source: str, target: str, progress: Callable[[str, int, int], None] = quietly) -> Moved:
    """As the command does it; the keys are put where it says that they belong."""
    with open_source(source) as one, open_target(target) as other:
        done = move(one, other, progress)
    for key, place in done.keys:
        shutil.copy(key, place)
    return done


def bundles(url: str, folder: Path) -> dict[str, bytes]:
    """Every file of every run's bundle."""
    with open_evidence(url) as evidence:
        for number in evidence.run_numbers():
            run_id = said_id(evidence.run(number))
            assert run_id is not None
            export_evidence(evidence, run_id, folder / str(number))
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Places:
    """Stores of both engines, and the skills that their runs need."""

    def __init__(self, folder: Path, filled: Path, schema: Callable[[], str]) -> None:
        self.folder = folder
        self._filled = filled
        self._schema = schema
        self._skills = [str(shutil.copy(filled.with_name("skills.py"), folder))]
        self._count = 0

    def new(self, engine: str) -> str:
        """Where there is nothing yet."""
        self._count += 1
        return self._schema() if engine == "postgres" else f"sqlite:///{self.folder / f'store-{self._count}.db'}"

    def filled(self, engine: str) -> str:
        """A store of which every table has rows."""
        here = self.new("sqlite")
        copy_store(self._filled, Path(here.removeprefix("sqlite:///")))
        if engine == "sqlite":
            return here
        there = self.new(engine)
        copy(here, there)
        return there

    def working(self, url: str) -> closing[Runtime]:
        return closing(open_runtime(url, self._skills))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, runs = fill(tmp_path_factory.mktemp("filled"))
    tamper(path, ("DELETE FROM late_effects", ()))  # it names a call, and says nothing
    with closing(open_runtime(str(path), [str(path.with_name("skills.py"))])) as runtime:
        store = runtime.store
        trace = store.trace_at(runs["cut off"], 0)
        assert trace is not None
        late = Late(
            trace_id=trace.trace_id, attempt=0, facts=Facts(), started_at=TS, ended_at=TS, latency_ms=1, output=1
        )
        store.add_late_effect(
            runs["cut off"], vouched(store, runs["cut off"], trace.trace_id, msgspec.to_builtins(late))
        )
        sort = {"step_id": "sort", "skill_id": "json_transform", "parameters": BIG}
        assert runtime.run(plan("large", sort)).status == "completed"  # its output builds on its arguments
    assert any(bytes(row[0])[:1] == DELTA for row in query(path, "SELECT body FROM payloads"))  # type: ignore[call-overload]
    return path


@pytest.fixture
def places(filled: Path, tmp_path: Path, new_schema: Schemas) -> Iterator[Places]:
    with ExitStack() as schemas:
        yield Places(tmp_path, filled, lambda: schemas.enter_context(new_schema()))


@pytest.mark.parametrize(("one", "other"), WAYS[1:])
def test_the_copy_is_the_same_store_with_its_id_numbers_and_chains(places: Places, one: str, other: str) -> None:
    source, target = places.filled(one), places.new(other)
    before = bundles(source, places.folder / "before")
    done = copy(source, target)
    assert (done.runs, done.went_on) == (8, False)
    assert bundles(target, places.folder / "after") == before
    with open_evidence(source) as here, open_evidence(target) as there:
        assert here.store_id() == there.store_id() == done.store_id
        assert here.key_secret() == there.key_secret()
        assert here.run_numbers() == there.run_numbers()
    with closing(open_store(source, to_read=True)) as old, closing(open_store(target, to_read=True)) as new:
        assert old.runs() == new.runs()
        assert [verify_run(target, row.run_id).exit_code for row in new.runs()] == [0, 4, 4, 4, 4, 0, 0, 0]


def test_work_goes_on_in_the_copy_and_in_the_copy_of_that(places: Places) -> None:
    source, target, back = places.filled("sqlite"), places.new("postgres"), places.new("sqlite")
    copy(source, target)
    with places.working(target) as runtime:
        assert {result.status for result in runtime.recover()} == {"completed", "held", "waiting"}
        counted = runtime.run(plan("counting", COUNT_UP))
        assert counted.outcomes[0].details["output"] == {"found": True, "value": 4}
        again = runtime.run(plan("paid", pay("paid")))
        assert again.outcomes[0].details["served_from"]
    before = bundles(target, places.folder / "before")
    copy(target, back)
    assert bundles(back, places.folder / "after") == before
    with places.working(back) as runtime:
        counted = runtime.run(plan("counting", COUNT_UP))
        assert counted.outcomes[0].details["output"] == {"found": True, "value": 5}
        assert verify_run(back, "last").exit_code == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_the_source_says_where_it_went_and_takes_nothing_more(places: Places, engine: str) -> None:
    source, target = places.filled(engine), places.new("sqlite")
    with places.working(source) as before:
        copy(source, target)
        with places.working(source) as after:
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
        copy(source, places.new("sqlite"))


@pytest.mark.parametrize("engine", ENGINES)
def test_while_somebody_works_on_a_run_nothing_is_copied(places: Places, engine: str) -> None:
    source, target = places.filled(engine), places.new("sqlite")
    with places.working(source) as runtime:
        with runtime.session(id="at work", agent_id="clerk", context={"allow_hosts": []}) as session:
            session.call("rate", {"currency": "EUR"})
            with pytest.raises(LockAcquireFailed, match="is being worked on"):
                copy(source, target)
            session.call("rate", {"currency": "EUR"})
        assert runtime.run(PLAN).status == "completed"
    copy(source, target)


@pytest.mark.parametrize(("one", "other", "steps"), [
    ("sqlite", "sqlite", 30), ("sqlite", "postgres", 1), ("sqlite", "postgres", 50), ("postgres", "sqlite", 35),
    ("sqlite", "postgres", 110),
])  # fmt: skip
def test_killed_at_any_point_it_goes_on(
    places: Places, one: str, other: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "ROWS", 3)
    assert goes_on(places, one, other, steps)


@pytest.mark.skipif(EVERY is None, reason="the long form: KILL_EVERY says at how many points of a copy")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("one", "other"), WAYS)
def test_killed_at_every_point_it_goes_on(
    places: Places, one: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "ROWS", 3)
    points = count(1, int(EVERY or 1))
    killed = sum(1 for _ in takewhile(lambda point: goes_on(places, one, other, point), points))
    print(f"{one} to {other}: killed at {killed} points")
    assert killed > 5


def goes_on(places: Places, one: str, other: str, steps: int) -> bool:
    """A copy that is killed after so many steps; False where it has fewer."""
    source, target = places.filled(one), places.new(other)
    before = bundles(source, places.folder / f"before {steps}")
    left = [steps]

    def die(_what: str, _done: int, _total: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), 9)

    ended = in_child(lambda: copy(source, target, die))
    if ended == 0:
        return False
    assert ended == 9
    with pytest.raises(StoreError, match="is being copied to"), places.working(source) as runtime:
        runtime.run(PLAN)
    if other == "postgres":
        with pytest.raises(StoreError, match="not whole"):
            open_store(target)
    assert copy(source, target).went_on
    assert bundles(target, places.folder / f"after {steps}") == before
    return True


@pytest.mark.parametrize(("one", "other"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_copy_that_is_given_up_leaves_the_source_as_it_was(places: Places, one: str, other: str) -> None:
    source, target = places.filled(one), places.new(other)

    def die(what: str, _done: int, _total: int) -> None:
        if what == "copying":
            os.kill(os.getpid(), 9)

    assert in_child(lambda: copy(source, target, die)) == 9
    with (
        open_source(source) as here,
        open_target(places.new("sqlite")) as there,
        pytest.raises(UsageError, match="not being"),
    ):
        give_up(here, there)
    with open_source(source) as here, open_target(target) as there:
        give_up(here, there)
    assert missing(target) is not None
    with places.working(source) as runtime:
        assert runtime.run(PLAN).status == "completed"
    assert verify_run(source, "last").report.notes == ()


def test_a_store_with_a_run_that_does_not_verify_stays_where_it_is(places: Places) -> None:
    source, target = places.filled("sqlite"), places.new("postgres")
    path = Path(source.removeprefix("sqlite:///"))
    tamper(path, rewrite(path, 1 << 24 | 2, lambda body: body[:-2] + b" }\n"))
    with pytest.raises(DamagedRecord, match="does not verify; see `reenact verify"):
        copy(source, target)
    assert missing(target) is not None
    with places.working(source) as runtime:
        assert runtime.run(PLAN).status == "completed"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_goes_where_there_is_no_store(places: Places, engine: str) -> None:
    source, target = places.filled(engine), places.new(engine)
    with places.working(target) as runtime:
        runtime.run(PLAN)
    with pytest.raises(UsageError, match="there is a store at"):
        copy(source, target)
    with pytest.raises(UsageError, match="to itself"):
        copy(source, source)
    with places.working(source) as runtime:
        assert runtime.run(PLAN).status == "completed"


def test_a_row_that_changes_under_way_is_found(places: Places) -> None:
    source, target = places.filled("sqlite"), places.new("sqlite")

    def change(what: str, _done: int, _total: int) -> None:
        assert what != "verifying the copy", "the copy was believed"
        if what == "copying":
            tamper(Path(target.removeprefix("sqlite:///") + ".copying"), ("UPDATE kv SET value = x'00'", ()))

    with pytest.raises(ReenactError, match="row 1 of kv"):
        copy(source, target, change)
