"""The signing key is lost at every commit of a run: it stands still, goes on once it is back, or under a new one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import KeyUnavailable, LockAcquireFailed, UsageError
from reenact.record.export import export_run
from reenact.record.reader import RunReader
from reenact.runtime.people import decisions
from reenact.store.checks.verification import verify_run
from reenact.store.keys.keeping import list_keys, public_keys, replace_key, rotate_key
from reenact.verify import verify_bundle
from tests.attacks.bank import APPROVED, Bank
from tests.crash.harness import in_child
from tests.engines import places
from tests.engines.places import key_at, opened, store_at
from tests.store.copies import copy_store


@skill("add", version="1.0.0", tool_class="write", honours_key=True)
def add(value: int) -> int:
    return value + 1


def runtime_of(path: Path) -> Runtime:
    return Runtime(store_at(path), skills=[add])


def the_plan(_: Runtime) -> dict[str, object]:
    steps = [{"step_id": f"s{n}", "skill_id": "add", "parameters": {"value": n}} for n in range(3)]
    return {"plan_id": "p", "agent_id": "a", "steps": steps}


def run_plan(runtime: Runtime) -> object:
    return runtime.run(the_plan(runtime))


def killed_at(path: Path, commit: int) -> bool:
    """A run that ended right after this commit; False where it has fewer."""

    def work() -> None:
        run_plan(runtime_of(path))

    return in_child(work, crash_at=f"after_commit:{commit}") != 0


def stopped(folder: Path) -> Iterator[tuple[int, Path]]:
    """A store for each commit of a run, killed there."""
    for commit in range(1, 100):
        path = folder / f"at-{commit}.db"
        if not killed_at(path, commit):
            return
        yield commit, path


def another(path: Path, to: Path, commit: int) -> Path:
    """The same once more: a copy of the file, or in a database a run that was killed at the same commit."""
    if places.database is None:
        return copy_store(path, to)
    assert killed_at(to, commit)
    return to


@contextmanager
def without_key(path: Path) -> Iterator[Path]:
    """The key is away, and back afterwards unless another took its place."""
    key, away = key_at(path), Path(f"{path}.away")
    key.rename(away)
    yield away
    away.rename(key)


def test_held_with_its_kid_then_on_with_the_key_and_with_another(tmp_path: Path) -> None:
    seen = 0
    for commit, path in stopped(tmp_path):
        seen += 1
        with without_key(path):
            check_held(path)
        check_back(another(path, tmp_path / f"back-{commit}.db", commit))
        if opened(path).find_run("last").status != "completed":
            check_replaced(another(path, tmp_path / f"other-{commit}.db", commit), commit)
    assert seen >= 4, "begin, two commits between, and the seal"


def check_held(path: Path) -> None:
    runtime = runtime_of(path)
    row = runtime.store.find_run("last")
    if row.status == "completed":
        assert runtime.recover() == []
        return
    (result,) = runtime.recover()
    assert isinstance(result.error, KeyUnavailable)
    assert result.error.exit_code == 4
    assert result.error.kid == began_with(runtime, row.run_id)
    assert result.error.kid in str(result.error)
    for refused in (lambda: runtime.resume(row.run_id), lambda: run_plan(runtime)):
        with pytest.raises(KeyUnavailable):
            refused()
    assert runtime.store.find_run("last") == row, "nothing was changed in it, and no other run begun"
    runtime.close()
    assert not key_at(path).exists(), "no key was made"


def began_with(runtime: Runtime, run_id: str) -> str:
    return RunReader(runtime.store, run_id).record().capability_key


def check_back(path: Path) -> None:
    runtime = runtime_of(path)
    runtime.recover()
    run_id = runtime.store.find_run("last").run_id
    assert verify_run(store_at(path), run_id).exit_code == 0
    assert runtime.replay(run_id).matches
    runtime.close()


def check_replaced(path: Path, commit: int) -> None:
    key_at(path).unlink()
    runtime = runtime_of(path)
    ((done,), left) = replace_key(runtime.store, who="ops", reason="the disk died")
    assert left == {}
    run_id = runtime.store.find_run("last").run_id
    assert [(run[0], run[1]) for run in done.runs] == [(run_id, commit)]
    runtime.close()
    runtime = runtime_of(path)
    (result,) = runtime.recover()
    assert result.status == "completed"
    verified = verify_run(store_at(path), run_id)
    assert verified.exit_code == 0
    said = f"key replaced at commit {commit}, not vouched for by the old key"
    assert any(note.startswith(said) for note in verified.report.notes)
    both = public_keys(runtime.store)
    only_old = {kid: key for kid, key in both.items() if kid == done.old_kid}
    assert verify_run(store_at(path), run_id, both).report.authenticity == "holds"
    assert verify_run(store_at(path), run_id, only_old).report.authenticity != "holds"
    assert runtime.replay(run_id).matches
    folder = path.parent / "bundle"
    export_run(store_at(path), run_id, folder)
    report = verify_bundle(folder)
    assert report.exit_code == 0
    assert any(note.startswith(said) for note in report.notes)
    assert verify_bundle(folder, keys=both).authenticity == "holds"
    assert verify_bundle(folder, keys=only_old).authenticity != "holds"
    shutil.rmtree(folder)
    runtime.close()


def test_a_session_is_left_alone_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def work() -> None:
        with runtime_of(path).session(agent_id="a", id="s") as session:
            session.call("add", {"value": 1})

    assert in_child(work, crash_at="after_commit:3") != 0
    with without_key(path):
        before = opened(path).find_run("last")
        with pytest.raises(KeyUnavailable):
            work()
        assert opened(path).find_run("last") == before
    work()
    assert verify_run(store_at(path), "last").exit_code == 0


def test_a_run_goes_on_with_the_key_that_it_began_with_after_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    assert killed_at(path, 2)
    runtime = runtime_of(path)
    first = runtime.store.signing_key.kid
    done = rotate_key(runtime.store, who="ops")
    assert done.old_kid == first
    runtime.close()
    runtime = runtime_of(path)
    assert runtime.store.signing_key.kid == done.new_kid
    (result,) = runtime.recover()
    assert began_with(runtime, result.run_id) == first
    new = runtime.run(the_plan(runtime)).run_id
    assert began_with(runtime, new) == done.new_kid
    trusted = {first: public_keys(runtime.store)[first]}
    for run_id in (result.run_id, new):
        verified = verify_run(store_at(path), run_id, trusted)
        assert verified.exit_code == 0
        assert verified.report.authenticity == "holds", "the old key vouched for the new one"
    assert {line.kid: line.state for line in list_keys(runtime.store)} == {first: "older", done.new_kid: "signs"}


def test_without_the_rotated_key_only_its_runs_stand_still(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    assert killed_at(path, 2)
    runtime = runtime_of(path)
    rotate_key(runtime.store, who="ops")
    runtime.close()
    with without_key(path):
        runtime = runtime_of(path)
        (result,) = runtime.recover()
        assert isinstance(result.error, KeyUnavailable)
        assert runtime.run(the_plan(runtime)).status == "completed"
        ((done,), _) = replace_key(runtime.store, who="ops", reason="lost")
        assert done.new_kid == runtime.store.signing_key.kid, "the key that signs takes over"
        (recovered,) = runtime.recover()
        assert recovered.status == "completed"
        assert verify_run(store_at(path), recovered.run_id).exit_code == 0
        runtime.close()


def test_a_replacement_waits_for_nobody_to_work_on_its_runs(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    assert killed_at(path, 2)
    store = opened(path)
    store.acquire(store.find_run("last").run_id, "elsewhere|1|1|x")
    with without_key(path), pytest.raises(LockAcquireFailed):
        replace_key(opened(path), who="ops", reason="lost")


def test_no_key_is_replaced_that_is_here(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    runtime = runtime_of(path)
    run_plan(runtime)
    with pytest.raises(UsageError, match="no key is lost"):
        replace_key(runtime.store, who="ops", reason="why")


def test_a_person_approves_after_the_key_was_replaced(tmp_path: Path) -> None:
    """What waits for a word began with the lost key; the word is signed with the one that took its place."""
    bank = Bank(tmp_path)
    run_id = bank.waiting()
    key_at(bank.path).unlink()
    runtime = bank.runtime()
    replace_key(runtime.store, who="ops", reason="the disk died")
    runtime.close()
    runtime = bank.runtime()
    asyncio.run(decisions.vote(runtime, run_id, "pay", approve=True, reason="seen", who="kim"))
    assert runtime.resume(run_id).status == "completed"
    runtime.close()
    assert bank.payments() == [APPROVED]
    assert verify_run(store_at(bank.path), run_id).exit_code == 0
