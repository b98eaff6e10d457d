"""What a host asks for is done, or refused at once with what to say instead: nothing is silently left aside."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, StructuredOutcome, skill
from reenact.errors import SkillDeclarationError, UsageError, WaitingForPerson
from reenact.runtime.crash_points import CRASH_POINTS
from reenact.store.location import sqlite_path

PLAN = {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": "echo", "parameters": {"text": "x"}}]}


@skill("echo", version="1.0.0", tool_class="read")
def echo(text: str) -> str:
    return text


def no_skill(text: str) -> str:
    return text


@pytest.fixture
def runtime() -> Runtime:
    return Runtime(":memory:", skills=[echo])


def test_a_run_id_that_no_verifier_would_take_is_refused_before_anything_is_recorded(runtime: Runtime) -> None:
    with pytest.raises(UsageError, match="run_id 'my-run' is not a lowercase UUIDv7"):
        runtime.run(PLAN, run_id="my-run")
    assert runtime.store.runs() == []
    assert runtime.run(PLAN, run_id="019b76da-a800-7000-8000-000000000001").ok


def test_a_step_that_has_no_outcome_is_told_with_those_that_have(runtime: Runtime) -> None:
    with pytest.raises(KeyError, match="no step 'b' has an outcome; those are s"):
        runtime.run(PLAN).get_step("b")


@pytest.mark.parametrize(
    ("skills", "said"),
    [
        (["skills.py"], "the text 'skills.py' is no skill"),
        ([no_skill], "function no_skill is no skill; a skill is a function under @skill"),
        (echo, r"a list of skills, not Skill echo: write skills=\[…\]"),
        ("skills.py", "a list of skills, not the text 'skills.py'"),
        ([3], "a value of type int is no skill"),
    ],
)
def test_what_is_no_skill_is_named(skills: Any, said: str) -> None:
    with pytest.raises(SkillDeclarationError, match=said):
        Runtime(":memory:", skills=skills)
    with pytest.raises(SkillDeclarationError, match=said):
        Registry(skills)


def test_a_supervisor_that_only_a_plan_can_name_is_refused_where_the_host_names_it() -> None:
    with pytest.raises(UsageError, match=r"""supervisor is a function, not 'ask'.*context=\{"supervisor": "ask"\}"""):
        Runtime(":memory:", supervisor="ask")  # type: ignore[arg-type]


def test_secrets_without_names_are_refused() -> None:
    with pytest.raises(UsageError, match=r"\{NAME: value\}"):
        Runtime(":memory:", secrets=["TOKEN"])  # type: ignore[arg-type]


def test_a_store_may_be_named_by_a_path(tmp_path: Path) -> None:
    Runtime(tmp_path / "agents.db", skills=[echo]).run(PLAN)
    assert (tmp_path / "agents.db").exists()


@pytest.mark.parametrize("url", ["~/agents.db", "sqlite:///~/agents.db"])
def test_the_home_directory_is_found_where_no_shell_has_put_it_in(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sqlite_path(url) == str(tmp_path / "agents.db")
    assert sqlite_path("folder/~/agents.db") == "folder/~/agents.db"


# -- sessions ----------------------------------------------------------------------------------------------------------


def interrupted(runtime: Runtime, **wishes: Any) -> str:
    with pytest.raises(ZeroDivisionError), runtime.session(**wishes) as session:
        session.call("echo", {"text": "x"})
        raise ZeroDivisionError
    return session.run_id


@pytest.mark.parametrize(
    ("wish", "name"),
    [
        ({"goal": "another"}, "goal"),
        ({"agent_id": "ben"}, "agent_id"),
        ({"budget_cents": 6}, r"context\.budget_cents"),
        ({"context": {"supervisor": "ask"}}, r"context\.supervisor"),
    ],
)
def test_a_session_is_not_resumed_as_another_one_than_it_began(
    runtime: Runtime, wish: dict[str, Any], name: str
) -> None:
    run_id = interrupted(runtime, goal="one", agent_id="anna", budget_cents=5)

    with pytest.raises(UsageError, match=f"began with another {name}, and goes on with that"):
        runtime.session(resume=run_id, **wish).__enter__()
    with runtime.session(resume=run_id) as session:
        assert session.call("echo", {"text": "y"}).ok


def test_a_loop_may_say_the_same_when_it_begins_and_when_it_goes_on(runtime: Runtime) -> None:
    wishes: dict[str, Any] = {"goal": "one", "agent_id": "anna", "budget_cents": 5, "context": {"supervisor": "auto"}}
    run_id = interrupted(runtime, **wishes)

    with runtime.session(resume=run_id, **wishes) as session:
        assert session.call("echo", {"text": "y"}).ok


def test_two_budgets_for_one_session_are_refused(runtime: Runtime) -> None:
    with pytest.raises(UsageError, match="budget_cents is said twice"):
        runtime.session(budget_cents=5, context={"budget_cents": 7})
    with runtime.session(budget_cents=5, context={"budget_cents": 5}):
        pass


def test_a_session_takes_no_call_after_its_block_has_ended(runtime: Runtime) -> None:
    run_id = interrupted(runtime)
    opening = runtime.session(resume=run_id)
    with opening as session:
        pass
    for late in (lambda: session.call("echo", {"text": "x"}), session.history, session.turn, session.settle):
        with pytest.raises(UsageError, match="block of this session has ended"):
            late()


def test_an_async_session_that_was_left_by_an_error_takes_no_call_either(runtime: Runtime) -> None:
    async def left() -> None:
        with pytest.raises(ZeroDivisionError):
            async with runtime.session() as session:
                raise ZeroDivisionError
        for late in (session.call("echo", {"text": "x"}), session.turn(), session.settle()):
            with pytest.raises(UsageError, match=r"block of session \S+ has ended; open it again with resume="):
                await late

    asyncio.run(left())


def test_whoever_has_to_ask_a_person_knows_about_what() -> None:
    runtime = Runtime(":memory:")
    with pytest.raises(WaitingForPerson) as asked, runtime.session(context={"supervisor": "ask"}) as session:
        session.call("kv_store", {"operation": "incr", "key": "k"}, step_id="count")
    assert (asked.value.status, asked.value.run_id, asked.value.step_id) == ("waiting", session.run_id, "count")


def reason(outcome: StructuredOutcome) -> object:
    """Why a gate refused: the message is the decision's rationale, which holds nothing that a caller said."""
    assert outcome.message == f"Refused by gate validate: {outcome.code}"
    assert outcome.details is not None
    return outcome.details["reason"]


