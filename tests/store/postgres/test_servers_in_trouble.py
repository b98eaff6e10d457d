"""A server that is stopped, falls silent, is full, or is somebody else's: told in one line, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from reenact import Runtime, skill
from reenact.errors import ReenactError, StoreBusy, StoreError, StoreUnavailable, UsageError
from reenact.store.base import LEASE_MS
from reenact.store.checks.verification import verify_run
from reenact.store.open import open_evidence, open_store
from reenact.store.postgres.opened import database
from reenact.store.postgres.opened.errors import Lost, translate
from reenact.store.postgres.opened.url import place_of
from reenact.store.postgres.store import PostgresStore
from tests.postgres.fixtures import Schemas, schema_at
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.store.units import Run, payload

STEPS = [{"step_id": "only", "skill_id": "work", "parameters": {"value": 1}}]
PLAN = {"plan_id": "p", "agent_id": "a", "steps": STEPS}


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    with new_schema() as found:
        open_store(found).close()
        yield found


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines of a tenth, for who waits for them in a test."""
    monkeypatch.setattr(database, "TRIP_S", 0.4)
    monkeypatch.setattr(database, "TRYING_S", 0.8)


def opened(url: str) -> PostgresStore:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    return store


def took(act: Callable[[], object]) -> float:
    began = time.monotonic()
    with pytest.raises(StoreError):
        act()
    return time.monotonic() - began


def test_deadlines_end_within_a_lease() -> None:
    assert database.TRYING_S + 2 < LEASE_MS / 1000


@pytest.mark.usefixtures("hurried")
def test_a_backend_that_is_stopped_is_noticed_by_our_own_clock(url: str, postgres: Server) -> None:
    """Its kernel goes on to acknowledge what it is sent. Another one does it; what the first does later is refused."""
    store, run = opened(url), Run("run-1")
    lease = store.append(run.unit()[0], None, owner="a").lease
    store.renew([lease])
    unit = run.unit(n=2, new=False)[0]
    with ExitStack() as stopped:
        for pid in postgres.backends():
            stopped.enter_context(postgres.stopped(pid))
        began = time.monotonic()
        store.append(unit, lease)
        (renewed,) = store.renew([lease])
        assert 0.4 < time.monotonic() - began < LEASE_MS / 1000
    store.append(run.unit(n=3, new=False)[0], renewed)
    assert len(list(store.bodies("run-1"))) == 3
    store.close()


@pytest.mark.usefixtures("hurried")
def test_in_silence_everything_ends_and_is_done_once_afterwards(url: str) -> None:
    with Proxy(url) as proxy:
        store, run = opened(proxy.url_of(url)), Run("run-1")
        lease = store.append(run.unit()[0], None, owner="a").lease
        unit = run.unit(n=2, new=False)[0]
        proxy.silence()
        assert took(lambda: store.append(unit, lease)) < 4
        assert took(lambda: store.renew([lease])) < 4
        assert took(lambda: store.find_run("run-1")) < 4
        proxy.speak()
        try:
            store.append(unit, lease)
        except ReenactError:  # it had come through after all
            assert len(list(store.bodies("run-1"))) == 2
        assert len(list(store.bodies("run-1"))) == 2
        store.close()


@pytest.mark.usefixtures("hurried")
def test_a_server_that_falls_silent_while_a_skill_runs_ends_the_run_elsewhere(url: str) -> None:
    """Nothing is sent after that, the run ends once, and what was done is not done again unless it may."""
    done: list[int] = []
    with Proxy(url) as proxy:

        @skill("work", version="1.0.0", tool_class="write", honours_key=True)
        def work(value: int) -> int:
            done.append(value)
            if len(done) == 1:
                proxy.silence()
            return value

        runtime = Runtime(proxy.url_of(url), skills=[work])
        with pytest.raises(StoreError):
            runtime.run(PLAN)
        assert done == [1]
        store = opened(url)
        store.database.call("UPDATE :schema.runs SET expires_ms = 0")  # instead of waiting for the lease to end
        store.close()
        elsewhere = Runtime(url, skills=[work])
        store = opened(url)
        store.database.call("UPDATE :schema.runs SET owner = 'elsewhere|1|1|x'")
        (ended,) = elsewhere.recover()
        assert ended.status == "completed"
        assert done == [1, 1], "the tool honours our key: the same call again"
        assert verify_run(url, ended.run_id).exit_code == 0
        proxy.speak()
        store.close()
        elsewhere.close()
        runtime.close()


