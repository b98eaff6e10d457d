"""Recovery starts from the last run checkpoint, reads little, and believes only what was signed and is confirmed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact import Runtime, skill
from reenact.errors import ChecksumMismatch, KeyUnavailable
from reenact.journal import frontier
from reenact.journal.run_fold import RunFold
from reenact.record.state import load_fold
from reenact.store.open import open_store
from reenact.store.private_file import make_private_file
from reenact.store.signing import FRONTIER_HEAD, frontier_mac, frontier_message
from tests.crash.harness import KILLED, Stage, check_survived, in_child, look, recover
from tests.engines import places
from tests.engines.places import ask, key_at, store_at
from tests.runtime.running import Bench, plan, step

STEPS = 700


def long_plan(stage: Stage, steps: int = STEPS) -> dict[str, Any]:
    def one(number: int) -> dict[str, Any]:
        if number % 50 == 7:
            return step("nobody", skill_version="1.0.0", on_error="continue")
        return step("note", {"ledger": stage.ledger_path, "text": str(number)})

    return plan(*(one(number) for number in range(steps)))


def crashed(stage: Stage, at: int) -> str:
    """A run of 700 steps that died at a commit; its id."""
    assert in_child(lambda: stage.runtime().run(long_plan(stage)), crash_at=f"after_commit:{at}") == KILLED
    (run_id,) = look(stage).runs
    return run_id


@pytest.fixture(scope="module")
def original(engine: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that died behind its first checkpoint, made once."""
    folder = tmp_path_factory.mktemp("original")
    return folder, crashed(Stage(folder), 300)


@pytest.fixture
def crash(request: pytest.FixtureRequest, stage: Stage) -> str:
    """That run in a store of this test's own, in a database another one; its id."""
    if places.database is not None:
        return crashed(stage, 300)
    folder, run_id = request.getfixturevalue("original")
    shutil.copytree(folder, stage.folder, dirs_exist_ok=True)
    return str(run_id)


def state(fold: RunFold) -> dict[str, Any]:
    """Everything that a fold knows, in comparable form."""
    plain = {name: item for name, item in vars(fold).items() if name not in ("on_finish", "events", "last_checkpoint")}
    for name in ("tree", "attempts_tree"):
        plain[name] = (plain[name].size, plain[name].frontier)
    plain["open"] = {
        trace_id: {slot: getattr(trace, slot) for slot in trace.__slots__} for trace_id, trace in fold.open.items()
    }
    return {name: asdict(item) if is_dataclass(item) else item for name, item in plain.items()}


@pytest.mark.parametrize("at", [255, 256, 660])
def test_recovery_reads_at_most_256_steps_and_knows_what_the_whole_journal_says(at: int, stage: Stage) -> None:
    run_id = crashed(stage, at)
    store = open_store(stage.url)
    recovered = load_fold(store, run_id)
    whole = RunFold(run_id).apply_bodies(store.bodies(run_id))
    assert state(recovered.fold) == state(whole)
    assert recovered.steps_read <= 257  # what is open at the checkpoint is read besides
    assert (recovered.from_commit > 0) == (whole.done >= 256)
    assert str(recovered.steps_read) in str(recovered)
    store.close()


def test_a_run_that_crashes_again_and_again_still_writes_its_checkpoints(stage: Stage) -> None:
    run_id = crashed(stage, 200)
    for _ in range(2):
        assert in_child(lambda: recover(stage), crash_at="after_commit:200") == KILLED
        store = open_store(stage.url)
        assert load_fold(store, run_id).steps_read <= 257
        store.close()
    before = look(stage)
    recover(stage)
    check_survived(stage, before)
    assert len(stored(stage)) == STEPS // 256


PLACE = {True: "id", False: "run_no << 24 | n"}


def stored(stage: Stage) -> list[tuple[int, bytes]]:
    return ask(stage.store_path, f"SELECT {PLACE[places.database is None]}, frontier FROM run_checkpoints ORDER BY 1")


def replace_frontier(stage: Stage, change: Callable[[bytes], bytes], *, with_key: bool = False, at: int = 0) -> None:
    """`with_key`: by whoever has the store's key, for the place that is `at` commits further."""
    (place, data) = stored(stage)[-1]
    changed, store = change(data), open_store(stage.url)
    there = f"{PLACE[places.database is None]} = {place}"
    ask(stage.store_path, f"UPDATE run_checkpoints SET frontier = ? WHERE {there}", changed)
    if with_key:
        ((run_id,),) = ask(stage.store_path, "SELECT run_id FROM runs WHERE run_no = ?", place >> 24)
        mac = frontier_mac(store.signing_key, store.store_id, run_id, (place & 0xFFFFFF) + at, changed)
        ask(stage.store_path, f"UPDATE run_checkpoints SET mac = ? WHERE {there}", mac)
    store.close()


def refused(stage: Stage, run_id: str) -> None:
    runtime = stage.runtime()
    calls = len(stage.ledger.calls())
    with pytest.raises(ChecksumMismatch) as mismatch:
        runtime.resume(run_id)
    assert mismatch.value.code == "STATE_CHECKSUM_MISMATCH"
    assert len(stage.ledger.calls()) == calls, "nothing was dispatched"
    runtime.store.acquire(run_id, "somebody else")  # the lease was given back
    runtime.close()


