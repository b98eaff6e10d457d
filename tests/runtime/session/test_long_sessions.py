"""A session of many calls goes on from its last run checkpoint, reads little, and knows what it knew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reenact import Registry, Runtime, skill
from reenact.errors import ChecksumMismatch
from reenact.journal import frontier
from reenact.record.reader import RunReader
from reenact.runtime.listeners import Notice
from reenact.runtime.writing.checkpoint_state import DECODE, ENCODE
from reenact.store.base import Store
from reenact.store.checks.verification import verify_run
from reenact.store.signing import frontier_mac
from tests.engines import places
from tests.engines.places import opened, store_at
from tests.store.copies import copy_store

CALLS = 600


class Reads:
    """Counts the commits of a store that are read."""

    def __init__(self, store: Store) -> None:
        self.count = 0
        self._bodies = store.bodies
        store.bodies = self._counted  # type: ignore[method-assign]

    def _counted(self, run_id: str, **more: Any) -> Iterator[bytes]:
        for body in self._bodies(run_id, **more):
            self.count += 1
            yield body


def skills(may_end: asyncio.Event | None = None) -> Registry:
    @skill("look", version="1.0.0", tool_class="read", idempotent=True, reads=["shelf:{at}"], public=["at"])
    async def look(at: int, slow: bool = False) -> dict[str, int]:
        if slow and may_end is not None:
            await may_end.wait()
        return {"at": at}

    @skill("put", version="1.0.0", tool_class="write", writes=["shelf:{at}"], public=["at"])
    async def put(at: int, token: str = "") -> int:
        return at

    return Registry([look, put])


def interrupted(path: str, **options: Any) -> str:
    """A session of 600 calls whose process is gone; its id."""
    runtime = Runtime(store_at(path), skills=skills(), secrets={"TOKEN": "tok-very-secret-1"})
    with pytest.raises(ZeroDivisionError), runtime.session(**options) as session:
        session.call("look", {"at": -1})
        session.turn()
        session.call("put", {"at": 0}, secrets={"/token": "TOKEN"})
        for number in range(CALLS - 3):
            session.call("look", {"at": number})
        session.call("put", {"at": 5})
        _ = 1 / 0
    runtime.close()
    return session.run_id


@pytest.fixture(scope="module")
def original(engine: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The store of such a session, made once."""
    path = tmp_path_factory.mktemp("original") / "store.db"
    return path, interrupted(str(path))


