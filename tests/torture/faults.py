"""Faults at every system call that a small run makes on the files of its store."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.torture.box import Box
from tests.torture.campaign import Case
from tests.torture.scenes import SCENES, Scene
from tests.torture.shim import CHANGES, TOLD, Fault

KINDS: dict[str, tuple[str, int, str]] = {
    "kill": ("kill", 0, ""),
    "after": ("after", 0, CHANGES),
    "torn": ("torn", 0, "W"),
    "eio": ("fail", errno.EIO, "WSTRONLM"),
    "eio-stays": ("stay", errno.EIO, "WSTRONLM"),
    "enospc": ("fail", errno.ENOSPC, "WTOLNM"),
    "enospc-stays": ("stay", errno.ENOSPC, "WTOLNM"),
    "sigint": ("send", signal.SIGINT, CHANGES),
    "sigterm": ("send", signal.SIGTERM, CHANGES),
}
"""name → what the shim does, its argument, the calls that it is done to"""
VANISHING = {"no-database": "", "no-log": "-wal", "no-index": "-shm"}
"""name → what the file that is unlinked is called behind the store's own name"""


def calls(scene: Scene, template: Box, folder: Path) -> dict[str, int]:
    """How many calls of which kinds a run makes when nothing goes wrong."""
    ended = scene.run(template.copy(folder), Fault())
    assert ended.code in (0, 4), ended.err
    return {which: TOLD.of_kinds(which) for which in {kinds for _, _, kinds in KINDS.values()}}


def cases(folder: Path) -> Iterator[Case]:
    for scene in SCENES.values():
        template = prepared(scene, folder / "0")
        counted = calls(scene, template, folder / "counting")
        for kind, (_, _, which) in KINDS.items():
            if scene.name == "export" and kind == "torn":
                continue
            for n in range(1, counted[which] + 1):
                yield Case("faults", f"{scene.name}:{kind}:{n}")
        if scene.name in ("plan", "session"):
            for kind in VANISHING:
                yield from (Case("faults", f"{scene.name}:{kind}:{n}") for n in range(1, counted[CHANGES] + 1))


def prepared(scene: Scene, folder: Path) -> Box:
    template = Box(folder.parent / f"template-{scene.name}")
    if not template.folder.exists():
        scene.prepare(template.clear())
    return template


def run(case: Case, folder: Path) -> tuple[str, list[str]]:
    """What was done, and what went wrong then."""
    name, kind, number = case.name.split(":")
    scene = SCENES[name]
    box = prepared(scene, folder).copy(folder / "box")
    ended = scene.run(box, fault_of(kind, int(number), box))
    if not ended.fired:
        return "not reached", []
    wrong = ended.ill_told()
    problems = [] if wrong is None else [wrong]
    if kind in VANISHING:
        if ended.code == 0 and kind != "no-index" and TOLD.fired_before_seal:
            problems.append("told as completed, and nobody will ever find it")
        put_back(box, kind)
    problems += scene.go_on(box, ended)
    return kind, problems


def fault_of(kind: str, n: int, box: Box) -> Fault:
    if kind in VANISHING:
        return Fault("vanish", n, CHANGES, victim=f"{box.store}{VANISHING[kind]}")
    action, argument, which = KINDS[kind]
    return Fault(action, n, which, argument)


def put_back(box: Box, kind: str) -> None:
    """What somebody had moved away is where it was, with all that was written to it meanwhile."""
    place, vanished = Path(f"{box.store}{VANISHING[kind]}"), box.folder / "vanished"
    if kind != "no-index" and vanished.exists():
        vanished.replace(place)
        place.chmod(0o600)