CHANGES: dict[str, Any] = {
    "requested": lambda old: old + 1,
    "done": lambda old: old - 1,
    "approved_writes": lambda old: 0,
    "approved_reads": lambda old: {"fetch@1.0.0": 7},
    "parked": lambda old: {"somebody": 1},
    "not_completed": lambda old: [],
    "settled_exact": lambda old: "1",
    "tree_size": lambda old: old - 1,
    "attempts": lambda old: [bytes(32)] * len(old),
    "open": lambda old: [],
    "turns": lambda old: 5,
    "duplicates": lambda old: "00" * 32,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_frontier_with_a_changed_field_is_a_checksum_mismatch(name: str, crash: str, stage: Stage) -> None:

    def change(data: bytes) -> bytes:
        kept = frontier.DECODE(data)
        changed = msgspec.structs.replace(kept, **{name: CHANGES[name](getattr(kept, name))})
        return frontier.ENCODE(changed)

    replace_frontier(stage, change)
    refused(stage, crash)


@pytest.mark.parametrize("name", ["tree_size", "settled_exact", "open", "tree"])
def test_a_frontier_that_the_key_signed_must_still_be_the_one_of_its_checkpoint(
    name: str, crash: str, stage: Stage
) -> None:
    changes = {**CHANGES, "tree": lambda old: [bytes(32)] * len(old)}

    def change(data: bytes) -> bytes:
        kept = frontier.DECODE(data)
        changed = msgspec.structs.replace(kept, **{name: changes[name](getattr(kept, name))})
        return frontier.ENCODE(changed)

    replace_frontier(stage, change, with_key=True)
    refused(stage, crash)


@pytest.mark.parametrize("where", [80, 200, -1])
def test_a_damaged_frontier_is_a_checksum_mismatch(where: int, crash: str, stage: Stage) -> None:

    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[where] ^= 1
        return bytes(changed)

    replace_frontier(stage, flip)
    refused(stage, crash)


def test_a_frontier_of_another_place_is_a_checksum_mismatch(crash: str, stage: Stage) -> None:
    """Authenticated with the same key, but for a place of another run or commit."""
    replace_frontier(stage, lambda data: data, with_key=True, at=1)
    refused(stage, crash)


def test_a_frontier_that_was_signed_before_there_were_macs_is_read(crash: str, stage: Stage) -> None:
    store = open_store(stage.url)
    key, ((place, data),) = store.signing_key, stored(stage)
    signed = bytes.fromhex(key.kid) + key.sign(frontier_message(place, data)) + data
    assert len(signed) == FRONTIER_HEAD + len(data)
    ask(stage.store_path, "UPDATE run_checkpoints SET frontier = ?, mac = NULL", signed)
    assert load_fold(store, crash).from_commit > 0
    store.close()
    replace_frontier(stage, lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    refused(stage, crash)


def test_an_engine_without_the_key_of_a_run_leaves_it_as_it_is(crash: str, stage: Stage) -> None:
    file = key_at(stage.store_path)
    kept, calls = file.read_bytes(), len(stage.ledger.calls())
    kid = open_store(stage.url).signing_key.kid
    file.unlink()
    (result,) = stage.runtime().recover()
    assert isinstance(result.error, KeyUnavailable)
    assert (result.error.kid, result.error.exit_code, len(stage.ledger.calls())) == (kid, 4, calls)
    file.unlink(missing_ok=True)
    make_private_file(file, kept, "the key")
    recover(stage)
    assert open_store(stage.url).find_run(crash).status == "completed"


def test_a_checkpoint_line_that_is_not_the_journal_s_state_is_a_checksum_mismatch() -> None:
    runtime = Runtime(store_at("sqlite://:memory:"), skills=[tick])
    run = runtime.run(plan(*[step(tick)] * 300))
    bodies = list(runtime.store.bodies(run.run_id))
    at = next(index for index, body in enumerate(bodies) if b'"kind":"run_checkpoint"' in body)
    old = b'"spent_exact":"0"'
    assert bodies[at].count(old) == 1
    bodies[at] = bodies[at].replace(old, b'"spent_exact":"1"')
    with pytest.raises(ChecksumMismatch, match="run checkpoint"):
        RunFold(run.run_id).apply_bodies(bodies)


@skill("tick", version="1.0.0", tool_class="read")
async def tick() -> None:
    """Nothing."""


def test_ten_thousand_steps_recover_from_their_last_checkpoint(stage: Stage) -> None:
    bench = Bench(stage.folder, tick)
    run = bench.run(*[step(tick)] * 10_000)
    assert run.status == "completed"
    recovered = load_fold(bench.store, run.run_id)
    assert recovered.steps_read <= 257
    assert (recovered.fold.requested, recovered.fold.done) == (10_000, 10_000)
    assert recovered.fold.seal is not None


def test_thousands_of_refused_steps_in_a_row_are_recorded_like_any_others(stage: Stage) -> None:
    """None of them waits for anything, so nothing but their number makes them durable."""
    bench = Bench(stage.folder)
    refused = [step("nobody", {"n": n}, skill_version="1.0.0", on_error="continue") for n in range(4_500)]
    run = bench.run(*refused)
    assert [trace.state for trace in bench.traces(run.run_id)] == ["DENIED"] * 4_500
    bench.check(run)