def test_a_refused_call_says_why_in_its_message(runtime: Runtime) -> None:
    with runtime.session() as session:
        assert reason(session.call("echo", {"txt": "x"})) == "echo@1.0.0: /text: is required; /txt: is not known"
        assert reason(session.call("ecko", {})) == "no skill ecko; did you mean echo?"


def test_the_page_names_every_crash_point(root: Path) -> None:
    page = (root / "docs" / "howto" / "recover_after_a_crash.md").read_text(encoding="utf-8")
    for name, when in CRASH_POINTS.items():
        assert f"| `{name}` | {when} |\n" in page


def test_a_crash_point_that_does_not_exist_is_refused_rather_than_never_reached(tmp_path: Path) -> None:
    code = "from reenact import Runtime; Runtime(':memory:')"
    for spec in ("after_dispach:2", "after_dispatch:no", "after_dispatch:0"):
        ended = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "REENACT_CRASH_AT": spec},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1
        assert f"REENACT_CRASH_AT='{spec}' is no crash point" in ended.stderr


def test_a_crash_point_ends_a_process_that_its_own_signal_does_not_reach(tmp_path: Path) -> None:
    code = (
        "import os; os.kill = lambda *_: None\n"
        "from reenact.runtime.crash_points import reach; reach('in_backoff'); print('here')"
    )
    for spec, said in (("in_backoff", (137, b"")), ("in_backoff:2", (0, b"here\n"))):
        ended = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "REENACT_CRASH_AT": spec},
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert (ended.returncode, ended.stdout) == said


def test_an_empty_crash_point_is_none(tmp_path: Path) -> None:
    code = "from reenact import Runtime; Runtime(':memory:')"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "REENACT_CRASH_AT": ""}, cwd=tmp_path, check=True)
