"""The signing key is lost after every commit: the run is held, untouched; with it, or one in its place, it goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from reenact.runtime import crash_points
from reenact.verify.signed.notes import ROTATION
from tests.torture.box import TOOLS, Box, Ended
from tests.torture.campaign import Case
from tests.torture.scenes import begin_plan, begin_session, command, ended_well, expect

KILLED = 137
HELD = 4


def recover(box: Box) -> None:
    command(box, "recover", "--skills", TOOLS)


BEGIN: dict[str, tuple[Callable[[Box], None], Callable[[Box], None]]] = {
    "plan": (begin_plan, recover),
    "session": (begin_session, begin_session),
}


def killed(kind: str, commit: int, box: Box) -> bool:
    """Right after this commit; False where there are fewer."""

    def work() -> None:
        crash_points.arm(f"after_commit:{commit}")
        BEGIN[kind][0](box)

    return box.clear().process(work).code == KILLED


def cases(folder: Path) -> Iterator[Case]:
    for kind in BEGIN:
        commit = 1
        while killed(kind, commit, Box(folder / "counting")):
            yield Case("keys", f"{kind}:{commit}")
            commit += 1


def run(case: Case, folder: Path) -> tuple[str, list[str]]:
    kind, number = case.name.split(":")
    commit, go_on = int(number), BEGIN[kind][1]
    box = Box(folder / "box")
    assert killed(kind, commit, box)
    key, away = Path(f"{box.store}.key"), box.folder / "away"
    key.rename(away)
    problems = [*held(box, go_on)]
    other = box.copy(folder / "other")
    away.rename(key)
    problems += went_on(box, go_on)
    problems += rotation_forged(box)
    problems += went_on_under_another(other, go_on, commit)
    return kind, problems


def rows(box: Box) -> list[object]:
    """All that the database holds."""
    with closing(sqlite3.connect(box.store)) as db:
        names = sorted(row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
        return [[name, *db.execute(f"SELECT * FROM {name}")] for name in names]


def is_sealed(box: Box) -> bool:
    return [status for _, status in box.runs()] == ["completed"]


def kid_of(box: Box) -> str:
    from reenact.record.reader import RunReader
    from reenact.store.sqlite.store import SqliteStore

    store = SqliteStore(str(box.store))
    try:
        return RunReader(store, store.find_run("last").run_id).record().capability_key
    finally:
        store.close()


def held(box: Box, go_on: Callable[[Box], None]) -> Iterator[str]:
    kid, before, calls = kid_of(box), rows(box), box.arrivals()
    ended = box.process(lambda: go_on(box))
    # There is nothing to recover of a plan that has ended; what a session answered is answered again by its key alone.
    expected = 0 if is_sealed(box) and go_on is recover else HELD
    if ended.code != expected or ended.ill_told() is not None:
        yield f"without its key: {ended.code} instead of {expected}: {ended.out}{ended.err}"
    if expected == HELD and kid not in ended.out + ended.err:
        yield f"{kid} is not named: {ended.out}{ended.err}"
    if rows(box) != before:
        yield "something was changed without the key"
    if box.arrivals() != calls:
        yield "something was sent without the key"
    if Path(f"{box.store}.key").exists():
        yield "a key was made for a store that has runs"


def went_on(box: Box, go_on: Callable[[Box], None]) -> Iterator[str]:
    before = box.arrivals()
    ended = box.process(lambda: go_on(box))
    if ended.code != 0:
        yield f"with its key again: {ended.code}: {ended.err}{ended.out}"
    yield from ended_well(box, before, Ended(KILLED, "", "", fired=True, calls=0))


def rotation_forged(box: Box) -> Iterator[str]:
    """A rotation whose signature is another, and one that has none, is found."""
    yield from expect(box, 0, "keys", "rotate", "--who", "ops")
    yield from expect(box, 0, "verify", "last")
    for change in FORGERIES:
        forged = box.copy(box.folder.parent / "forged")
        with closing(sqlite3.connect(forged.store, isolation_level=None)) as db:
            triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                db.execute(f"DROP TRIGGER {name}")
            if db.execute(f"{change} AND schema = '{ROTATION}'").rowcount != 1:
                yield "there is no rotation to forge"
            for _, made in triggers:
                db.execute(made)
        ended = forged.command("verify", "last")
        if ended.code != 1 or "KEY_HISTORY" not in ended.out or "Traceback" in ended.err:
            yield f"a forged rotation gives {ended.code}: {change}: {ended.out}"


FORGERIES = (
    "UPDATE notes SET signature = randomblob(64) WHERE 1",
    "UPDATE notes SET kid = '0123456789abcdef' WHERE 1",
)


def went_on_under_another(box: Box, go_on: Callable[[Box], None], commit: int) -> Iterator[str]:
    if is_sealed(box):
        return
    before = box.arrivals()
    yield from expect(box, 0, "keys", "replace", "--lost", "--reason", "the disk died", "--who", "ops")
    ended = box.process(lambda: go_on(box))
    if ended.code != 0:
        yield f"with another key: {ended.code}: {ended.err}{ended.out}"
    verified = box.command("verify", "last")
    said = f"key replaced at commit {commit}, not vouched for by the old key"
    if said not in verified.out:
        yield f"verify does not say that the key was replaced: {verified.out}"
    yield from ended_well(box, before, Ended(KILLED, "", "", fired=True, calls=0))
