"""The store is put back as it was after every commit, and goes on: every step keeps its one key."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reenact.store.sqlite.store import SqliteStore
from tests.torture.box import TOOLS, Box
from tests.torture.campaign import Case
from tests.torture.scenes import begin_session, command, expect

STEPS = 20


def plan_file(box: Box) -> Path:
    path = box.folder / "plan.json"
    steps = [{"step_id": f"s{n}", "skill_id": "pay", "parameters": {"value": n}} for n in range(STEPS)]
    path.write_text(json.dumps({"plan_id": "long", "agent_id": "a", "steps": steps}))
    return path


def begin_plan(box: Box) -> None:
    command(box, "run", str(plan_file(box)), "--skills", TOOLS)


def go_on_with_plan(box: Box) -> None:
    command(box, "recover", "--skills", TOOLS)


def whole_session(box: Box) -> None:
    begin_session(box, STEPS)


BEGIN: dict[str, tuple[Callable[[Box], None], Callable[[Box], None]]] = {
    "plan": (begin_plan, go_on_with_plan),
    "session": (whole_session, whole_session),
}


def keep_copies(box: Box) -> None:
    """In this process: a snapshot of the store's files after each of its commits."""
    real, copies = SqliteStore.append, box.folder / "copies"
    copies.mkdir()

    def append(self: SqliteStore, *args: Any, **known: Any) -> object:
        done = real(self, *args, **known)
        to = copies / f"{len(list(copies.iterdir())) + 1}"
        shutil.copytree(box.home, to)
        (to / "store.db-shm").unlink(missing_ok=True)
        return done

    SqliteStore.append = append  # type: ignore[method-assign, assignment]


def template(kind: str, folder: Path) -> Box:
    box = Box(folder.parent / f"restores-{kind}")
    if not box.folder.exists():
        box.clear()

        def work() -> None:
            keep_copies(box)
            BEGIN[kind][0](box)

        ended = box.process(work)
        assert ended.code == 0, ended.err
    return box


def cases(folder: Path) -> Iterator[Case]:
    for kind in BEGIN:
        copies = len(list((template(kind, folder / "0").folder / "copies").iterdir()))
        yield from (Case("restores", f"{kind}:{n}") for n in range(1, copies + 1))


def run(case: Case, folder: Path) -> tuple[str, list[str]]:
    kind, number = case.name.split(":")
    source = template(kind, folder)
    box = source.copy(folder / "box")
    shutil.rmtree(box.home)
    shutil.copytree(source.folder / "copies" / number, box.home)
    before = box.arrivals()
    ended = box.process(lambda: BEGIN[kind][1](box))
    problems = [] if ended.code == 0 else [f"gave {ended.code}: {ended.err[-1000:]}{ended.out[-300:]}"]
    return kind, [*problems, *held(box, len(before))]


def held(box: Box, before: int) -> Iterator[str]:
    keys: dict[str, set[str]] = {}
    arrivals = box.arrivals()
    for arrival in arrivals:
        keys.setdefault(arrival.step, set()).add(arrival.key)
    if len(keys) != STEPS or any(len(found) != 1 for found in keys.values()) or len(set.union(*keys.values())) != STEPS:
        yield f"not one key for each step: {keys}"
    again = [(arrival.step, arrival.attempt) for arrival in arrivals[before:]]  # one step's first attempt always fails
    if len(set(again)) != len(again):
        yield f"sent more than once after the restore: {again}"
    if [status for _, status in box.runs()] != ["completed"]:
        yield f"runs: {box.runs()}"
    yield from expect(box, 0, "verify", "last")
    yield from expect(box, 0, "replay", "last", "--skills", TOOLS)
