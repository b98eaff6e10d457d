"""The owner of a store, with its key, rewrites a sealed run, and signs everything anew: only a kept head finds it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reenact.replay.runtime import Runtime
from reenact.skills.declare import skill
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from tests.cli.harness import Command


@skill("refund", version="1.0.0", tool_class="write", honours_key=True)
def refund(cents: int) -> int:
    return cents


def story(folder: Path, *amounts: int) -> Command:
    """A store whose ids and times are those of every other such story: what differs is what was done."""
    clock = FixedClock()
    command = Command(folder)
    store = SqliteStore(str(command.store), clock=clock)
    runtime = Runtime(store, skills=[refund], clock=clock)
    for amount in amounts:
        with runtime.session(agent_id="billing") as session:
            assert session.call("refund", {"cents": amount}).output == amount
    store.log.advance()
    store.close()
    return command


@pytest.fixture
def true(tmp_path: Path) -> Command:
    (tmp_path / "true").mkdir()
    return story(tmp_path / "true", 1999, 500)


@pytest.fixture
def rewritten(true: Command, tmp_path: Path) -> Command:
    """The same store id and the same key, and another past, in which every digest and every signature is right."""
    (tmp_path / "forged").mkdir()
    shutil.copy(f"{true.store}.key", tmp_path / "forged" / "store.db.key")
    return story(tmp_path / "forged", 9999, 500)


def test_only_the_head_that_somebody_kept_tells(true: Command, rewritten: Command, tmp_path: Path) -> None:
    kept, trusted = tmp_path / "kept", tmp_path / "trusted.json"
    kept.write_text(true("log", "checkpoint").out, encoding="utf-8")
    trusted.write_text(true("keys", "list", "--public").out, encoding="utf-8")
    runs = [row["run_id"] for row in rewritten("ls", "--json").json]
    assert len(runs) == 2
    for run in runs:
        alone = rewritten("verify", run, "--keys", trusted)
        assert alone.code == 0, alone.out
        told = rewritten("verify", run, "--checkpoint", kept)
        assert told.code == 1
        assert "anchoring     contradicted" in told.out
        assert told.out.count("size 2, root ") == 2, "both heads"
        assert true("verify", run, "--checkpoint", kept).code == 0
    past = rewritten("log", "consistency", kept)
    assert past.code == 1
    assert past.out.count("size 2, root ") == 2
    assert true("log", "consistency", kept).code == 0


def test_also_where_he_leaves_the_tree_as_it_was(true: Command, rewritten: Command, tmp_path: Path) -> None:
    """The nodes and signed heads of before beside the commits of after: the run's own leaf is another one."""
    import sqlite3
    from contextlib import closing

    kept = tmp_path / "kept"
    kept.write_text(true("log", "checkpoint").out, encoding="utf-8")
    with closing(sqlite3.connect(rewritten.store, isolation_level=None)) as db:
        db.execute("DROP TRIGGER log_checkpoints_are_not_deleted")
        db.execute("ATTACH ? AS other", (str(true.store),))
        for table in ("log_nodes", "log_checkpoints"):
            db.execute(f"DELETE FROM {table}")
            db.execute(f"INSERT INTO {table} SELECT * FROM other.{table}")
    first = [row["run_id"] for row in rewritten("ls", "--json").json][-1]
    told = rewritten("verify", first, "--checkpoint", kept)
    assert (told.code, "contradicted" in told.out) == (1, True)
    assert rewritten("log", "consistency", kept).code == 1
    alone = rewritten("verify", first)
    assert (alone.code, "LOG_CONTRADICTED" in alone.out) == (1, True), "and then the store contradicts itself"
    refused = rewritten("log", "prove", first)
    assert (refused.code, "its log has" in refused.err) == (1, True), "no proof is made of what is not there"


def test_a_bundle_of_before_is_found_to_be_of_the_log_and_one_of_after_is_not(
    true: Command, rewritten: Command, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.write_text(true("log", "checkpoint").out, encoding="utf-8")
    for command, code, verdict in ((true, 0, "holds"), (rewritten, 1, "contradicted")):
        folder = command.folder / "bundle"
        assert command("export", "last", "--to", folder).code == 0
        assert command("verify", folder).code == 0
        told = command("verify", folder, "--checkpoint", kept)
        assert (told.code, f"anchoring     {verdict}" in told.out) == (code, True), told.out
        proof = folder / "seal.tlog-proof"
        alone = command("log", "check", proof, "--bundle", folder, "--checkpoint", kept)
        assert (alone.code, verdict in alone.out) == (code, True), alone.out


def test_the_last_run_that_is_taken_out_is_missed_by_the_head_alone(true: Command, tmp_path: Path) -> None:
    (tmp_path / "cut").mkdir()
    shutil.copy(f"{true.store}.key", tmp_path / "cut" / "store.db.key")
    kept = tmp_path / "kept"
    kept.write_text(true("log", "checkpoint").out, encoding="utf-8")
    cut = story(tmp_path / "cut", 1999)
    assert cut("verify", "last").code == 0
    assert "a longer log" in cut("log", "consistency", kept).out
    told = cut("verify", "last", "--checkpoint", kept)
    assert (told.code, "shorter" in told.out) == (1, True)