def test_a_cut_connection_costs_nothing(url: str) -> None:
    with Proxy(url) as proxy:
        store, run = opened(proxy.url_of(url)), Run("run-1")
        lease = store.append(run.unit()[0], None, owner="a").lease
        for n in range(2, 6):
            proxy.cut_all()
            store.append(run.unit(n=n, new=False)[0], lease)
            proxy.cut_all()
            assert store.find_run("run-1").commits == n
        store.close()


# -- what is told --------------------------------------------------------------------------------------------------


def refused(url: str) -> str:
    with pytest.raises(ReenactError) as error:
        open_store(url)
    assert "\n" not in str(error.value)
    assert isinstance(error.value, StoreError)
    return str(error.value)


@pytest.mark.usefixtures("hurried")
def test_what_is_wrong_with_a_url_is_one_line_that_says_what_to_do(postgres: Server) -> None:
    right = postgres.url(schema="nowhere")
    password = postgres.password
    assert "the password is wrong" in refused(right.replace(password, "wr0ng"))
    assert "createdb" in refused(right.replace("/reenact?", "/nothing?"))
    assert "cannot be reached" in refused(right.replace(f":{postgres.port}/", ":1/"))
    assert "cannot be reached" in refused(right.replace("127.0.0.1", "nowhere.invalid"))
    for wrong in (right.replace("/reenact?", "/nothing?"), right.replace(f":{postgres.port}/", ":1/")):
        assert password not in refused(wrong)


def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path) -> None:
    without = (
        "import sys; sys.modules['psycopg'] = None; sys.argv[0] = 'reenact'; import reenact.__main__ as r; r.main()"
    )
    for words in (["ls"], ["verify", "last"], ["doctor"], ["run", "plan.json"]):
        (tmp_path / "plan.json").write_text('{"plan_id": "p", "agent_id": "a", "steps": []}')
        told = subprocess.run(
            [sys.executable, "-c", without, *words, "--store", "postgresql://u:pw@h/d"], capture_output=True, text=True,
            cwd=tmp_path, check=False,
        )  # fmt: skip
        assert "reenact[postgres]" in told.stderr + told.stdout, (words, told)
        assert "Traceback" not in told.stderr
        assert "pw" not in told.stderr


def test_missing_rights_are_told(postgres: Server, new_schema: Schemas) -> None:
    postgres.add_role("visitor")
    with new_schema() as url:
        opened(url).close()
        visitor = url.replace("//reenact:", "//visitor:")
        with pytest.raises(StoreUnavailable, match="permission denied"):
            open_store(visitor)


def test_a_replica_says_that_the_primary_is_to_be_named(url: str) -> None:
    store = opened(url)
    place = place_of(url)
    with psycopg.connect(place.conninfo, autocommit=True) as db, pytest.raises(psycopg.Error) as error:
        db.execute("BEGIN READ ONLY")
        db.execute(f"DELETE FROM {place.schema}.kv")
    assert "name the primary" in str(translate(error.value, "x"))
    store.close()


@pytest.mark.parametrize(
    ("state", "kind", "says"),
    [
        ("53100", StoreUnavailable, "disk is full"),
        ("53300", StoreBusy, "more connections"),
        ("40001", StoreBusy, "try again"),
        ("40P01", StoreBusy, "try again"),
        ("57P01", Lost, "the connection was lost"),
        ("42501", StoreUnavailable, "which rights"),
    ],
)
def test_what_a_server_says_becomes_an_error_that_tells_what_to_do(state: str, kind: type, says: str, url: str) -> None:
    place = place_of(url)
    with psycopg.connect(place.conninfo, autocommit=True) as db, pytest.raises(psycopg.Error) as error:
        db.execute(f"DO $$ BEGIN RAISE EXCEPTION 'because' USING ERRCODE = '{state}'; END $$")
    found = translate(error.value, "the store")
    assert type(found) is kind or isinstance(found, kind)
    assert says in str(found)


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_what_may_be_tried_again_is(state: str, url: str) -> None:
    """The first try of a commit fails, and nothing of it is there."""
    store, run = opened(url), Run("run-1")
    lease = store.append(run.unit()[0], None, owner="a").lease
    store.database.call("CREATE SEQUENCE :schema.tries")
    store.database.call(
        "CREATE FUNCTION :schema.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval(':schema.tries') = 1 "
        f"THEN RAISE EXCEPTION 'once' USING ERRCODE = '{state}'; END IF; RETURN NEW; END $$"
    )
    store.database.call(
        "CREATE TRIGGER fails BEFORE INSERT ON :schema.commits FOR EACH ROW EXECUTE FUNCTION :schema.fail()"
    )
    store.append(run.unit(n=2, new=False)[0], lease)
    assert store.find_run("run-1").commits == 2
    store.close()


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [(1 << 27) - 1, (1 << 28) + 5, (1 << 31) - 1, 1 << 40])
def test_run_numbers_have_no_end(url: str, number: int) -> None:
    store = opened(url)
    store.database.call("SELECT :schema.add_partitions(%s::bigint)", (number,))
    store.database.call(f"SELECT setval(':schema.run_numbers', {number})")
    runtime = Runtime(store, skills=[talk])
    ended = runtime.run({**PLAN, "steps": TALK})
    assert store._run_no(ended.run_id) == number + 1
    result = verify_run(url, ended.run_id)
    assert (result.exit_code, result.differences) == (0, ())
    assert len(dict(store.payloads(ended.run_id))) > 3
    store.close()


