"""Count what a call passes through: function calls, functions, modules and changes of package of five walks.

    python -m tools.walks                      every walk, one line each
    python -m tools.walks --list session_call  its files, in the order in which they are first entered
    python -m tools.walks --data session_call  both as JSON
    python -m tools.walks --check              exit 1 where a limit is exceeded

Counted are the `call` events of `sys.setprofile` in modules `reenact.*`, in all threads but those of skills:
functions, and bodies of modules and classes where they are imported on the way. A coroutine or generator that goes on
counts each time. Calls into C are not counted. A package is the first two names of a module (`reenact.runtime`). The
skill does next to nothing, runs in a thread and declares nothing but its version.

The walks:

    session_call        `await session.call(…)`, the same call for the fourth time in its session
    session_call_async  the same with an `async def`
    run                 `runtime.run(…)` of two steps, the second of its runtime
    first_run           the same as a new program does it: opens a new store and runs, what is imported for it counted
    recover             `runtime.recover()` of a run whose process died in its second step
    mock_replay         `runtime.replay(…)` of a run of two steps
    verify              `reenact verify RUN` in the store, as the command does it

Each walk has a process of its own. All but `first_run` are made once before they are counted, so that nothing is
imported on the way; of three the shortest counts (a new millisecond costs two calls more, for its ids).
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple

import msgspec

import reenact
from reenact import Runtime, skill

HOME = Path(__file__).resolve().parents[1]
TIMES = 3
SKILL_THREADS = "reenact-skill"


class Entry(NamedTuple):
    """One call event: the function that was entered."""

    module: str
    function: str
    line: int
    file: str

    @property
    def package(self) -> str:
        return ".".join(self.module.split(".")[:2])


class Figures(msgspec.Struct, frozen=True):
    """What is counted of a walk, and its files in the order in which they are first entered."""

    calls: int
    functions: int
    modules: int
    changes: int
    files: tuple[str, ...]


class Watch:
    """`with watch:` keeps every call in modules whose names begin with `prefix`, in the order in which they are made.

    In all threads that are begun after it was made, and in the one that made it: a commit is part of a walk wherever
    it runs. But not in the threads in which skills run: what those do there is their own.
    """

    def __init__(self, prefix: str = "reenact.") -> None:
        self.prefix = prefix
        self.entries: list[Entry] = []
        self._on = False
        threading.setprofile(self._heard)

    def __enter__(self) -> None:
        self._on = True
        sys.setprofile(self._heard)

    def __exit__(self, *_: object) -> None:
        self._on = False
        sys.setprofile(None)

    def close(self) -> None:
        threading.setprofile(None)

    def _heard(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not self._on or threading.current_thread().name.startswith(SKILL_THREADS):
            return
        module = frame.f_globals.get("__name__") or ""
        if module.startswith(self.prefix):
            code = frame.f_code
            self.entries.append(Entry(module, code.co_qualname, code.co_firstlineno, code.co_filename))

    def figures(self, root: Path) -> Figures:
        """The counts; files are named from `root`, and those outside, as code made from a text, are left out."""
        inside = [Path(name) for name in dict.fromkeys(entry.file for entry in self.entries)]
        return Figures(
            calls=len(self.entries),
            functions=len({entry[:3] for entry in self.entries}),
            modules=len({entry.module for entry in self.entries}),
            changes=sum(before.package != after.package for before, after in pairwise(self.entries)),
            files=tuple(path.relative_to(root).as_posix() for path in inside if path.is_relative_to(root)),
        )


# -- the walks ---------------------------------------------------------------------------------------------------------


@skill("look", version="1.0.0")
def look(order: str) -> dict[str, str]:
    """Look up an order."""
    return {"order": order}


@skill("look_async", version="1.0.0")
async def look_async(order: str) -> dict[str, str]:
    """Look up an order without a thread."""
    return {"order": order}


@skill("look_and_die", version="1.0.0")
def look_and_die(order: str) -> dict[str, str]:
    """Look up an order, unless it is the one that ends the process while `DIES` is set."""
    if order == "1" and os.environ.get(DIES):
        os._exit(DIED)
    return {"order": order}


DIES, DIED = "REENACT_WALK_DIES", 9


def opened(folder: Path) -> Runtime:
    return Runtime(f"sqlite:///{folder / 'walk.db'}", skills=[look, look_async, look_and_die])


def two_steps(skill_id: str = "look") -> dict[str, object]:
    steps = [
        {
            "step_id": f"step-{number}",
            "skill_id": skill_id,
            "skill_version": "1.0.0",
            "parameters": {"order": str(number)},
        }
        for number in range(2)
    ]
    return {"plan_id": "two-steps", "agent_id": "walks", "goal": "two steps", "steps": steps}


def session_call(folder: Path, watch: Watch, skill_id: str = "look") -> None:
    async def calls() -> None:
        async with opened(folder).session(goal="one call", agent_id="walks") as session:
            for _ in range(3):
                await session.call(skill_id, {"order": "0"})
            with watch:
                outcome = await session.call(skill_id, {"order": "0"})
        arrived(ok=outcome.status == "success")

    asyncio.run(calls())


def session_call_async(folder: Path, watch: Watch) -> None:
    session_call(folder, watch, "look_async")


def run(folder: Path, watch: Watch) -> None:
    runtime = opened(folder)
    runtime.run(two_steps())
    with watch:
        result = runtime.run(two_steps())
    arrived(ok=result.status == "completed")
    runtime.close()


def first_run(folder: Path, watch: Watch) -> None:
    with watch:
        runtime = opened(folder)
        result = runtime.run(two_steps())
    arrived(ok=result.status == "completed")
    runtime.close()


def recover(folder: Path, watch: Watch) -> None:
    program = "import sys, pathlib, tools.walks as walks; walks.die_in_a_run(pathlib.Path(sys.argv[1]))"
    dying = [sys.executable, "-c", program, str(folder)]
    died = subprocess.run(dying, cwd=HOME, env={**os.environ, DIES: "1"}, check=False)  # noqa: S603 - this very file
    arrived(ok=died.returncode == DIED)
    runtime = opened(folder)
    with watch:
        results = runtime.recover()
    arrived(ok=[result.status for result in results] == ["completed"])
    runtime.close()


def die_in_a_run(folder: Path) -> None:
    """What the process does whose run is recovered."""
    opened(folder).run(two_steps("look_and_die"))


def mock_replay(folder: Path, watch: Watch) -> None:
    runtime = opened(folder)
    recorded = runtime.run(two_steps())
    with watch:
        replayed = runtime.replay(recorded.run_id)
    arrived(ok=replayed.ok)
    runtime.close()


def verify(folder: Path, watch: Watch) -> None:
    from reenact.__main__ import main

    runtime = opened(folder)
    run_id = runtime.run(two_steps()).run_id
    runtime.close()
    arguments, sys.argv = sys.argv, ["reenact", "verify", run_id, "--store", str(folder / "walk.db")]
    try:
        with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit), watch:
            main()
    finally:
        sys.argv = arguments
    arrived(ok="integrity     holds" in printed.getvalue())


def arrived(*, ok: bool) -> None:
    if not ok:
        raise RuntimeError("a walk that does not arrive where it should says nothing")


WALKS: dict[str, Callable[[Path, Watch], None]] = {
    walk.__name__: walk
    for walk in (session_call, session_call_async, run, first_run, recover, mock_replay, verify)
}  # fmt: skip

LIMITS = {"session_call": {"calls": 300, "modules": 35, "changes": 60}, "first_run": {"calls": 2_500}}


# -- counting ----------------------------------------------------------------------------------------------------------


def walked(name: str) -> Figures:
    """The walk made once in this process, in a store of its own."""
    watch = Watch()
    try:
        with TemporaryDirectory() as folder:
            WALKS[name](Path(folder), watch)
    finally:
        watch.close()
    return watch.figures(Path(reenact.__file__).parent)


def counted(name: str) -> Figures:
    """The walk as it is counted; `first_run` is one only in a process that has made no other."""
    found = walked(name)
    if name == "first_run":
        return found
    return min((walked(name) for _ in range(TIMES)), key=lambda figures: figures.calls)


def files_in_order(name: str) -> list[str]:
    """The files that a walk passes, named as `runtime/session.py`, in the order in which they are first entered."""
    walked(name)
    return list(walked(name).files)


def counted_elsewhere(name: str) -> Figures:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tools.walks", "--data", name]
    done = subprocess.run(command, cwd=HOME, check=True, stdout=subprocess.PIPE)  # noqa: S603 - this very file
    return msgspec.json.decode(done.stdout, type=Figures)


def excess(name: str, figures: Figures) -> list[str]:
    """What a walk has more of than its limits allow."""
    found = msgspec.structs.asdict(figures)
    return [
        f"{found[what]:,} {what}, limit {most:,}" for what, most in LIMITS.get(name, {}).items() if found[what] > most
    ]


def line(name: str, figures: Figures) -> str:
    return (
        f"{name:<19} {figures.calls:>6,} calls {figures.functions:>5,} functions {figures.modules:>4,} modules "
        f"{figures.changes:>5,} changes of package"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.walks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("walks", nargs="*", metavar="WALK", help=f"one of {', '.join(WALKS)}; all when none is named")
    parser.add_argument("--list", metavar="WALK", choices=WALKS, help="its files, in the order of their first entry")
    parser.add_argument("--data", metavar="WALK", choices=WALKS, help="the figures and files of a walk as JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is exceeded")
    asked = parser.parse_args(arguments)
    unknown = sorted(set(asked.walks) - set(WALKS))
    if unknown:
        parser.error(f"no walk {unknown[0]}; there are {', '.join(WALKS)}")
    if asked.data:
        sys.stdout.write(msgspec.json.encode(counted(asked.data)).decode() + "\n")
        return 0
    if asked.list:
        sys.stdout.write("\n".join(files_in_order(asked.list)) + "\n")
        return 0
    exceeded = False
    for name in asked.walks or WALKS:
        figures = counted_elsewhere(name)
        too_much = excess(name, figures) if asked.check else []
        exceeded |= bool(too_much)
        sys.stdout.write(line(name, figures) + "".join(f"\n    exceeds: {what}" for what in too_much) + "\n")
        sys.stdout.flush()
    return 1 if exceeded else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no failure
    sys.exit(main())
