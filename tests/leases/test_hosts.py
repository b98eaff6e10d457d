"""Two hosts at one store, each with keys of its own and a clock that is an hour off: processes, and a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reenact.store.checks.verification import verify_run
from reenact.store.keys.keeper import begun_with
from reenact.store.open import open_store
from reenact.store.postgres.store import PostgresStore
from reenact.store.signing import create_key, read_key
from reenact.values.clock import SystemClock, format_ts
from tests.postgres.fixtures import Schemas


class Host:
    """A machine, as far as others can see: its name, its folder of keys, its clock."""

    def __init__(self, url: str, name: str, folder: Path, hours: float) -> None:
        self._words = [sys.executable, "-m", "tests.leases.host", url, name, str(hours)]
        self.data = folder / name
        self.env = {**os.environ, "XDG_DATA_HOME": str(self.data)}

    def sign_with(self, *keys: Path) -> None:
        self.env["REENACT_SIGNING_KEY"] = os.pathsep.join(map(str, keys))

    def start(self, what: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._words, what], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def does(self, what: str) -> Any:
        """What it printed; None where it was killed."""
        process = self.start(what)
        out, _ = process.communicate(timeout=60)
        return json.loads(out) if out else None


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    with new_schema() as found:
        yield found


def lapsed(url: str) -> None:
    """Every lease has come to its end by the server's clock: instead of waiting for it."""
    store = open_store(url, to_read=True)
    assert isinstance(store, PostgresStore)
    store.database.call("UPDATE :schema.runs SET expires_ms = 0 WHERE owner IS NOT NULL")
    store.close()


def looked_at(url: str) -> dict[str, tuple[str, str, list[bytes]]]:
    """Of each run its status, the key that it began with, and all that is on record."""
    with closing(open_store(url, to_read=True)) as store:
        rows = {row.run_id: (row.status, list(store.bodies(row.run_id))) for row in store.runs()}
    return {run_id: (status, str(begun_with(bodies[0])), bodies) for run_id, (status, bodies) in rows.items()}


def test_a_run_goes_on_under_the_key_that_it_began_with_and_without_it_is_held_with_the_kid(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Host(url, "first", tmp_path, -1), Host(url, "second", tmp_path, 1)
    assert isinstance(first.does("one"), str)
    (own,) = (first.data / "reenact" / "keys").glob("*.key")
    old, other = read_key(own).kid, tmp_path / "second.pem"
    assert second.does("two") == {"error": "KeyUnavailable", "kid": old, "exit": 4}
    assert first.does("die") is None
    new = create_key(lambda _: other).kid
    monkeypatch.setenv("REENACT_SIGNING_KEY", f"{other}{os.pathsep}{own}")
    with closing(open_store(url)) as store:
        store.key_table.rotate("ada")
    monkeypatch.delenv("REENACT_SIGNING_KEY")
    second.sign_with(other)
    assert isinstance(second.does("three"), str)
    assert second.does("die") is None
    lapsed(url)
    cut_off = {kid: run_id for run_id, (status, kid, _) in looked_at(url).items() if status == "running"}
    assert set(cut_off) == {old, new}
    before = looked_at(url)
    said = second.does("recover")
    assert said[cut_off[new]] == ["completed", ""]
    status, why = said[cut_off[old]]
    assert (status, f"needs key {old}" in why) == ("running", True), "held: not claimed, and told with the kid"
    assert looked_at(url)[cut_off[old]] == before[cut_off[old]], "it is left as it is"
    first.sign_with(own)  # as it had it: what vouches for the keys of calls is not there
    assert first.does("four") == {"error": "KeyUnavailable", "kid": new, "exit": 4}
    first.sign_with(other, own)
    assert first.does("recover")[cut_off[old]] == ["completed", ""]
    found = looked_at(url)
    assert [kid for _, kid, _ in found.values()].count(old) == 2
    for run_id, (status, _, _) in found.items():
        report = verify_run(url, run_id).report
        assert (status, report.integrity, report.authenticity) == ("completed", "holds", "holds"), report.findings


def test_clocks_that_are_hours_apart_take_no_live_lease_and_have_one_day(url: str, tmp_path: Path) -> None:
    early, late = Host(url, "early", tmp_path, -25), Host(url, "late", tmp_path, 25)
    assert isinstance(early.does("one"), str)
    (key,) = (early.data / "reenact" / "keys").glob("*.key")
    late.sign_with(key)
    before = format_ts(SystemClock().now_ms())[:10]
    days = {early.does("today"), late.does("today")}
    assert days <= {before, format_ts(SystemClock().now_ms())[:10]}, "the server's"
    for at_work, other in ((early, late), (late, early)):
        process = at_work.start("wait")
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == "waiting"
        (open_run,) = [run_id for run_id, (status, _, _) in looked_at(url).items() if status == "running"]
        assert other.does("take") == {"error": "LockAcquireFailed", "kid": None, "exit": 3}
        out, _ = process.communicate("go on\n", timeout=60)
        assert json.loads(out) == open_run
        status, _, bodies = looked_at(url)[open_run]
        assert (status, b"redispatch" in b"".join(bodies)) == ("completed", False)
        assert verify_run(url, open_run).exit_code == 0
