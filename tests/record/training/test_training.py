"""Training data out of journals: what stands in it, who is in which part, and what does not come along."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import Runtime, SkillContext, SkillError, skill
from reenact.errors import UsageError
from reenact.record.training.dataset import PARTS, DataSet, part_of, write_dataset
from tests.cli.harness import SKILLS, Command, error_line
from tests.engines.places import opened, store_at
from tests.store.backends import backend_at

SECRET = "hunter2-correct-horse-battery"
KEY = "sk-ant-api03-" + "Zq7" * 26


@skill("look", version="1.0.0", tool_class="read", cost_estimate_cents=3)
def look(ctx: SkillContext, place: str) -> dict[str, str]:
    """Looks somewhere; some places are worth more than others."""
    if place == "nowhere":
        raise SkillError.of("ERR_VALIDATION_FAILED", "there is nothing")
    if place == "here":
        ctx.utility(0.9)
    return {"found": place}


@skill("sign_in", version="2.0.0", tool_class="read")
def sign_in(user: str, password: str) -> dict[str, str]:
    """Gives back what it got, as tools do."""
    return {"token": f"{user}:{password}"}


def runtime_in(folder: Path) -> Runtime:
    return Runtime(store_at(folder / "store.db"), skills=[look, sign_in], secrets={"PASSWORD": SECRET})


def dataset(folder: Path, to: str = "data", runs: list[str] | None = None, **more: Any) -> DataSet:
    with closing(opened(folder / "store.db", to_read=True)) as store:
        return write_dataset(store, runs, folder / to, **more)


def lines(folder: Path, to: str = "data") -> list[dict[str, Any]]:
    return [json.loads(line) for part in PARTS for line in (folder / to / f"{part}.jsonl").read_text().splitlines()]


def test_calls_are_examples_with_their_labels(tmp_path: Path) -> None:
    with runtime_in(tmp_path).session(goal="find it") as session:
        for place in ("here", "nowhere", "there"):
            session.call("look", {"place": place})
        session.verify(["true", "true"])
        session.turn()
        session.call("look", {"place": "here"})
    dataset(tmp_path)
    found = lines(tmp_path)
    assert [each["inputs"] for each in found] == [
        {"intent": "find it", "step": f"c{number}"} for number in (1, 2, 3, 4)
    ]
    assert found[0]["outputs"] == {"tool": "look", "params": {"place": "here"}}
    assert [each["labels"] for each in found] == [
        {"step_utility": 0.9, "verification_delta": None, "was_repeated": False, "cost": 0.03},
        {"step_utility": -0.4, "verification_delta": None, "was_repeated": False, "cost": 0.03},
        {"step_utility": 0.2, "verification_delta": 2, "was_repeated": False, "cost": 0.03},
        {"step_utility": 0.9, "verification_delta": None, "was_repeated": True, "cost": 0.03},
    ]


def test_nothing_of_a_secret_comes_along(tmp_path: Path) -> None:
    with runtime_in(tmp_path).session(goal=f"sign in with {SECRET}") as session:
        session.call("sign_in", {"user": "ann"}, secrets={"/password": "PASSWORD"})
        session.call("sign_in", {"user": "ann", "password": SECRET})
        session.call("sign_in", {"user": KEY, "password": "x"})
        session.call("look", {"place": f"behind {SECRET} and {KEY}"})
    found = dataset(tmp_path)
    written = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir())
    assert SECRET.encode() not in written
    assert KEY.encode() not in written
    assert b"$sealed" not in written, "what it was turned to is nobody's either"
    assert sum(part.hidden for part in found.parts.values()) >= 2


def test_of_calls_that_a_secret_was_taken_out_of_nobody_knows_whether_one_repeats_the_other(tmp_path: Path) -> None:
    with runtime_in(tmp_path).session() as session:
        for place in (KEY, KEY.replace("Z", "Y"), "here", "here"):
            session.call("look", {"place": place})
    dataset(tmp_path)
    assert [each["labels"]["was_repeated"] for each in lines(tmp_path)] == [False, None, False, True]


def test_the_same_seed_gives_the_same_bytes_and_a_session_is_in_one_part(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path)
    for number in range(12):
        with runtime.session(id=f"task-{number % 6}-{number // 6}", goal=f"task {number}") as session:
            session.call("look", {"place": f"room {number}"})
    dataset(tmp_path, "one", seed=7, split=(50, 25, 25))
    dataset(tmp_path, "two", seed=7, split=(50, 25, 25))
    names = [f"{part}.jsonl" for part in PARTS] + ["CARD.md"]
    assert [(tmp_path / "one" / name).read_bytes() for name in names] == [
        (tmp_path / "two" / name).read_bytes() for name in names
    ]
    other = dataset(tmp_path, "other", seed=8, split=(50, 25, 25))
    assert (tmp_path / "other" / "train.jsonl").read_bytes() != (tmp_path / "one" / "train.jsonl").read_bytes()
    assert sum(len(part.sessions) for part in other.parts.values()) == 12
    assert not set.intersection(*(part.sessions for part in other.parts.values()))


def test_a_run_that_goes_on_from_another_is_in_its_part(tmp_path: Path) -> None:
    """Whoever trains on the first must not be tested on the second."""
    runtime = runtime_in(tmp_path)
    sessions = []
    for number in range(8):
        with suppress(ZeroDivisionError), runtime.session(id=f"t{number}") as session:
            session.call("look", {"place": "first"})
            raise ZeroDivisionError
        sessions.append(session.run_id)
        with runtime.session(id=f"t{number}", on_divergence="fork") as session:
            session.call("look", {"place": "second"})
        sessions.append(session.run_id)
    found = dataset(tmp_path, split=(40, 30, 30))
    assert found.examples == 16
    assert sum(len(part.sessions) for part in found.parts.values()) == 8
    by_run = {each["source"]["run_id"]: part for part in PARTS for each in part_lines(tmp_path, part)}
    assert all(by_run[first] == by_run[second] for first, second in zip(sessions[::2], sessions[1::2], strict=True))
    assert len(set(by_run.values())) > 1


def part_lines(folder: Path, part: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "data" / f"{part}.jsonl").read_text().splitlines()]


@given(st.text(max_size=20), st.integers(-(2**40), 2**40))
def test_a_session_stays_in_its_part_however_the_others_are_cut(session: str, seed: int) -> None:
    small, large = part_of(session, seed, (60, 20, 20)), part_of(session, seed, (80, 10, 10))
    assert (small, large) != ("train", "test")
    assert part_of(session, seed, (100, 0, 0)) == "train"


def test_what_is_erased_replayed_open_or_damaged_is_left_out_and_counted(reenact: Command) -> None:
    plan = reenact.plan({"skill_id": "steady", "parameters": {"text": "one"}}, {"skill_id": "steady"})
    ids = [reenact("run", plan, "--skills", SKILLS, "--json").json["run_id"] for _ in range(3)]
    last = opened(reenact.store).find_run(ids[2]).commits
    reenact("replay", ids[0], "--skills", SKILLS, "--mode", "full_replay", "--save")
    reenact("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_dispatch:1")
    erased = reenact("erase", ids[1], "s0", "--yes", "--reason", "they asked")
    assert erased.code == 0
    backend_at(reenact.folder).remove_commit(opened(reenact.store), ids[2], last)
    done = reenact("export", "--all", "--format", "training", "--to", reenact.folder / "data", "--json")
    assert (done.code, done.json["examples"], done.json["calls_left_out"]) == (
        1,
        3,
        {"its parameters are erased": 1},
    )
    left_out = done.json["runs_left_out"]
    assert (left_out["not ended"], left_out["it does not verify"]) == (1, 1)
    assert list(done.json["broken"]) == [ids[2]]
    assert f"run {ids[2]} was left out" in done.err
    card = (reenact.folder / "data" / "CARD.md").read_text(encoding="utf-8")
    assert "- runs: it does not verify: 1" in card
    named = reenact("export", ids[2], "--format", "training", "--to", reenact.folder / "other")
    assert (named.code, (reenact.folder / "other").exists()) == (1, False)


@pytest.fixture
def reenact(tmp_path: Path) -> Command:
    return Command(tmp_path)


def test_what_cannot_be_is_told_in_one_line(reenact: Command) -> None:
    reenact("run", reenact.plan({"skill_id": "steady"}), "--skills", SKILLS)
    to = ["--format", "training", "--to", str(reenact.folder / "data")]
    for arguments, says in (
        ([*to], "name the runs to learn from, or say --all"),
        (["last", "--all", *to], "one of the two"),
        (["--all", "--split", "50,50", *to], "three whole numbers"),
        (["last", "last", "--to", "x"], "name one run"),
        (["last", "--payloads", "none", *to], "training data is made of values"),
        (["last", "--seed", "3", "--to", "x"], "say --format training"),
        (["last", "--split", "0,0,100", "--to", "x"], "say --format training"),
    ):
        done = reenact("export", *arguments)
        assert (done.code, says in error_line(done)) == (2, True)


def test_a_split_that_does_not_come_to_a_hundred_is_refused(tmp_path: Path) -> None:
    with runtime_in(tmp_path).session() as session:
        session.call("look", {"place": "here"})
    with pytest.raises(UsageError, match="come to 100"):
        dataset(tmp_path, split=(80, 10, 5))
