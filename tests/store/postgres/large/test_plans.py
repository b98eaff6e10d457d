"""In a store with many runs no command reads them all: no statement scans a large table, and few rows are read."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from benchmarks.postgres.filling import Large

from reenact.cli.main import main as reenact
from reenact.cli.options import open_runtime
from reenact.replay.runtime import Runtime
from reenact.store.copying.moving import move
from reenact.store.open import open_source, open_store, open_target
from reenact.store.postgres.opened.url import place_of
from tests.attacks.cells import COUNT_UP, fill, pay, plan, rate, stream, written
from tests.postgres.fixtures import schema_at
from tests.postgres.server import Server
from tests.store.checks.store_file import tamper
from tests.store.postgres.large.statements import Statements

RUNS = 12_000
MOST_ROWS = 4000
"""That a command reads, of tables and of indexes: a third of what one whole table has."""
MORE = (
    "commits SELECT i, 1, '', sha256(''), '' FROM",
    "payloads SELECT i, 1, 0, sha256(int8send(i)), '' FROM",
    "contents SELECT i, sha256(int8send(i)), 1, 0, sha256(int8send(i)) FROM",
    "shared_payloads SELECT i, sha256(int8send(i)), 1, 0 FROM",
    "run_checkpoints SELECT i, 1, '', '' FROM",
    "idempotency SELECT '~', '~', i::text, NULL, 'a', '', i, 'completed', '', '' FROM",
    "spending SELECT 'day ' || i / 1000, 'agent-' || i % 1000, '', 0, 1 FROM",
    "limits SELECT 'day ' || i / 1000, 'agent-' || i % 1000 FROM",
    "earmarks SELECT i, '', 'day ' || i / 1000, 'agent-' || i % 1000, '', 1 FROM",
    "ballots SELECT i, '', '' FROM",
    "archived SELECT i, 1, 0, sha256(int8send(i)), '' FROM",
    "archives SELECT i, '', '' FROM",
    "kv SELECT 'agent-' || i % 1000, 'n', i::text, '' FROM",
    "kv_writes SELECT 'agent-' || i % 1000, i::text, '' FROM",
)
"""Rows of the made-up runs that `Large` does without."""
READING = (
    "ls --limit 20", "ls --waiting", "ls --status failed --limit 20", "ls --status held --json",
    "ls --limit 5 --before {paid}", "show {paid}", "show till", "show last", "show real-0",
    "verify {paid}", "verify {first}", "verify {last}", "verify {waiting}", "export {last} --to {folder}", "metrics",
    "diff {paid} {erased}", "replay {paid}", "keys list", "log prove {last}", "log checkpoint", "fork {paid} --at pay",
)  # fmt: skip
WRITING = (
    "break-lease {cut} --reason r", "approve {till} main:2 --reason r", "resolve {doubt} post --failed --reason r",
    "recover", "cancel {till} --reason r", "erase {last} --yes --reason r", "resume {waiting}",
)  # fmt: skip


@pytest.fixture(scope="module")
def place(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """(URL of a large store, its real runs and what else a command is told)"""
    folder = tmp_path_factory.mktemp("large")
    with pytest.MonkeyPatch.context() as patch, schema_at(postgres.url()) as url:
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setenv("REENACT_STORE", url)
        path, runs = fill(folder)
        tamper(path, ("DELETE FROM late_effects", ()))  # it names a call, and says nothing
        with open_source(str(path)) as one, open_target(url) as other:
            for key, there in move(one, other, lambda *_: None).keys:
                shutil.copy(key, there)
        real = Large(url, RUNS, 4).real
        with psycopg.connect(place_of(url).conninfo, autocommit=True) as db:
            db.execute(f"SET search_path = {place_of(url).schema}".encode())
            for rows in MORE:
                db.execute(f"INSERT INTO {rows} generate_series({100}, {RUNS - 100}) i".encode())
            db.execute("ANALYZE")
        named = {
            "paid": runs["paid"],
            "erased": runs["erased"],
            "waiting": runs["waiting"],
            "doubt": runs["in doubt"],
            "cut": runs["cut off"],
        }
        named |= {"till": runs["session"], "first": real[0], "last": real[-1], "folder": str(folder / "bundle")}
        yield url, {**named, "skills": str(path.with_name("skills.py"))}


def few_rows(url: str, act: Callable[[], object]) -> None:
    statements = Statements(url)
    try:
        with statements.watched():
            act()
        assert list(statements.scans()) == []
        assert statements.rows <= MOST_ROWS
    finally:
        statements.close()


def asked(command: str, named: dict[str, str]) -> None:
    words = command.format_map(named).split()
    if words[0] in ("recover", "resume", "replay", "fork", "approve"):
        words += ["--skills", named["skills"]]
    said = stream()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            reenact(words)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    assert code in (0, 1, 4), written(said)


@pytest.mark.parametrize("command", READING + WRITING)
def test_a_command_reads_few_rows(place: tuple[str, dict[str, str]], command: str) -> None:
    url, named = place
    few_rows(url, lambda: asked(command, named))


def test_a_run_reads_few_rows(place: tuple[str, dict[str, str]]) -> None:
    """With a key, a limit, values of an agent and a session of a name."""
    url, named = place

    def work() -> None:
        with closing(open_runtime(url, [named["skills"]])) as runtime:
            assert runtime.run(plan("more", rate("a"), COUNT_UP, pay("more"))).status == "completed"
            assert runtime.run(plan("more", pay("more"))).outcomes[0].details["served_from"]
            for _ in range(2):
                in_a_session(runtime)
            runtime.store.log.advance()

    few_rows(url, work)


def in_a_session(runtime: Runtime) -> None:
    with runtime.session(id="counter", agent_id="clerk") as session:
        session.call("rate", {"currency": "EUR"})


def test_ls_lists_the_newest_and_says_how_to_go_on(
    place: tuple[str, dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):
        reenact(["ls"])
    listed = capsys.readouterr()
    last = listed.out.splitlines()[-1].split()[0]
    assert len(listed.out.splitlines()) == 1 + 50
    assert listed.err == (
        f"these are the newest 50; `reenact ls --before {last}` lists those before, `--limit` more at once\n"
    )


def test_a_scan_would_be_seen(place: tuple[str, dict[str, str]]) -> None:
    """What these tests go by: a statement that has no index, and an index that is read from end to end."""
    url, _ = place
    with closing(open_store(url, to_read=True)) as store:
        database = store.database  # type: ignore[attr-defined]
        with pytest.raises(AssertionError, match="plan_id"):
            few_rows(url, lambda: database.ask("SELECT 1 FROM :schema.runs WHERE plan_id = %s", ("x",)))
        with pytest.raises(AssertionError, match=f"<= {MOST_ROWS}"):
            read_all = "SELECT count(*) FROM (SELECT 1 FROM :schema.runs ORDER BY run_no LIMIT 9000) r"
            few_rows(url, lambda: database.ask(read_all))
