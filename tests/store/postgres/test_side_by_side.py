"""Several processes at one store: through any pooler, under one budget, with one key, and some of them asleep."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import ConcurrentExecution, FundsTaken, KeyTaken
from reenact.runtime.lending import place_of
from reenact.store.base import Earmark
from reenact.store.checks.verification import verify_run
from reenact.store.open import open_store
from reenact.store.postgres.store import PostgresStore
from tests.postgres.fixtures import Schemas
from tests.postgres.pooler import Pooler
from tests.postgres.server import Server
from tests.store.postgres.work import Work
from tests.store.units import Run, payload, reservation

DAY = "2026-01-01"


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    with new_schema() as found:
        open_store(found).close()
        yield found


def opened(url: str) -> PostgresStore:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    return store


def forked(act: Callable[[], object]) -> int:
    """Its number; what it gives is its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 98
        try:
            code = int(act() or 0)  # type: ignore[call-overload]
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def in_processes(count: int, act: Callable[[int], object]) -> list[int]:
    """What each of so many processes did, at the same time; the exit codes."""
    gate_out, gate_in = os.pipe()
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            code = 9
            try:
                os.close(gate_in)
                os.read(gate_out, 1)  # until all are there
                code = int(act(number) or 0)  # type: ignore[call-overload]
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        pids.append(pid)
    os.close(gate_in)
    os.close(gate_out)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def test_all_of_it_goes_through_a_pooler_with_two_backends(url: str, pooler: Pooler) -> None:
    assert in_processes(4, lambda number: Work(opened(pooler.url_of(url)), f"w{number}").all()) == [0] * 4
    assert pooler.transactions > 200
    store = opened(url)
    assert store.log.rows.seal_count() == 4
    assert len(store.erasures()) == 4 * 6
    store.close()


@skill("double", version="1.0.0", tool_class="read")
def double(value: int) -> int:
    """Twice as much."""
    return 2 * value


def test_a_plan_runs_and_verifies_through_a_pooler(url: str, pooler: Pooler) -> None:
    through = pooler.url_of(url)
    runtime = Runtime(through, skills=[double])
    steps = [{"step_id": f"s{at}", "skill_id": "double", "parameters": {"value": at}} for at in range(4)]
    run = runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps})
    runtime.close()
    assert verify_run(through, run.run_id).exit_code == 0


