"""kill -9 while heads are taken outside: nothing is lost, there is one head for a size, and the next one goes on."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import ANY

import pytest

from reenact.runtime.crash_points import OUTSIDE_POINTS
from reenact.store.log.past import compare
from reenact.store.log.rows import Peer
from reenact.values.clock import FixedClock
from reenact.verify.log.checkpoint import Cosigned, cosigned_by, read_checkpoints
from reenact.verify.signed.signed_note import VerifierKey, read_note
from reenact.witness.collecting import Collected, collect
from reenact.witness.cosigner import Answer
from tests.cli.harness import SKILLS, Command
from tests.crash.harness import KILLED, in_child
from tests.engines.places import ask, key_at, opened
from tests.store.copies import copy_store
from tests.witness.stores import a_store, a_witness, answering, ask_at, grow, log_key
from tests.witness.test_stamping import RSA, Authority

WITNESSED = ("before_asking", "before_cosignature", "after_cosignature", "after_asking")
FILED = ("before_asking", "in_anchor", "after_anchor", "after_asking")
COMMITTED = (*FILED, "before_anchor_commit", "before_anchor_push", "after_anchor_push")
STAMPED = ("before_asking", "before_stamp", "after_asking")
WITNESSED_BY_ONE = re.compile(r"^anchoring +holds +\(1 of 1 witness", re.MULTILINE)
ON_THE_OTHER_SIDE = ("after_witnessed", "before_contradiction")


def test_every_point_outside_is_killed_at_by_a_test_of_this_file() -> None:
    assert {*WITNESSED, *COMMITTED, *STAMPED, *ON_THE_OTHER_SIDE} == set(OUTSIDE_POINTS)


@dataclass(frozen=True)
class Taken:
    """A store whose heads are taken to one place."""

    folder: Path
    place: Path | str

    def collect(self) -> list[Collected]:
        with closing(opened(self.folder / "store.db", clock=FixedClock())) as store:
            return collect(store, FixedClock())

    def grow(self) -> None:
        with closing(opened(self.folder / "store.db", clock=FixedClock())) as store:
            grow(store, 2)

    def ask_at(self, peer: Peer) -> None:
        with closing(opened(self.folder / "store.db", clock=FixedClock())) as store:
            store.log.ask(peer)


def killed_at(point: str, taken: Taken) -> None:
    """Twice before anybody comes through, for each of three heads; where the first came far enough, none is left to
    kill for the second."""
    for _ in range(2):
        assert in_child(taken.collect, crash_at=point) == KILLED, f"{point} is not passed"
        check_log(taken.folder)
        in_child(taken.collect, crash_at=point)
        check_log(taken.folder)
        assert all(each.is_well for each in taken.collect())
        check_log(taken.folder)
        assert [each.state for each in taken.collect()] == ["has it"]
        taken.grow()
    assert in_child(taken.collect, crash_at=point) == KILLED
    assert all(each.is_well for each in taken.collect())
    check_log(taken.folder)


def check_log(folder: Path) -> None:
    """The chain is whole, every head that was signed is one of it, and there is one for a size."""
    with closing(opened(folder / "store.db", clock=FixedClock())) as store:
        past = compare(store.log, (), lambda _: None)
        assert past.problem is None
    path = folder / "store.db"
    assert ask(path, "SELECT count(*) = count(DISTINCT size) FROM log_checkpoints") == [(True,)]
    assert ask(path, "SELECT count(*) FROM log_contradictions") == [(0,)]


def check_file(folder: Path, path: Path) -> None:
    """Each head that was taken there stands there once, in order, and whole."""
    with closing(opened(folder / "store.db", clock=FixedClock())) as store:
        heads = [each.head for each in read_checkpoints(path.read_bytes())]
        assert [head.size for head in heads] == [3, 5, 7]
        assert compare(store.log, read_checkpoints(path.read_bytes()), lambda _: None).problem is None


def check_cosigned(folder: Path, key: VerifierKey) -> None:
    """Under the newest head stands the witness's name, once."""
    with closing(opened(folder / "store.db", clock=FixedClock())) as store:
        newest = store.log.rows.newest()
        assert newest is not None
        assert isinstance(cosigned_by(read_note(store.log.note(newest)), key), Cosigned)
        assert len(store.log.rows.cosignatures(newest.size)) == 1
    with closing(sqlite3.connect(folder / "witness.db")) as db:
        assert db.execute("SELECT count(*), count(DISTINCT size) FROM heads").fetchone() == (3, 3)


