"""Skills in a process of their own: whatever they do there, they are killed in time, and the run goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, RunResult, skill
from reenact.errors import SkillDeclarationError
from reenact.runtime.effects import processes
from reenact.runtime.listeners import Notice
from tests.runtime.effects.killable_skills import act_up, never_at_the_top, swallow
from tests.runtime.running import Bench, outcome_of, step

LIMITS_MS = (300, 3_000, 30_000)
"""Time for a skill that is killed at its limit: more, where a busy machine killed it before it had begun."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, act_up, swallow)


def act(bench: Bench, how: str, where: Path | str = "", **fields: Any) -> RunResult:
    return bench.run(step(act_up, {"how": how, "where": str(where)}, **fields))


def is_gone(pid: int) -> bool:
    """Or dead and waiting for whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def begun(pids: Path) -> int:
    return len(pids.read_text().split()) if pids.exists() else 0


def gone(pids: Path) -> bool:
    return all(is_gone(int(pid)) for pid in pids.read_text().split())


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("exit", "ERR_INTERNAL", "3"),
        ("leave", "ERR_INTERNAL", "the skill's process ended without an answer (exit code 7)"),
        ("crash", "ERR_INTERNAL", "the skill's process ended without an answer (signal 11)"),
        ("refuse", "ERR_CONNECTION_REFUSED", "[Errno 111] no"),
        ("named", "ERR_JSON_INVALID", "x"),
        ("unprintable", "ERR_INTERNAL", "Unprintable"),
        ("huge errno", "ERR_INTERNAL", None),
        ("NaN", "ERR_SERIALIZATION_FAILED", None),
    ],
)
def test_a_failure_there_has_its_code(bench: Bench, how: str, code: str, message: str | None) -> None:
    result = act(bench, how)
    outcome = outcome_of(result)
    assert outcome.code == code
    assert message is None or outcome.message == message
    bench.check(result)


def test_what_it_reports_is_reported_also_when_it_is_nonsense(bench: Bench) -> None:
    result = act(bench, "report nonsense")
    assert outcome_of(result).side_effects[0].type == "acted_up"
    bench.check(result)


def test_it_is_killed_when_its_time_is_over_and_may_be_tried_again(bench: Bench, tmp_path: Path) -> None:
    for limit_ms in LIMITS_MS:
        pids = tmp_path / f"pids-{limit_ms}"
        result = act(bench, "spin", pids, timeout_ms=limit_ms, retry={"max_retries": 1, "backoff_base_ms": 1})
        outcome = outcome_of(result)
        assert (outcome.code, outcome.observability.backend_retries) == ("ERR_TIMEOUT", 1)
        if begun(pids) == 2:
            break
    assert begun(pids) == 2
    assert gone(pids)
    bench.check(result)


def test_a_coroutine_there_that_swallows_its_cancellation_is_killed_too(bench: Bench, tmp_path: Path) -> None:
    for limit_ms in LIMITS_MS:
        pids = tmp_path / f"pids-{limit_ms}"
        result = bench.run(step(swallow, {"where": str(pids)}, timeout_ms=limit_ms))
        assert outcome_of(result).code == "ERR_TIMEOUT"
        if begun(pids):
            break
    assert gone(pids)


@pytest.mark.parametrize(
    ("how", "code", "limits"),
    [("family", "OK", (60_000,)), ("family and hang", "ERR_TIMEOUT", (1_000, 10_000, 60_000))],
)
def test_everything_that_it_started_ends_with_it(
    bench: Bench, tmp_path: Path, how: str, code: str, limits: tuple[int, ...]
) -> None:
    for limit_ms in limits:
        pids = tmp_path / f"pids-{limit_ms}"
        result = act(bench, how, pids, timeout_ms=limit_ms)
        assert outcome_of(result).code == code
        if begun(pids) >= 5:
            break
    assert begun(pids) >= 5
    # Those whose parent died are told of their own death by whoever adopted them.
    wait_until(lambda: gone(pids))


def wait_until(holds: Any, limit_s: float = 20) -> None:
    ends = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < ends, "not within the limit"
        time.sleep(0.005)


def test_a_child_that_it_forks_and_lets_return_says_nothing(bench: Bench) -> None:
    assert outcome_of(act(bench, "fork")).output == "parent"


def test_what_it_prints_is_printed(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    assert outcome_of(act(bench, "print")).output == "done"
    assert capfd.readouterr() == ("to one\n", "to the other\n")


def test_it_finds_folder_variables_and_context_as_they_are_now(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome_of(act(bench, "answer")).ok, "the process that forks it is there already"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REENACT_TEST_VARIABLE", "as now")
    found = outcome_of(bench.run(step(act_up, {"how": "look"}, timeout_ms=20_000), budget_cents=12)).output
    assert isinstance(found, dict)
    again = outcome_of(act(bench, "look")).output
    assert isinstance(again, dict)
    assert (found["folder"], found["variable"], found["stdin"]) == (str(tmp_path), "as now", "")
    assert found["imported_here"] is True, "each call imports the module anew"
    assert found["leads_its_session"] is True
    assert found["goal_context"] == 12
    assert 0 < found["remaining"] <= 20
    assert found["draw"] != again["draw"]


def test_services_stay_behind(bench: Bench) -> None:
    assert outcome_of(act(bench, "services")).output == []


def test_its_progress_is_told(tmp_path: Path) -> None:
    heard: list[Notice] = []
    bench = Bench(tmp_path, act_up, listeners=[heard.append])
    assert outcome_of(act(bench, "tell")).ok
    assert [notice.message for notice in heard if notice.kind == "progress"] == ["half way", "there ?"]


def test_several_run_side_by_side(bench: Bench) -> None:
    async def work() -> list[object]:
        async with bench.runtime.session(goal="at once") as s:
            outcomes = await asyncio.gather(*(s.call("act_up", {"how": "answer", "where": str(n)}) for n in range(12)))
            return [outcome.output for outcome in outcomes]

    assert len(set(asyncio.run(work()))) == 12


def test_a_call_that_is_cancelled_leaves_no_process(bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def work() -> None:
        async with bench.runtime.session(goal="give up") as s:
            call = asyncio.ensure_future(s.call("act_up", {"how": "spin", "where": str(pids)}))
            await asyncio.to_thread(wait_until, lambda: pids.exists() and pids.read_text())
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert gone(pids)

    asyncio.run(work())


def test_when_the_process_that_forks_them_is_killed_there_is_another(bench: Bench) -> None:
    assert outcome_of(act(bench, "answer")).ok
    server = processes.FORK_SERVER._process
    assert server is not None
    server.kill()
    server.wait()
    assert outcome_of(act(bench, "answer")).ok


SCRIPT = textwrap.dedent(
    """
    import os, sys, threading
    from tests.runtime.effects.killable_skills import act_up
    from reenact import Runtime

    threading.Thread(target=threading.Event().wait, daemon=True).start()
    with Runtime(":memory:", skills=[act_up]).session() as session:
        outcome = session.call("act_up", {"how": sys.argv[1], "where": sys.argv[2]})
        print(outcome.code, outcome.message)
    """
)


@pytest.fixture
def script(root: Path) -> Iterator[Any]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, code: str = SCRIPT) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error::DeprecationWarning", "-c", code, *arguments],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_nothing_is_forked_from_a_process_that_has_threads(script: Any) -> None:
    """Python warns of that from 3.12 on, and here a warning is an error."""
    out, err = script("answer", "").communicate(timeout=60)
    assert out.startswith("OK "), out + err
    assert err == ""


def test_a_skill_does_not_outlive_the_runtime_that_called_it(script: Any, tmp_path: Path) -> None:
    """A process that is killed cannot end its skills; and whoever recovers its run may call them again."""
    pids = tmp_path / "pids"
    process = script("spin", str(pids))
    wait_until(lambda: pids.exists() and pids.read_text())
    process.send_signal(signal.SIGKILL)
    wait_until(lambda: gone(pids))


def test_a_fork_of_the_runtime_gets_its_own(script: Any) -> None:
    code = SCRIPT + textwrap.dedent(
        """
        if os.fork() == 0:
            with Runtime(":memory:", skills=[act_up]).session() as session:
                print(session.call("act_up", {"how": "answer"}).code, flush=True)
            sys.exit(0)
        os.wait()
        with Runtime(":memory:", skills=[act_up]).session() as session:
            print(session.call("act_up", {"how": "answer"}).code, flush=True)
        """
    ).replace("import threading", "")
    out, err = script("answer", "", code="import warnings; warnings.simplefilter('ignore')\n" + code).communicate(
        timeout=60
    )
    assert [line.split()[0] for line in out.splitlines()] == ["OK", "OK", "OK"], out + err


def test_a_skill_within_a_function_is_refused_with_advice() -> None:
    with pytest.raises(
        SkillDeclarationError, match=r"declare it at the top level of tests\.runtime\.effects\.killable_skills"
    ):
        Registry([never_at_the_top()])  # type: ignore[list-item]


def test_a_skill_of_the_script_itself_is_refused_with_advice(script: Any) -> None:
    code = textwrap.dedent(
        """
        from reenact import Runtime, skill

        @skill("here", version="1.0.0", tool_class="read", isolation="process")
        def here() -> None:
            "Only this script has it."

        try:
            Runtime(":memory:", skills=[here])
        except Exception as error:
            print(type(error).__name__, error)
        """
    )
    out, _ = script(code=code).communicate(timeout=60)
    assert out.startswith("SkillDeclarationError skill here@1.0.0: ")
    assert "put it into a module of its own" in out


def import_file(path: Path) -> Any:
    from reenact.skills.load import load_skills

    registry = Registry()
    load_skills(str(path), registry)
    return registry


def test_a_skill_of_a_file_is_found_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'from beside'\n")
    path = tmp_path / "my_skills.py"
    path.write_text(
        "from beside import WORD\nfrom reenact import skill\n\n"
        '@skill("of_a_file", version="1.0.0", tool_class="read", isolation="process")\n'
        "def of_a_file() -> str:\n    'Says it.'\n    return WORD\n"
    )
    runtime = Bench(tmp_path).runtime
    runtime.registry = import_file(path)
    with runtime.session() as session:
        assert session.call("of_a_file").output == "from beside"


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("if PID is None: raise RuntimeError('not here')", "not here"),
        ("", "its declaration must not depend on what the process did before"),
    ],
    ids=["raises", "differs"],
)
def test_a_module_that_is_another_one_there_is_a_failure_that_says_so(
    tmp_path: Path, condition: str, told: str
) -> None:
    path = tmp_path / "moody.py"
    mark = tmp_path / "mark"
    path.write_text(
        "import pathlib\nfrom reenact import skill\n\n"
        f"first = not pathlib.Path({str(mark)!r}).exists()\n"
        f"pathlib.Path({str(mark)!r}).touch()\n"
        f"PID = 1 if first else None\n{condition}\n\n"
        '@skill("moody", version="1.0.0", tool_class="read", isolation="process", timeout_ms=1000 if first else 2000)\n'
        "def moody() -> None:\n    'Differs.'\n"
    )
    runtime = Bench(tmp_path).runtime
    runtime.registry = import_file(path)
    with runtime.session() as session:
        outcome = session.call("moody")
    assert not outcome.ok
    assert told in outcome.message


def test_what_is_needed_by_skills_of_threads_alone_is_not_started(tmp_path: Path) -> None:
    @skill("plain", version="1.0.0", tool_class="read")
    def plain() -> None:
        """Nothing."""

    processes.FORK_SERVER.close()
    assert outcome_of(Bench(tmp_path, plain).run(step(plain))).ok
    assert processes.FORK_SERVER._process is None


def test_a_body_has_its_context_there_too(bench: Bench) -> None:
    found, given = outcome_of(act(bench, "current")).output
    assert found == given