@skill("talk", version="1.0.0", tool_class="read")
def talk(said: str) -> str:
    """A conversation that grows."""
    return said + said[-100:]


LONG = "".join(chr(97 + at * at % 26) for at in range(3000))
TALK = [
    {"step_id": "one", "skill_id": "talk", "parameters": {"said": LONG}},
    {"step_id": "two", "skill_id": "talk", "parameters": {"said": "{{one}}"}},
    {"step_id": "three", "skill_id": "talk", "parameters": {"said": "{{two}}"}},
]


def test_a_large_value_keeps_no_heartbeat_waiting(url: str) -> None:
    store, run, others = opened(url), Run("large"), [Run(f"run-{number}") for number in range(50)]
    lease = store.append(run.unit()[0], None, owner="a").lease
    leases = [store.append(each.unit()[0], None, owner="a").lease for each in others]
    value = payload(os.urandom((64 << 20) - 32))
    unit, _ = run.unit(n=2, new=False, payloads=[value])
    slowest, stop = [0.0], threading.Event()

    def beat() -> None:
        while not stop.is_set():
            began = time.monotonic()
            kept = store.renew([lease, *leases])
            assert len(kept) == 51
            slowest[0] = max(slowest[0], time.monotonic() - began)
            stop.wait(0.01)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        store.append(unit, lease)
    finally:
        stop.set()
    thread.join()
    assert 0 < slowest[0] < 5
    assert store.payload("large", value.commitment, near=2) == value.envelope
    store.close()


def test_a_prefix_is_found_whatever_the_collation_of_the_database(
    any_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a language where the server knows any, in which a hyphen counts for little and case for less."""
    with_icu = any_server.binaries.has_icu()
    more = "ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'" if with_icu else "LOCALE 'C.UTF-8'"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    any_server.add_database("other", more=more)
    with schema_at(any_server.url(database="other")) as url:
        store = opened(url)
        for name in ("a-1", "A-2", "a_3", "ab-4"):
            store.append(Run(name).unit()[0], None, owner="a")
        assert [store.find_run(prefix).run_id for prefix in ("a-", "A", "a_", "ab")] == ["a-1", "A-2", "a_3", "ab-4"]
        with open_evidence(url) as evidence:
            assert [run_id for _, run_id in evidence.named_runs("a_")] == ["a_3"]
        store.close()


def test_a_character_that_no_text_of_the_database_holds_is_a_usage_error(url: str) -> None:
    store = opened(url)
    with pytest.raises(UsageError, match=r"U\+0000"):
        store.append(Run("a\0b").unit()[0], None, owner="a")
    with pytest.raises(UsageError, match=r"U\+0000"):
        store.find_run("a\0")
    store.close()


def test_no_lease_hangs_on_what_is_verified_and_it_waits_for_a_slow_server(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = opened(url), Run("run-1")
    unit, took_it = run.unit(sealed=True)
    took_it(store.append(unit, None, owner="a"))
    monkeypatch.setattr(database, "TRIP_S", 0.8)
    place = place_of(url)
    with psycopg.connect(place.conninfo) as other:
        other.execute(f"LOCK TABLE {place.schema}.notes IN ACCESS EXCLUSIVE MODE")
        freed = threading.Timer(1.2, other.rollback)
        freed.start()
        assert verify_run(url, run.run_id).report.counts.commits == 1
        freed.join()
