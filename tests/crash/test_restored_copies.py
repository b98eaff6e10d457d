"""A backup is restored and the run goes on from there: what is made again is made under the key that it had."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.store.checks.verification import verify_run
from reenact.store.sqlite.store import SqliteStore
from tests.crash.harness import in_child
from tests.engines.places import store_at
from tests.store.copies import back_up

VALUES = [1, 2, 3]


@skill("pay", version="1.0.0", tool_class="write", honours_key=True)
def pay(ctx: SkillContext, book: str, value: int) -> int:
    with Path(book).open("a") as lines:
        lines.write(f"{ctx.step_id} {value} {ctx.idempotency_key}\n")
    return value


def keys_in(book: Path) -> dict[tuple[str, str], set[str]]:
    """The keys under which each step made each of its payments."""
    found: dict[tuple[str, str], set[str]] = {}
    for line in book.read_text().splitlines():
        step_id, value, key = line.split()
        found.setdefault((step_id, value), set()).add(key)
    return found


@contextmanager
def copied_with_every_commit(folder: Path) -> Iterator[None]:
    """A copy of the store, with its key, after each of its commits."""
    real, count = SqliteStore.append, iter(range(1, 1000))

    def append(self: SqliteStore, *args: Any, **known: Any) -> object:
        done = real(self, *args, **known)
        to = folder / f"copy-{next(count):03}.db"
        back_up(Path(self.path), to)
        shutil.copy(f"{self.path}.key", f"{to}.key")
        return done

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqliteStore, "append", append)
        yield


def restored(tmp_path: Path, work: Callable[[Runtime, str], object]) -> Iterator[tuple[Runtime, str, Path]]:
    """Each copy that a whole run of `work` leaves, opened, with the run that was under way in it."""
    book = tmp_path / "book"
    book.touch()

    def all_of_it() -> None:
        with copied_with_every_commit(tmp_path):
            work(Runtime(store_at(tmp_path / "store.db"), skills=[pay]), str(book))

    assert in_child(all_of_it) == 0
    copies = sorted(tmp_path.glob("copy-*.db"))
    assert len(copies) > len(VALUES)
    for copy in copies:
        runtime = Runtime(store_at(copy), skills=[pay])
        yield runtime, runtime.store.find_run("last").run_id, book
        runtime.close()


def the_plan(book: str) -> dict[str, object]:
    steps = [{"step_id": f"s{n}", "skill_id": "pay", "parameters": {"book": book, "value": n}} for n in VALUES]
    return {"plan_id": "p", "agent_id": "a", "steps": steps}


def test_every_copy_of_a_plan_goes_on_under_the_keys_of_its_steps(tmp_path: Path) -> None:
    for runtime, run_id, _ in restored(tmp_path, lambda runtime, book: runtime.run(the_plan(book))):
        assert runtime.resume(run_id).status == "completed"
        assert verify_run(runtime.store.url, run_id).exit_code == 0
    keys = keys_in(tmp_path / "book")
    assert list(keys) == [(f"s{value}", str(value)) for value in VALUES]
    assert [len(found) for found in keys.values()] == [1] * len(VALUES)
    assert len(set.union(*keys.values())) == len(VALUES)


@pytest.mark.parametrize("keyed", [False, True])
def test_every_copy_of_a_session_goes_on_under_the_keys_of_its_calls(tmp_path: Path, *, keyed: bool) -> None:
    def go_on(runtime: Runtime, book: str, resume: str | None = None) -> None:
        with runtime.session(resume=resume) as session:
            paid = {message["content"] for message in session.history() if message["role"] == "tool"}
            for value in VALUES:
                if str(value) not in paid:
                    key = f"payment {value}" if keyed else None
                    session.call("pay", {"book": book, "value": value}, idempotency_key=key)

    for runtime, run_id, book in restored(tmp_path, go_on):
        if runtime.store.find_run(run_id).status != "completed":
            go_on(runtime, str(book), run_id)
        assert verify_run(runtime.store.url, run_id).exit_code == 0
    keys = keys_in(tmp_path / "book")
    assert {(f"c{value}", str(value)) for value in VALUES} <= set(keys)
    assert [len(found) for found in keys.values()] == [1] * len(keys)
    if keyed:
        assert len(set.union(*keys.values())) == len(VALUES)