def test_it_is_the_same_store_wherever_the_process_stands(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs in this process is known by it: a call is not sent beside itself by another runtime."""
    with closing(opened(url)) as store:
        before = place_of(store)
        monkeypatch.chdir(tmp_path)
        assert place_of(store) == before == store.url


def test_a_process_has_at_most_four_connections(url: str, postgres: Server) -> None:
    before = len(postgres.backends())
    stores = [opened(url) for _ in range(5)]
    for number, store in enumerate(stores):
        Work(store, f"w{number}").all()
    with stores[0].evidence() as one, stores[1].evidence() as other:
        assert one.store_id() == other.store_id()
        Work(stores[2], "beside").all_but_looking()
        assert len(postgres.backends()) - before <= 4
    for store in stores:
        store.close()


def test_threads_that_write_large_values_at_once_keep_them_apart(url: str) -> None:
    store, wrong = opened(url), list[str]()

    def write(number: int) -> None:
        run = Run(f"run-{number}")
        lease = store.append(run.unit()[0], None, owner="a").lease
        values = [payload(bytes([97 + number]) * 5000 + b"%d" % at) for at in range(8)]
        for n, value in enumerate(values, 2):
            store.append(run.unit(n=n, new=False, payloads=[value])[0], lease)
        if dict(store.payloads(run.run_id)) != {value.commitment: value.envelope for value in values}:
            wrong.append(run.run_id)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(store.runs()) == 6
    store.close()


LIMIT, PRICE, PROCESSES, SLEEPERS = 10, 3, 8, 2
BOTH = (
    "SELECT coalesce(sum(exact), 0) FROM (SELECT exact FROM :schema.spending UNION ALL "
    "SELECT exact FROM :schema.earmarks) both_of_them"
)


def spend(url: str, number: int) -> int:
    """Set so much apart as often as it may, spend 1 of it, and set apart again; how much it spent. A sleeper sleeps
    when he has set some apart, and is told when he wakes that the run is somebody else's."""
    store, spent, run = opened(url), 0, Run(f"run-{number}")
    lease = store.append(run.unit()[0], None, owner=f"elsewhere|{number}|1|x").lease
    n = 2
    for turn in range(20):
        unit, _ = run.unit(n=n, new=False)
        unit.earmarks = [Earmark(f"{number}-{turn}", DAY, "a", "m", PRICE, LIMIT, None)]
        try:
            store.append(unit, lease)
        except FundsTaken:
            continue
        if number < SLEEPERS:
            os.kill(os.getpid(), signal.SIGSTOP)
        n, spent = n + 2, spent + 1
        unit, _ = run.unit(n=n - 1, new=False)
        unit.ended, unit.spent = [f"{number}-{turn}"], [(DAY, "a", "m", 1)]
        try:
            store.append(unit, lease)
        except ConcurrentExecution:
            return 0 if number < SLEEPERS else 99
    return spent


def test_a_days_limit_holds_among_processes_some_of_which_sleep(url: str) -> None:
    """What sleepers have set apart counts, also when their leases are over and others have taken their runs."""
    store = opened(url)
    sleepers = [forked(lambda number=number: spend(url, number)) for number in range(SLEEPERS)]
    for pid in sleepers:
        os.waitpid(pid, os.WUNTRACED)
    store.database.call("UPDATE :schema.runs SET expires_ms = 1")  # instead of waiting for their leases to end
    taken = [store.acquire(f"run-{number}", "elsewhere|9|1|x") for number in range(SLEEPERS)]
    others = [forked(lambda number=number: spend(url, number)) for number in range(SLEEPERS, PROCESSES)]
    left, codes, most = set(others), list[int](), 0
    while left:
        ((both,),) = store.database.ask(BOTH)
        most = max(most, int(both))
        for pid in list(left):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                left.remove(pid)
                codes.append(os.waitstatus_to_exitcode(status))
    for pid in sleepers:
        os.kill(pid, signal.SIGCONT)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert most <= LIMIT
    assert store.spent(DAY, "a") == {"m": sum(codes)} == {"m": 2}
    assert store.set_apart(DAY, "a") == {"m": PRICE * SLEEPERS}
    for number, lease in enumerate(taken):  # whoever has their runs now ends their calls
        run = Run(f"run-{number}")
        unit, _ = run.unit(n=3, new=False)
        unit.ended = [f"{number}-0"]
        store.append(unit, lease)
    assert store.set_apart(DAY, "a") == {}
    store.close()


def test_a_key_is_one_calls_among_processes(url: str) -> None:
    def reserve(number: int) -> int:
        store, run = opened(url), Run(f"run-{number}")
        lease = store.append(run.unit()[0], None, owner=f"{number}").lease
        unit, _ = run.unit(n=2, new=False, reservations=[reservation("k", f"t{number}")])
        try:
            store.append(unit, lease)
        except KeyTaken:
            return 1
        return 0

    assert sorted(in_processes(5, reserve)) == [0, 1, 1, 1, 1]


def test_a_key_that_several_processes_use_at_once_is_one_execution_and_equal_results(url: str, tmp_path: Path) -> None:
    done = tmp_path / "done"

    @skill("order", version="1.0.0", tool_class="write", honours_key=True)
    def order(what: str) -> str:
        with done.open("a") as file:
            file.write(f"{what}\n")
        return f"one {what}"

    def work(_: int) -> int:
        runtime = Runtime(url, skills=[order])
        with runtime.session() as session:
            outcome = session.call("order", {"what": "lamp"}, idempotency_key="k")
        return 0 if outcome.details["output"] == "one lamp" else 1

    assert in_processes(5, work) == [0] * 5
    assert done.read_text() == "lamp\n"


def test_a_sleeper_is_refused_and_writes_nothing(url: str) -> None:
    """It is stopped for longer than its lease lasts, by the server's clock; somebody else goes on."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            store, run = opened(url), Run("run-1")
            lease = store.append(run.unit()[0], None, owner="elsewhere|1|1|x").lease
            os.write(into, b".")
            os.kill(os.getpid(), signal.SIGSTOP)
            try:
                store.append(run.unit(n=2, new=False)[0], lease)
            except ConcurrentExecution:
                code = 0 if store.renew([lease]) == [] else 2
        finally:
            os._exit(code)
    os.read(out, 1)
    store = opened(url)
    left = store.free_in_s("run-1")
    assert left is not None
    assert 5 < left <= 10
    store.database.call("UPDATE :schema.runs SET expires_ms = expires_ms - 10000")  # instead of waiting for it
    lease = store.acquire("run-1", "b")
    assert lease.token == 2
    os.kill(pid, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(list(store.bodies("run-1"))) == 1
    store.close()


def test_no_clock_of_a_worker_decides_who_has_a_run(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(url)
    store.append(Run("run-1").unit()[0], None, owner="elsewhere|1|1|x")
    for hours in (-1, 1):
        now = int(time.time() * 1000) + hours * 3_600_000
        monkeypatch.setattr(store.clock, "now_ms", lambda now=now: now)
        assert store.unattended() == frozenset()
        left = store.free_in_s("run-1")
        assert left is not None
        assert left > 5
    store.close()


def test_a_day_of_a_budget_is_the_servers(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease tells what time it is there; nothing is asked for it."""
    day = 86_400_000
    now = 20_000 * day - 60_000
    store = opened(url)
    tell = "CREATE OR REPLACE FUNCTION :schema.now_ms() RETURNS bigint LANGUAGE sql AS 'SELECT {}::bigint'"
    store.database.call(tell.format(now))
    assert store.today(store.clock) == "2024-10-03"
    store.database.call(tell.format(now + 120_000))
    run = Run("run-1")
    lease = store.append(run.unit()[0], None, owner="a").lease
    monkeypatch.setattr(store.clock, "timestamp", lambda: "of this machine")
    assert store.today(store.clock) == "2024-10-04"
    began = store.clock.monotonic()
    monkeypatch.setattr(store.clock, "monotonic", lambda: began + 86_400)
    assert store.today(store.clock) == "2024-10-05"
    monkeypatch.undo()
    store.database.call(tell.format(now - 120_000))
    store.release(store.renew([lease])[0])
    store.acquire("run-1", "b")
    assert store.today(store.clock) == "2024-10-03"
    store.close()
