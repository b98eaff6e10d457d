"""The synchronous front: whatever happens in a block, nobody waits for ever, and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import UsageError
from reenact.runtime.listeners import Notice
from tests.engines.places import ask, store_at
from tests.runtime.running import Bench

AT_ONCE_S = 1.0


@skill("t.add", version="1.0.0")
def add(a: int, b: int) -> int:
    return a + b


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, add)


@contextmanager
def at_once() -> Iterator[None]:
    """Within a second, or the test ends here: SIGALRM reaches whatever hangs in the main thread."""

    def too_late(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, 10)
    began = time.monotonic()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < AT_ONCE_S + 1


def nothing_is_left(runtime: Runtime) -> bool:
    """No lease, no thread of a session."""
    rows = runtime.store.runs()
    threads = [thread.name for thread in threading.enumerate() if thread.name == "reenact-session"]
    return not threads and all(leased(runtime, row.run_id) is None for row in rows)


def leased(runtime: Runtime, run_id: str) -> object:
    return ask(runtime.store.url, f"SELECT owner FROM runs WHERE run_id = '{run_id}'")[0][0]


@skill("t.exits", version="1.0.0", retry={"max_retries": 0})
async def exits(how: str) -> None:
    raise {"interrupt": KeyboardInterrupt, "exit": SystemExit}[how]("by the skill")


@pytest.mark.parametrize("how", ["interrupt", "exit"])
def test_an_async_skill_that_would_end_the_process_has_failed(tmp_path: Path, how: str) -> None:
    runtime = Bench(tmp_path, exits, add).runtime
    with at_once(), runtime.session() as s:
        assert s.call("t.exits", {"how": how}).status == "failure"
        assert s.call("t.add", {"a": 1, "b": 2}).output == 3
    assert nothing_is_left(runtime)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("when", ["run_started", "step_started", "step_ended", "run_ended"])
def test_a_listener_that_would_end_the_process_keeps_nobody_waiting(
    tmp_path: Path, error: type[BaseException], when: str
) -> None:
    def stops(notice: Notice) -> None:
        if notice.kind == when:
            raise error("by the listener")

    runtime = Bench(tmp_path, add, listeners=[stops]).runtime
    with at_once(), suppress(error), runtime.session() as s:
        s.call("t.add", {"a": 1, "b": 2})
    assert nothing_is_left(runtime)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_process_in_the_loop_comes_to_who_waits(bench: Bench, error: type[BaseException]) -> None:
    async def ends() -> None:
        raise error("in the loop")

    with at_once(), bench.runtime.session() as s:
        with pytest.raises(error):
            s._thread.do(ends)
        assert s.call("t.add", {"a": 1, "b": 2}).output == 3
    bench.check(s.run_id)


def test_an_async_skill_that_waits_for_its_own_session_is_refused(tmp_path: Path) -> None:
    front: list[Any] = []

    @skill("t.again", version="1.0.0", retry={"max_retries": 0})
    async def again() -> int:
        return int(front[0].call("t.add", {"a": 1, "b": 2}).output)

    runtime = Bench(tmp_path, again, add).runtime
    with at_once(), runtime.session() as s:
        front.append(s)
        outcome = s.call("t.again")
        assert outcome.status == "failure"
        assert "cannot call its own session" in outcome.message
    assert nothing_is_left(runtime)


def test_a_thread_of_a_skill_may_call_its_session(tmp_path: Path) -> None:
    front: list[Any] = []

    @skill("t.again", version="1.0.0")
    def again() -> int:
        return int(front[0].call("t.add", {"a": 1, "b": 2}).output)

    runtime = Bench(tmp_path, again, add).runtime
    with at_once(), runtime.session() as s:
        front.append(s)
        assert s.call("t.again").output == 3


def in_a_child(work: Callable[[], object]) -> str:
    """What a forked child says of it; it has as long as any other."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(tell, f"gave {work()}".encode())
        except BaseException as error:  # whatever it was, the parent is told
            os.write(tell, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(tell)
    try:
        with at_once(), os.fdopen(told, "rb") as file:
            return file.read().decode()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_forked_child_is_told_that_the_session_is_its_parents(bench: Bench) -> None:
    with bench.runtime.session() as s:
        assert s.call("t.add", {"a": 1, "b": 2}).output == 3
        assert "is a fork" in in_a_child(lambda: s.call("t.add", {"a": 1, "b": 2}))
        assert s.call("t.add", {"a": 2, "b": 2}).output == 4
    bench.check(s.run_id)


def test_a_forked_child_leaves_the_block_of_its_parent_and_changes_nothing(bench: Bench) -> None:
    def leave(how: BaseException | None) -> None:
        opening.__exit__(how and type(how), how, None)

    opening = bench.runtime.session()
    with opening as s:
        assert "is a fork" in in_a_child(lambda: leave(None))
        assert in_a_child(lambda: leave(SystemExit(0))) == "gave None"
        assert s.call("t.add", {"a": 2, "b": 2}).output == 4
    bench.check(s.run_id)


def test_a_forked_child_of_an_async_block_changes_nothing(bench: Bench) -> None:
    async def go() -> str:
        opening = bench.runtime.session()
        async with opening as s:
            await s.call("t.add", {"a": 2, "b": 2})

            def in_child() -> object:
                asyncio._set_running_loop(None)
                return asyncio.run(opening.__aexit__(None, None, None))

            assert "is a fork" in in_a_child(in_child)
            await s.call("t.add", {"a": 2, "b": 3})
        return s.run_id

    bench.check(asyncio.run(go()))


def test_a_forked_child_opens_a_runtime_of_its_own(bench: Bench) -> None:
    """And is told so where it takes its parent's."""

    def own(runtime: Runtime) -> object:
        with runtime.session() as mine:
            return mine.call("t.add", {"a": 20, "b": 2}).output

    with bench.runtime.session() as s:
        s.call("t.add", {"a": 1, "b": 2})
        assert "open it again here" in in_a_child(lambda: own(bench.runtime))
        assert in_a_child(lambda: own(Runtime(store_at(bench.path), skills=[add]))) == "gave 22"


def test_one_session_in_several_loops_is_refused(bench: Bench) -> None:
    opening = bench.runtime.session()

    async def enter() -> Any:
        s = await opening.__aenter__()
        await s.call("t.add", {"a": 1, "b": 2})
        return s

    s = asyncio.run(enter())
    with at_once(), pytest.raises(UsageError, match="another event loop"):
        asyncio.run(s.call("t.add", {"a": 1, "b": 2}))
    with at_once(), pytest.raises(UsageError, match="another event loop"):
        asyncio.run(opening.__aexit__(None, None, None))
    assert leased(bench.runtime, s.run_id) is None


def test_loops_of_several_threads_share_no_session(bench: Bench) -> None:
    async def go() -> None:
        async with bench.runtime.session() as s:
            told: list[BaseException] = []

            def other() -> None:
                try:
                    asyncio.run(s.call("t.add", {"a": 1, "b": 2}))
                except BaseException as error:  # looked at below
                    told.append(error)

            threads = [threading.Thread(target=other) for _ in range(3)]
            for thread in threads:
                thread.start()
            await asyncio.to_thread(lambda: [thread.join(AT_ONCE_S) for thread in threads])
            assert [type(error) for error in told] == [UsageError] * 3
            assert (await s.call("t.add", {"a": 1, "b": 2})).output == 3

    asyncio.run(go())


def test_one_opening_is_one_session_at_a_time(bench: Bench) -> None:
    opening = bench.runtime.session()
    with opening as s, pytest.raises(UsageError, match="open already"), opening:
        pass
    assert bench.runtime.store.find_run(s.run_id).status == "completed"
    assert nothing_is_left(bench.runtime)


def test_a_stack_of_contexts_enters_and_leaves_it(bench: Bench) -> None:
    with ExitStack() as stack:
        s = stack.enter_context(bench.runtime.session())
        assert s.call("t.add", {"a": 1, "b": 2}).output == 3
    bench.check(s.run_id)
    assert nothing_is_left(bench.runtime)


def test_a_session_that_is_entered_by_hand_stays_open_until_it_is_left(bench: Bench) -> None:
    opening = bench.runtime.session()
    run_id = opening.__enter__().run_id
    time.sleep(0.5)
    assert leased(bench.runtime, run_id) is not None
    opening.__exit__(None, None, None)
    bench.check(run_id)
    assert nothing_is_left(bench.runtime)


def test_a_call_after_the_block_is_refused(bench: Bench) -> None:
    with bench.runtime.session() as s:
        pass
    with at_once(), pytest.raises(UsageError, match="has ended"):
        s.call("t.add", {"a": 1, "b": 2})


def test_a_session_that_was_not_entered_says_how_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match=r"no 'call': open it with `with runtime\.session"):
        Runtime(store_at(tmp_path / "store.db")).session(goal="g").call("x", {})
