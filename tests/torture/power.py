"""Power is lost: of what a run had written only what was synced is sure to be there, and of the rest any part.

One run of each scene is recorded, call by call. After each of its calls the disk is put together as it may lie there
when power comes back, in several ways; the ledger is as the tool had left it by then. Names are as durable as their
folder: a file that was made, named or deleted is so once the folder was synced, and in that order.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.torture.box import Box, Ended
from tests.torture.campaign import SEED, Case
from tests.torture.faults import prepared
from tests.torture.scenes import SCENES, Scene
from tests.torture.shim import Op, ops

WAYS = ("synced", "prefix", "subset-1", "subset-2", "subset-3")
SECTOR = 512
SURVIVE = {"subset-1": 0.1, "subset-2": 0.5, "subset-3": 0.9}


@dataclass
class File:
    """What is sure to be there, and what was written since."""

    synced: bytes = b""
    since: list[Op] = field(default_factory=list)

    def content(self, way: str, rng: random.Random) -> bytes:
        found = bytearray(self.synced)
        keep = self.since if way in SURVIVE or way == "all" else []
        if way == "prefix" and self.since:
            keep = self.since[: rng.randrange(len(self.since) + 1)]
        for op in keep:
            put(found, op, SURVIVE.get(way, 1.0), rng)
        return bytes(found)


def put(found: bytearray, op: Op, survives: float, rng: random.Random) -> None:
    """A write, sector by sector as they lie on the disk; or another size."""
    if op.kind == "T":
        if survives < 1 and rng.random() > survives:
            return
        del found[op.size :]
        found.extend(bytes(op.size - len(found)))
        return
    at, end = op.offset, op.offset + len(op.data)
    while at < end:
        upto = min(end, (at // SECTOR + 1) * SECTOR)
        if survives == 1 or rng.random() < survives:
            found.extend(bytes(max(0, upto - len(found))))
            found[at:upto] = op.data[at - op.offset : upto - op.offset]
        at = upto


@dataclass
class Disk:
    """Files, under which names they are sure to be found, and how that has changed since."""

    home: Path
    files: dict[int, File] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    """As a process sees them; a folder is 0."""
    synced: dict[str, int] = field(default_factory=dict)
    renamed: list[tuple[str, str | None, int]] = field(default_factory=list)
    """(a name, the one that it had before, the file); the file is -1 where it is deleted"""
    numbers: dict[int, int] = field(default_factory=dict)
    """A number of the system → one that is never used again"""
    ledger: bytes = b""
    is_told: bool = False

    def lay(self, home: Path) -> None:
        """What lies there now is sure to be there."""
        for path in home.rglob("*"):
            number = 0 if path.is_dir() else len(self.files) + 1
            if number:
                self.files[number] = File(path.read_bytes())
            self.names[str(self.home / path.relative_to(home))] = self.synced[
                str(self.home / path.relative_to(home))
            ] = number

    def apply(self, op: Op) -> None:
        if op.is_witness:
            if op.kind == "W" and op.path.endswith("/ledger"):
                self.ledger += op.data
            self.is_told = self.is_told or op.path.endswith("/told")
        elif op.kind == "O":
            self.files[len(self.files) + 1] = File()
            self._name(op.path, len(self.files))
        elif op.kind in "WT":
            if (file := self._file(op.path)) is not None:
                file.since.append(op)
        elif op.kind == "S":
            self._sync(op.path)
        elif op.kind == "U":
            self._name(op.path, -1)
        elif op.kind == "M":
            self._name(op.path, 0)
        elif op.kind in "NL":
            self._rename(op)

    def _file(self, path: str) -> File | None:
        """None where it was deleted: nobody will ever find it again."""
        return self.files.get(self.names.get(path, -1))

    def _name(self, path: str, number: int, before: str | None = None) -> None:
        self.renamed.append((path, before, number))
        renamed(self.names, path, before, number)

    def _rename(self, op: Op) -> None:
        self._name(op.other, self.names[op.path], op.path if op.kind == "N" else None)

    def _sync(self, path: str) -> None:
        if path == str(self.home) or self.names.get(path) == 0:
            ours = [each for each in self.renamed if str(Path(each[0]).parent) == path]
            self.renamed = [each for each in self.renamed if each not in ours]
            for each in ours:
                renamed(self.synced, *each)
        elif (file := self._file(path)) is not None:
            file.synced, file.since = file.content("all", random.Random(0)), []

    def write(self, home: Path, way: str, rng: random.Random) -> None:
        """One way in which it may lie there when power comes back."""
        names = dict(self.synced)
        kept = 0 if way == "synced" else rng.randrange(len(self.renamed) + 1)
        for each in self.renamed[:kept]:
            renamed(names, *each)
        shutil.rmtree(home)
        home.mkdir()
        places: dict[int, Path] = {}
        for name, number in sorted(names.items()):
            path = home / Path(name).relative_to(self.home)
            if number == 0:
                path.mkdir(parents=True, exist_ok=True)
            elif number in places:
                path.hardlink_to(places[number])
            elif path.parent.is_dir():
                places[number] = path
                path.write_bytes(self.files[number].content(way, rng))
                path.chmod(0o600)


def renamed(names: dict[str, int], path: str, before: str | None, number: int) -> None:
    """A folder takes what is in it along, at once."""
    if before is not None:
        names.pop(before, None)
        for name in [name for name in names if name.startswith(f"{before}/")]:
            names[path + name.removeprefix(before)] = names.pop(name)
    if number < 0:
        names.pop(path, None)
    else:
        names[path] = number


def recorded(scene: Scene, folder: Path) -> Path:
    """The calls of one run to which nothing happened."""
    record = folder.parent / f"record-{scene.name}"
    if not record.exists():
        box = prepared(scene, folder).copy(folder.parent / f"recorded-{scene.name}")

        def work() -> None:
            try:
                scene.begin(box)
            except SystemExit as ended:
                if ended.code not in (0, None):
                    raise
            Path(box.witness, "told").write_text("told\n")

        ended = box.process(work, None, record)
        assert ended.code in (0, 4), ended.err
    return record


@cache
def ops_of(record: Path) -> list[Op]:
    return list(ops(record))


def cases(folder: Path) -> Iterator[Case]:
    for scene in SCENES.values():
        listed = ops_of(recorded(scene, folder / "0"))
        for n, op in enumerate(listed, 1):
            if not (op.is_witness and op.kind == "S"):
                yield from (Case("power", f"{scene.name}:{way}:{n}") for way in WAYS)


def run(case: Case, folder: Path) -> tuple[str, list[str]]:
    name, way, number = case.name.split(":")
    scene = SCENES[name]
    template = prepared(scene, folder)
    listed = ops_of(recorded(scene, folder))
    disk = Disk(folder.parent / f"recorded-{name}" / "store")
    disk.lay(template.home)
    for op in listed[: int(number)]:
        disk.apply(op)
    box: Box = template.copy(folder / "box")
    disk.write(box.home, way, random.Random(f"{SEED} {case.name}"))
    box.ledger.write_bytes(template.ledger.read_bytes() + disk.ledger)
    begun = Ended(0 if disk.is_told else 137, "", "", fired=True, calls=0)
    return way, list(scene.go_on(box, begun))