@pytest.fixture
def left(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A copy of it, in a database another one."""
    path = tmp_path / "store.db"
    if places.database is not None:
        return path, interrupted(str(path))
    store, run_id = request.getfixturevalue("original")
    return copy_store(store, path), run_id


def test_a_session_that_goes_on_reads_at_most_256_calls_and_says_so(left: tuple[Path, str]) -> None:
    path, run_id = left
    told: list[Notice] = []
    store = opened(path)
    reads = Reads(store)
    runtime = Runtime(store, skills=skills(), listeners=[told.append])
    with pytest.raises(ZeroDivisionError), runtime.session(resume=run_id):
        read, reads.count = reads.count, 0
        _ = 1 / 0
    recovered = next(notice for notice in told if notice.kind == "recovered")
    assert "run checkpoint" in str(recovered.message)
    steps = int(str(recovered.message).split(" steps")[0].split()[-1])
    commits = int(str(recovered.message).split(" commit")[0].split()[-1])
    assert 0 < steps <= 257
    assert read <= commits


def test_what_was_called_before_the_checkpoint_is_a_duplicate_behind_it(left: tuple[Path, str]) -> None:
    path, run_id = left
    runtime = Runtime(store_at(path), skills=skills())
    with runtime.session(resume=run_id, duplicate_output=True) as session:
        codes = [session.call("look", {"at": at}).code for at in (-1, 0, 1, 5, 300, 550)]
        again = session.call("look", {"at": 1})
    denied = "DENIED_DUPLICATE"
    assert codes == ["OK", denied, denied, "OK", denied, denied]
    assert again.output == {"at": 1}
    assert verify_run(store_at(path), run_id).exit_code == 0
    result = runtime.replay(run_id)
    assert result.verdict == "matched", result.divergence


def test_pins_and_names_of_secrets_are_those_of_before_the_checkpoint(left: tuple[Path, str]) -> None:
    path, run_id = left
    runtime = Runtime(store_at(path), skills=skills(), secrets={"TOKEN": "tok-very-secret-1"})
    with runtime.session(resume=run_id, interrupted="settle") as session:
        told = session.call("put", {"at": 1, "token": "it was tok-very-secret-1"})
    assert told.code == "ERR_VALIDATION_FAILED", "a value that is known to be secret"
    plan, _ = RunReader(runtime.store, run_id).plan()
    assert plan.context.pins is not None
    assert sorted(plan.context.pins.skills) == ["look@1.0.0", "put@1.0.0"]
    assert len(plan.steps) == CALLS + 1


def test_a_read_that_was_overtaken_before_the_checkpoint_is_no_duplicate_behind_it(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")

    async def work() -> tuple[str, list[str]]:
        may_end = asyncio.Event()
        runtime = Runtime(store_at(path), skills=skills(may_end))
        with pytest.raises(ZeroDivisionError):
            async with runtime.session() as session:
                overtaken = asyncio.create_task(session.call("look", {"at": 1, "slow": True}))
                whole = asyncio.create_task(session.call("look", {"at": 2, "slow": True}))
                await asyncio.sleep(0)
                await session.call("put", {"at": 1})
                await asyncio.gather(*[session.call("put", {"at": at}) for at in range(10, 10 + 256)])
                may_end.set()
                await asyncio.gather(overtaken, whole)
                _ = 1 / 0
        async with runtime.session(resume=session.run_id) as again:
            codes = [(await again.call("look", {"at": at, "slow": True})).code for at in (1, 2)]
        return session.run_id, codes

    run_id, codes = asyncio.run(work())
    assert codes == ["OK", "DENIED_DUPLICATE"]
    assert verify_run(store_at(path), run_id).exit_code == 0
    assert Runtime(store_at(path), skills=skills()).replay(run_id).verdict == "matched"


def test_duplicates_that_are_not_those_of_the_checkpoint_are_noticed(left: tuple[Path, str]) -> None:
    path, run_id = left
    store = opened(path)
    _, data = store.latest_frontier(run_id) or (0, b"")
    earlier, _ = frontier.unpack(run_id, data)
    kept = DECODE(frontier.kept_beside(data))
    fewer = ENCODE(replace(kept, done=kept.done[1:]))
    with store._writer.transaction() as db:
        ((row_id,),) = db.execute("SELECT max(id) FROM run_checkpoints").fetchall()
        forged = frontier.pack(earlier, fewer)
        mac = frontier_mac(store.signing_key, store.store_id, run_id, row_id & 0xFFFFFF, forged)
        db.execute("UPDATE run_checkpoints SET frontier = ?, mac = ? WHERE id = ?", (forged, mac, row_id))
    with pytest.raises(ChecksumMismatch), Runtime(store, skills=skills()).session(resume=run_id):
        pass


def test_a_plan_that_leaves_out_duplicates_reads_as_little(tmp_path: Path) -> None:
    rows = [{"step_id": f"s{n}", "skill_id": "look", "parameters": {"at": n % 400}} for n in range(500)]
    rows.insert(450, {"step_id": "stop", "skill_id": "put", "parameters": {"at": 410}})
    document = {"plan_id": "p", "agent_id": "a", "steps": rows, "context": {"dedupe": True}}
    store = opened(tmp_path / "store.db")
    reads = Reads(store)

    def stop(notice: Notice) -> None:
        if notice.step_id == "stop" and notice.kind == "step_started":
            raise BrokenPipeError  # of all that a listener raises, what stops a run at once

    runtime = Runtime(store, skills=skills(), listeners=[stop])
    with pytest.raises(BrokenPipeError):
        runtime.run(document)
    run_id = store.find_run("last").run_id
    reads.count, whole = 0, store.find_run(run_id).commits
    result = Runtime(store, skills=skills()).resume(run_id)
    assert result.status == "completed"
    assert reads.count < whole, "the state and the duplicates, each from the checkpoint on"
    codes = [step.final_code for step in result]
    assert codes.count("DENIED_DUPLICATE") == 100
    assert verify_run(store_at(tmp_path / "store.db"), run_id).exit_code == 0
