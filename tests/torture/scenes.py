"""What is done to a store while things go wrong: how it begins, how it goes on, and what has to hold then."""

from __future__ import annotations

import gzip
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.store.sqlite.test_migrations import TODAY
from tests.torture.box import PLAN, TOOLS, Arrival, Box, Ended
from tests.torture.shim import Fault

STEPS = 4


@dataclass(frozen=True)
class Scene:
    """`prepare` makes a box once; `begin` is what goes wrong; `go_on` is what people do next, and finds fault."""

    name: str
    prepare: Callable[[Box], None]
    begin: Callable[[Box], object]
    go_on: Callable[[Box, Ended], Iterator[str]]

    def run(self, box: Box, fault: Fault | None = None, record: Path | None = None) -> Ended:
        return box.process(lambda: self.begin(box), fault, record)


def command(box: Box, *arguments: str) -> None:
    from reenact.cli.main import main

    main([*arguments, "--store", str(box.store)])


def expect(box: Box, code: int, *arguments: str) -> Iterator[str]:
    """A command that has to end so."""
    ended = box.command(*arguments)
    said = ended.ill_told()
    if said is not None or ended.code != code:
        yield f"`{' '.join(arguments[:2])}` gave {ended.code} instead of {code}: {said or ended.err + ended.out}"


# -- plans and sessions ---------------------------------------------------------------------------------------------


def begin_plan(box: Box) -> None:
    command(box, "run", str(PLAN), "--skills", TOOLS)


def begin_session(box: Box, steps: int = STEPS) -> None:
    """The program that is started again after whatever happened."""
    runtime = box.runtime()
    try:
        with runtime.session(id="till", agent_id="a") as session:
            for value in range(1, steps + 1):
                tool = "flaky" if value == 2 else "pay"
                given = {} if value == 2 else {"value": value}
                session.call(tool, given, idempotency_key="third" if value == 3 else None)
            session.now()
    finally:
        runtime.close()


def recover_plan(box: Box, begun: Ended) -> Iterator[str]:
    before = box.arrivals()
    yield from expect(box, 0, "recover", "--skills", TOOLS)
    if not box.runs():
        if before or begun.code == 0:
            yield f"no run is left, after {len(before)} calls"
        yield from expect(box, 0, "run", str(PLAN), "--skills", TOOLS)
    yield from ended_well(box, before, begun)
    yield from leftovers(box)


def restart_session(box: Box, begun: Ended) -> Iterator[str]:
    before = box.arrivals()
    again = box.process(lambda: begin_session(box))
    if again.code != 0:
        yield f"started again, it gave {again.code}: {again.err[-1500:]}"
    yield from ended_well(box, before, begun)
    yield from leftovers(box)


def ended_well(box: Box, before: list[Arrival], begun: Ended) -> Iterator[str]:
    """The one run is completed, verifies and replays; the ledger agrees."""
    runs = box.runs()
    if [status for _, status in runs] != ["completed"]:
        yield f"runs: {runs}"
        return
    yield from expect(box, 0, "verify", "last")
    yield from expect(box, 0, "replay", "last", "--skills", TOOLS)
    yield from ledger_agrees(before, box.arrivals(), told=begun.code == 0)


def leftovers(box: Box) -> Iterator[str]:
    known = {box.store.name + part for part in ("", "-wal", "-shm", "-turn", ".key")}
    later = re.compile(rf"{re.escape(box.store.name)}\.key\.[0-9a-f]{{16}}\Z")
    left = [file.name for file in box.home.iterdir() if file.name not in known and not later.match(file.name)]
    if left:
        yield f"left behind: {left}"


def ledger_agrees(before: list[Arrival], after: list[Arrival], *, told: bool) -> Iterator[str]:
    """Nothing recorded was sent again: no call but the last that had been made, nor that one where an end was told.

    What is sent again comes under the key that it had, and every step is done.
    """
    keys: dict[str, set[str]] = {}
    for arrival in after:
        keys.setdefault(arrival.step, set()).add(arrival.key)
    if len(keys) != STEPS or any(len(found) != 1 for found in keys.values()):
        yield f"not one key for each step: {keys}"
    if len(set.union(set(), *keys.values())) != len(keys):
        yield f"two steps share a key: {keys}"
    again = Counter((arrival.step, arrival.attempt) for arrival in after[len(before) :])
    made = [(arrival.step, arrival.attempt) for arrival in before]
    recorded = made if told else made[:-1]
    if set(recorded) & set(again) or any(times > 1 for times in again.values()):
        yield f"sent again: {made} then {dict(again)}, told {told}"


# -- what is done to a store that is there ---------------------------------------------------------------------------


