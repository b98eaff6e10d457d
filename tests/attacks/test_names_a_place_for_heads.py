"""Somebody who can write the database wants the owner's next `log witness collect` to run his commands, or ask him."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.store.signing import key_in_memory
from tests.cli.harness import Command
from tests.witness.stores import witness_key


@skill("add", version="1.0.0", tool_class="read")
def add(value: int) -> int:
    return value + 1


@pytest.fixture
def command(tmp_path: Path) -> Command:
    runtime = Runtime(str(tmp_path / "store.db"), skills=[add])
    runtime.run(
        {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": "add", "parameters": {"value": 1}}]}
    )
    runtime.close()
    return Command(tmp_path)


def written(folder: Path, *rows: tuple[str, str, str]) -> None:
    with closing(sqlite3.connect(folder / "store.db")) as db:
        db.executemany("INSERT OR REPLACE INTO log_peers VALUES (?, ?, ?, 0, 0, 0, NULL)", rows)
        db.commit()


@pytest.fixture
def trap(tmp_path: Path) -> tuple[Path, Path]:
    """(a work tree of git that runs a command whenever a file is added, what that command leaves)"""
    tree, mark = tmp_path / "tree", tmp_path / "mark"
    tree.mkdir()
    for words in (["init", "-q"], ["config", "filter.evil.clean", f"sh -c 'echo ran >> {mark}; cat'"]):
        subprocess.run(["git", "-C", str(tree), *words], check=True)
    (tree / ".gitattributes").write_text("* filter=evil\n")
    return tree, mark


def test_by_a_repository_of_his(command: Command, tmp_path: Path, trap: tuple[Path, Path]) -> None:
    tree, mark = trap
    written(tmp_path, (f"git:{tree}", "anchor", f"git:{tree}"))
    done = command("log", "witness", "collect")
    assert not mark.exists()
    assert (done.code, "nobody vouches for" in done.out) == (1, True)


def test_the_trap_is_real(command: Command, trap: tuple[Path, Path]) -> None:
    """The control: a place that its owner has named is a place whose filters run."""
    tree, mark = trap
    assert command("log", "anchor", "add", f"git:{tree}").code == 0
    assert command("log", "witness", "collect").code == 0
    assert mark.read_text()


def test_by_a_file_of_the_owner_s(command: Command, tmp_path: Path) -> None:
    written(tmp_path, (f"file:{tmp_path}/profile", "anchor", f"file:{tmp_path}/profile"))
    assert command("log", "witness", "collect").code == 1
    assert not (tmp_path / "profile").exists()


def test_by_another_address_of_a_witness(command: Command, tmp_path: Path) -> None:
    """The owner's own witness, moved to where nobody but he who moved it listens."""
    key = witness_key(key_in_memory())
    assert command("log", "witness", "add", "http://127.0.0.1:9", "--key", str(key)).code == 0
    written(tmp_path, (str(key), "witness", "http://127.0.0.1:10"))
    done = command("log", "witness", "collect")
    assert (done.code, "nobody vouches for" in done.out) == (1, True)