@pytest.mark.parametrize("point", WITNESSED)
def test_killed_while_a_witness_is_asked(point: str, tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        log = log_key(store)
    with a_witness(tmp_path, log) as (url, key):
        taken = Taken(tmp_path, url)
        taken.ask_at(Peer(str(key), "witness", url))
        killed_at(point, taken)
        check_cosigned(tmp_path, key)


@pytest.mark.parametrize("point", FILED)
def test_killed_while_a_file_is_added_to(point: str, tmp_path: Path) -> None:
    with a_store(tmp_path):
        pass
    taken = Taken(tmp_path, tmp_path / "heads")
    taken.ask_at(Peer(f"file:{taken.place}", "anchor", f"file:{taken.place}"))
    killed_at(point, taken)
    check_file(tmp_path, tmp_path / "heads")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A work tree with a remote that it pushes to."""
    git(tmp_path, "init", "--quiet", "--bare", "remote")
    git(tmp_path, "clone", "--quiet", "remote", "clone")
    tree = tmp_path / "clone"
    own = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    git(tree, *own, "commit", "--quiet", "--allow-empty", "-m", "begin")
    git(tree, "push", "--quiet", "-u", "origin", "HEAD")
    return tree


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("point", COMMITTED)
def test_killed_while_a_repository_is_added_to(point: str, tmp_path: Path, clone: Path) -> None:
    with a_store(tmp_path) as store:
        name = f"{store.log.origin.replace('/', '_')}.checkpoints"
    taken = Taken(tmp_path, clone)
    taken.ask_at(Peer(f"git:{clone}", "anchor", f"git:{clone}"))
    killed_at(point, taken)
    check_file(tmp_path, clone / name)
    assert git(clone, "status", "--porcelain") == ""
    there = git(tmp_path / "remote", "show", f"HEAD:{name}")
    assert there == (clone / name).read_text(encoding="utf-8")
    assert git(clone, "rev-parse", "HEAD") == git(tmp_path / "remote", "rev-parse", "HEAD")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_lock_that_a_killed_git_left_is_told_with_what_to_do(tmp_path: Path, clone: Path) -> None:
    lock = clone / ".git" / "index.lock"
    with a_store(tmp_path) as store:
        store.log.ask(Peer(f"git:{clone}", "anchor", f"git:{clone}"))
        lock.touch()
        (found,) = collect(store, FixedClock())
        assert found.state == "failed"
        assert f"'{lock}': File exists" in found.says
        assert "remove it when no other one is at work" in found.says
        lock.unlink()
        assert [each.state for each in collect(store, FixedClock())] == ["has it"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed: no authority to ask")
@pytest.mark.parametrize("point", STAMPED)
def test_killed_while_a_time_stamp_is_asked_for(point: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tsa", kind=RSA)
    with a_store(tmp_path):
        pass
    with answering(lambda _, body: Answer(200, authority.reply(body), "application/timestamp-reply")) as url:
        taken = Taken(tmp_path, url)
        taken.ask_at(Peer(f"tsa:{url}", "anchor", f"tsa:{url}"))
        killed_at(point, taken)
    with closing(opened(tmp_path / "store.db", clock=FixedClock())) as store:
        assert [len(store.log.rows.timestamps(size)) for size in (3, 5, 7)] == [1, 1, 1]


def test_killed_before_a_contradiction_is_on_record(tmp_path: Path) -> None:
    """It is met again, and then it is."""
    (tmp_path / "back").mkdir()
    with a_store(tmp_path) as store, a_witness(tmp_path, log_key(store)) as (url, key):
        ask_at(store, url, key)
        copy_store(tmp_path / "store.db", tmp_path / "back" / "store.db")
        grow(store, 2)
        collect(store, FixedClock())
        taken = Taken(tmp_path / "back", url)
        assert in_child(taken.collect, crash_at="before_contradiction") == KILLED
        check_log(taken.folder)
        assert [each.state for each in taken.collect()] == ["contradicts"]
        with closing(opened(taken.folder / "store.db", clock=FixedClock())) as back:
            assert len(back.log.rows.contradictions()) == 1


# -- through the commands ----------------------------------------------------------------------------------------------


class Witnessing:
    """`reenact witness serve` in a process of its own, which may be killed."""

    def __init__(self, reenact: Command, log: str) -> None:
        self._reenact, self._log, self.port = reenact, log, "0"

    def start(self, **more: str) -> None:
        self.process = self._reenact.start(
            "witness", "serve", "witness.db", "--name", "w.example/1", "--log", self._log,
            "--listen", f"127.0.0.1:{self.port}", **more,
        )  # fmt: skip
        assert self.process.stderr is not None
        assert self.process.stdout is not None
        self.port = self.process.stderr.readline().rpartition(":")[2].strip()
        self.key = self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def heads(self) -> list[tuple[int, bytes]]:
        with closing(sqlite3.connect(self._reenact.folder / "witness.db")) as db:
            return db.execute("SELECT size, root FROM heads ORDER BY size").fetchall()


@pytest.fixture
def reenact(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    plan = command.plan({"skill_id": "steady"})
    assert command("run", plan, "--skills", SKILLS).code == 0
    return command


@pytest.fixture
def witness(reenact: Command) -> Iterator[Witnessing]:
    found = Witnessing(reenact, reenact("log", "checkpoint", "--json").json["key"])
    found.start()
    assert reenact("log", "witness", "add", f"http://127.0.0.1:{found.port}", "--key", found.key).code == 0
    yield found
    found.kill()


def seal_one_more(reenact: Command) -> None:
    assert reenact("run", reenact.plan({"skill_id": "steady"}), "--skills", SKILLS).code == 0


@pytest.mark.parametrize("point", WITNESSED)
def test_the_command_that_collects_is_killed(point: str, reenact: Command, witness: Witnessing) -> None:
    for _ in range(2):
        for _ in range(2):
            reenact("log", "witness", "collect", REENACT_CRASH_AT=point)
        assert reenact("log", "witness", "collect").code == 0
        assert re.search(WITNESSED_BY_ONE, reenact("verify", "last").out)
        seal_one_more(reenact)
    assert reenact("log", "witness", "collect", REENACT_CRASH_AT=point).code == -KILLED
    assert reenact("log", "witness", "collect").code == 0
    assert reenact("log", "consistency").code == 0
    assert [size for size, _ in witness.heads] == [1, 2, 3]


def test_the_command_that_follows_is_killed_and_the_next_one_goes_on(reenact: Command, witness: Witnessing) -> None:
    for size, point in ((2, "before_cosignature"), (4, "after_cosignature")):
        first = reenact.start("log", "witness", "collect", "--follow", "--every", "0.1", REENACT_CRASH_AT=point)
        first.communicate(timeout=60)
        assert first.returncode == -KILLED
        then = reenact.start("log", "witness", "collect", "--follow", "--every", "0.1")
        seal_one_more(reenact)  # while it follows
        deadline = time.monotonic() + 60
        while witness.heads[-1:] != [(size, ANY)] and time.monotonic() < deadline:
            time.sleep(0.05)
        then.kill()
        then.communicate(timeout=60)
        assert reenact("log", "witness", "collect").code == 0
        assert re.search(WITNESSED_BY_ONE, reenact("verify", "last").out)
        assert witness.heads[-1][0] == size
        seal_one_more(reenact)
    assert reenact("log", "consistency").code == 0


def test_the_command_that_follows_outlives_a_key_that_is_away_for_a_while(
    reenact: Command, witness: Witnessing
) -> None:
    place, away = key_at(reenact.store), reenact.folder / "away.key"
    reenact("run", reenact.plan({"skill_id": "steady"}), "--skills", SKILLS, REENACT_CRASH_AT="after_seal")
    place.rename(away)
    following = reenact.start("log", "witness", "collect", "--follow", "--every", "0.1")
    assert following.stderr is not None
    told = following.stderr.readline()
    assert "tried again" in told
    away.rename(place)
    deadline = time.monotonic() + 60
    while witness.heads[-1:] != [(2, ANY)] and time.monotonic() < deadline:
        time.sleep(0.05)
    following.kill()
    following.communicate(timeout=60)
    assert [size for size, _ in witness.heads] == [2]


def test_a_witness_that_is_killed_between_its_memory_and_its_word_is_asked_again(
    reenact: Command, witness: Witnessing
) -> None:
    witness.kill()
    witness.start(REENACT_CRASH_AT="after_witnessed")
    failed = reenact("log", "witness", "collect")
    assert failed.code == 1
    assert "failed" in failed.out
    witness.process.communicate(timeout=60)
    assert witness.process.returncode == -KILLED
    assert len(witness.heads) == 1
    assert re.search(r"^anchoring +absent", reenact("verify", "last").out, re.MULTILINE)
    down = reenact("log", "witness", "collect")
    assert down.code == 1
    assert "refused" in down.out
    witness.start()
    assert reenact("log", "witness", "collect").code == 0
    assert len(witness.heads) == 1
    assert re.search(WITNESSED_BY_ONE, reenact("verify", "last").out)


def test_a_witness_without_its_memory_or_its_key_is_no_other_one(reenact: Command, witness: Witnessing) -> None:
    assert reenact("log", "witness", "collect").code == 0
    witness.kill()
    for name, words in (("witness.db.key", "which signs for it"), ("witness.db", "which remembers what it signed")):
        place = reenact.folder / name
        place.rename(reenact.folder / "away")
        gone = reenact("witness", "show", "witness.db", "--name", "w.example/1")
        assert (gone.code, words in gone.err, gone.err.count("\n")) == (3, True, 1), gone.err
        assert not place.exists(), "no other one is made in its place"
        (reenact.folder / "away").rename(place)
    assert reenact("witness", "show", "witness.db").out.startswith(witness.key)