def prepare_sealed(box: Box) -> None:
    box.process(lambda: begin_plan(box))


def prepare_open(box: Box) -> None:
    """A run that was killed on its way."""
    from reenact.runtime import crash_points

    def work() -> None:
        crash_points.arm("before_dispatch:3")
        begin_plan(box)

    assert box.process(work).code == 137


def bundle_of(box: Box) -> Path:
    return box.home / "bundle"


def begin_export(box: Box) -> None:
    command(box, "export", "last", "--to", str(bundle_of(box)))


def export_again(box: Box, begun: Ended) -> Iterator[str]:
    if not bundle_of(box).exists() or not any(bundle_of(box).iterdir()):
        if begun.code == 0:
            yield "exported, and not there"
        yield from expect(box, 0, "export", "last", "--to", str(bundle_of(box)))
    verified = box.process(lambda: verify_folder(bundle_of(box)))
    if verified.code != 0:
        yield f"the bundle does not verify: {verified.out[-500:]}{verified.err[-500:]}"
    yield from expect(box, 0, "verify", "last")
    drafts = [file.name for file in box.home.iterdir() if file.name.startswith(".bundle")]
    if drafts and begun.code < 128:
        yield f"left behind: {drafts}"


def verify_folder(folder: Path) -> None:
    from reenact.cli.main import main

    main(["verify", str(folder)])


def prepare_older(box: Box) -> None:
    """A store of an earlier schema."""
    box.store.write_bytes(gzip.decompress(TODAY.read_bytes()))
    box.store.chmod(0o600)


def begin_migration(box: Box) -> None:
    command(box, "recover", "--skills", TOOLS)


def migrated(box: Box, begun: Ended) -> Iterator[str]:
    before = older_runs(box.store)
    ended = box.command("recover", "--skills", TOOLS)
    if (wrong := ended.ill_told()) is not None:
        yield wrong
    if older_runs(box.store) != before:
        yield "runs were lost on the way"
    from reenact.store.sqlite import migrations

    with closing(sqlite3.connect(box.store)) as db:
        if db.execute("PRAGMA user_version").fetchone()[0] != migrations.latest():
            yield "it was not brought to the newest schema"
        if db.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
            yield "the file is damaged"
    backup = next(box.home.glob("*.backup"), None)
    if backup is None or older_runs(backup) != before:
        yield "no whole backup"


def older_runs(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return [*db.execute("SELECT id, body FROM commits ORDER BY id")]


def begin_rotation(box: Box) -> None:
    command(box, "keys", "rotate", "--who", "ops")


def rotated(box: Box, begun: Ended) -> Iterator[str]:
    """The run that is open goes on, whichever key signs now, and so does a new one."""
    before = box.arrivals()
    yield from expect(box, 0, "keys", "list")
    yield from expect(box, 0, "recover", "--skills", TOOLS)
    yield from ended_well(box, before, Ended(1, "", "", fired=False, calls=0))
    yield from expect(box, 0, "run", str(PLAN), "--skills", TOOLS)
    yield from expect(box, 0, "verify", "last")
    yield from expect(box, 0, "keys", "rotate", "--who", "ops")
    yield from leftovers(box)


def prepare_lost(box: Box) -> None:
    prepare_open(box)
    box.store.with_name(f"{box.store.name}.key").unlink()


def begin_replacement(box: Box) -> None:
    command(box, "keys", "replace", "--lost", "--reason", "the disk died", "--who", "ops")


def replaced(box: Box, begun: Ended) -> Iterator[str]:
    before = box.arrivals()
    if box.command("recover", "--skills", TOOLS).code == 4:  # still lost
        if begun.code == 0:
            yield "replaced, and not there"
        yield from expect(box, 0, "keys", "replace", "--lost", "--reason", "the disk died", "--who", "ops")
        yield from expect(box, 0, "recover", "--skills", TOOLS)
    yield from ended_well(box, before, Ended(1, "", "", fired=False, calls=0))
    yield from expect(box, 0, "keys", "rotate", "--who", "ops")  # the next key that is made
    yield from leftovers(box)


def nothing(box: Box) -> None:
    """A folder without a store."""


SCENES: dict[str, Scene] = {
    scene.name: scene
    for scene in (
        Scene("plan", nothing, begin_plan, recover_plan),
        Scene("session", nothing, begin_session, restart_session),
        Scene("recover", prepare_open, lambda box: command(box, "recover", "--skills", TOOLS), recover_plan),
        Scene("export", prepare_sealed, begin_export, export_again),
        Scene("migration", prepare_older, begin_migration, migrated),
        Scene("rotation", prepare_open, begin_rotation, rotated),
        Scene("replacement", prepare_lost, begin_replacement, replaced),
    )
}
