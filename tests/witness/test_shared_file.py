"""Heads of several logs in one file: an anchor that two stores share, an auditor who keeps all of them together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.harness import Command
from tests.second_verifier.both import comparable, second


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Command, Command, Path]:
    """Two stores of three runs each, whose heads of size 1 to 3 lie between those of the other."""
    folder = tmp_path_factory.mktemp("shared")
    heads = folder / "heads.txt"
    stores = []
    for name in ("one", "two"):
        (folder / name).mkdir()
        stores.append(Command(folder / name))
        run(stores[-1])
        assert stores[-1]("log", "anchor", "add", f"file:{heads}").code == 0
    for number in range(3):
        for command in stores:
            if number:
                run(command)
            for _ in range(2):
                assert command("log", "witness", "collect").code == 0
    return stores[0], stores[1], heads


def run(command: Command) -> None:
    plan = command.plan({"skill_id": "json_transform", "parameters": {"data": [2, 1], "operation": "sort"}})
    assert command("run", plan).code == 0


def test_each_store_finds_its_own_heads_there_and_adds_none_twice(shared: tuple[Command, Command, Path]) -> None:
    one, two, heads = shared
    found = re.findall(r"^(reenact/\S+)\n(\d+)\n", heads.read_text(), re.MULTILINE)
    assert len(found) == len(set(found)) == 6
    for command in (one, two):
        told = command("verify", "last", "--checkpoint", heads, "--require", "anchor")
        assert told.code == 0, told.out
        assert re.search(r"^anchoring +holds +\(the head of size 3 that you kept\)$", told.out, re.MULTILINE)
        assert "3 of the kept checkpoints are of other logs, and say nothing of this one" in told.out
        past = command("log", "consistency", heads)
        assert past.code == 0, past.out
        assert past.out.rstrip().endswith("; 3 of the kept heads are of other logs")


def test_a_proof_is_made_for_the_first_head_that_covers_the_run(
    shared: tuple[Command, Command, Path], tmp_path: Path
) -> None:
    one, _, heads = shared
    runs = sorted(row["run_id"] for row in one("ls", "--json").json)
    for size, run_id in enumerate(runs, start=1):
        proof, bundle = tmp_path / f"{size}.proof", tmp_path / f"bundle-{size}"
        assert one("log", "prove", run_id, "--checkpoint", heads, "-o", proof).code == 0
        assert proof.read_text().split("\n\n")[1].split("\n")[1] == str(size)
        assert one("export", run_id, "--to", bundle).code == 0
        told = one("log", "check", proof, "--bundle", bundle, "--checkpoint", heads)
        assert told.code == 0, told.out
        assert "contradicted" not in told.out


def test_both_verifiers_say_so_of_a_bundle(shared: tuple[Command, Command, Path], tmp_path: Path) -> None:
    one, two, heads = shared
    for command in (one, two):
        bundle = tmp_path / command.folder.name
        assert command("export", "last", "--to", bundle).code == 0
        ours = command("verify", bundle, "--checkpoint", heads, "--json").json
        (theirs,) = second([bundle], "--checkpoint", str(heads))
        assert theirs["anchoring"] == "holds"
        theirs.pop("exit_code")
        assert comparable(ours) == comparable(theirs)


def test_where_no_head_is_of_this_log_it_is_not_the_one_that_was_kept(
    shared: tuple[Command, Command, Path], tmp_path: Path
) -> None:
    one, two, _ = shared
    kept = tmp_path / "kept"
    kept.write_text(two("log", "checkpoint").out)
    assert one("verify", "last", "--checkpoint", kept).code == 1
    assert one("log", "consistency", kept).code == 1
    assert one("log", "prove", "last", "--checkpoint", kept).code == 2
