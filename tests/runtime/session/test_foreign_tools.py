"""Any function is journaled by `session.step`; skills are added to a session that is open."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import functools
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import Runtime, skill, skill_from_schema
from reenact.errors import SkillDeclarationError, UsageError
from reenact.record.reader import RunReader
from reenact.runtime import people
from reenact.runtime.session.sync import SyncSession
from reenact.store.checks.verification import verify_run
from tests.engines.places import store_at
from tests.runtime.session.conftest import World


@dataclasses.dataclass
class Order:
    amount: int
    due: datetime.date


CALLS: list[Any] = []


def pay(order: Order, /, *notes: str, currency: str = "EUR", **more: Any) -> Any:
    """Pays."""
    CALLS.append((order, notes, currency, more))
    return order


async def look(city: str) -> dict[str, str]:
    await asyncio.sleep(0)
    return {"city": city, "key": reenact.current().idempotency_key}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


def recorded(runtime: Runtime, run_id: str) -> list[tuple[str, Any]]:
    return [(str(step.trace.meta("skill_id")), step.parameters()) for step in RunReader(runtime.store, run_id).steps()]


def check(runtime: Runtime, run_id: str) -> None:
    assert verify_run(runtime.store.url, run_id).exit_code == 0
    result = runtime.replay(run_id)
    assert result.ok, result


def test_arguments_are_recorded_by_name_and_come_as_their_hints_say(runtime: Runtime) -> None:
    due = datetime.date(2026, 1, 2)
    with runtime.session() as session:
        paid = session.step(pay, Order(5, due), "a", "b", kwargs={"currency": "NOK", "who": "me"}, tool_class="write")
    assert [(Order(5, due), ("a", "b"), "NOK", {"who": "me"})] == CALLS
    assert (paid.code, paid.output) == ("OK", {"amount": 5, "due": "2026-01-02"})
    assert recorded(runtime, session.run_id) == [
        (
            f"{__name__}.pay",
            {
                "currency": "NOK",
                "more": {"who": "me"},
                "notes": ["a", "b"],
                "order": {"amount": 5, "due": "2026-01-02"},
            },
        )
    ]
    check(runtime, session.run_id)


def test_a_coroutine_function_runs_in_the_loop(runtime: Runtime) -> None:
    async def both() -> list[Any]:
        async with runtime.session() as session:
            return await asyncio.gather(session.step(look, "Bergen"), session.step(look, "Oslo", idempotency_key="k"))

    outcomes = asyncio.run(both())
    assert [outcome.output["city"] for outcome in outcomes] == ["Bergen", "Oslo"]
    assert len({outcome.output["key"] for outcome in outcomes}) == 2


def test_the_function_that_is_given_is_the_one_that_is_called(runtime: Runtime) -> None:
    """Closures of one function are one skill, and each is itself."""

    def make(n: int) -> Any:
        def add(x: int) -> int:
            return x + n

        return add

    class Client:
        def __init__(self, n: int) -> None:
            self.n = n

        def add(self, x: int) -> int:
            return x + self.n

    with runtime.session() as session:
        sums = [session.step(make(n), 1, tool_class="read").output for n in (1, 2, 3)]
        sums += [session.step(Client(n).add, 1, tool_class="read").output for n in (1, 2)]
    assert sums == [2, 3, 4, 2, 3]
    assert len({name for name, _ in recorded(runtime, session.run_id)}) == 2
    check(runtime, session.run_id)


def test_what_a_partial_holds_is_recorded_too(runtime: Runtime) -> None:
    def send(to: str, subject: str = "", urgent: bool = False) -> str:
        return f"{to} {subject} {urgent}"

    with runtime.session() as session:
        sent = session.step(
            functools.partial(send, "ann", urgent=True), kwargs={"subject": "hi"}, skill_id="mailer.send"
        )
    assert sent.output == "ann hi True"
    assert recorded(runtime, session.run_id) == [("mailer.send", {"subject": "hi", "to": "ann", "urgent": True})]


def test_what_a_function_raises_is_an_outcome(runtime: Runtime) -> None:
    def broken() -> None:
        raise ConnectionRefusedError(111, "nobody there")

    with runtime.session() as session:
        outcome = session.step(broken, retry={"max_retries": 0})
        other = session.step(pay, "no order")
        bytes_ = session.step(look, b"raw")
        returned = session.step(lambda: b"raw", skill_id="raw")
    assert (outcome.status, outcome.code) == ("failure", "ERR_CONNECTION_REFUSED")
    assert (other.code, other.details["reason"]) == ("ERR_VALIDATION_FAILED", other.details["reason"])
    assert "/order" in other.details["reason"]
    assert "bytes are not JSON" in bytes_.details["reason"]
    assert (returned.code, "bytes are not JSON" in returned.message) == ("ERR_SERIALIZATION_FAILED", True)
    check(runtime, session.run_id)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda session: session.step(lambda: 1), "a lambda has no name"),
        (lambda session: session.step(pay), r"pay\(order.*missing a required argument: 'order'"),
        (lambda session: session.step(pay, amount=5), r"amount is nothing .* kwargs=\{'amount': …\}"),
        (lambda session: session.step(max, 5, 7), "nobody can tell its parameters"),
        (lambda session: session.step("pay", 5), "a function and its arguments"),
        (lambda session: session.step(pay, None, tool_class="reed"), "tool_class cannot be 'reed'"),
        (lambda session: session.step(skill("s", version="1.0.0")(look_up), "x", timeout_ms=5), "has declared itself"),
    ],
)
def test_what_only_the_host_can_get_wrong_is_an_error(runtime: Runtime, step: Any, message: str) -> None:
    with runtime.session() as session, pytest.raises(UsageError, match=message):
        step(session)
    assert recorded(runtime, session.run_id) == []


def look_up(q: str) -> str:
    return q


def test_a_lambda_with_a_name_and_a_declared_skill_are_steps_too(runtime: Runtime) -> None:
    declared = skill("lookUp", version="1.0.0", tool_class="read")(look_up)
    with runtime.session() as session:
        assert session.step(lambda x: x + 1, 1, skill_id="inc").output == 2
        assert session.step(declared, "x").output == "x"
        assert session.call("lookUp", {"q": "y"}).output == "y"
    assert [name for name, _ in recorded(runtime, session.run_id)] == ["inc", "lookUp", "lookUp"]


def test_names_as_tools_have_them_elsewhere_are_recorded_and_verified(runtime: Runtime) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [skill_from_schema(name, schema, lambda city="": city) for name in ("GetWeather", "admin.tools.list")]
    with runtime.session() as session:
        for tool in tools:
            session.add(tool)
        outcomes = [session.call(tool.skill_id, {"city": "x"}, idempotency_key="k") for tool in tools]
    assert [outcome.metadata.skill_id for outcome in outcomes] == ["GetWeather", "admin.tools.list"]
    proposals = [step.trace.request.proposal for step in RunReader(runtime.store, session.run_id).steps()]  # type: ignore[union-attr]
    assert [proposal.tool_server for proposal in proposals] == ["local", "admin"]
    assert [proposal.tool_name[:2] for proposal in proposals] == ["x-", "x-"]
    check(runtime, session.run_id)


def test_a_skill_that_is_added_is_there_for_this_session_alone(runtime: Runtime) -> None:
    added = skill("late", version="1.0.0", tool_class="read")(look_up)
    with runtime.session() as session:
        before = session.call("late", {"q": "x"})
        session.add(added)
        after = session.call("late", {"q": "x"})
        session.add(skill("late", version="2.0.0", tool_class="read")(look_up))
        newer = session.call("late", {"q": "x"})
        with pytest.raises(SkillDeclarationError, match="declared twice"):
            session.add(skill("late", version="1.0.0", tool_class="write")(look_up))
    assert (before.code, after.code) == ("ERR_SKILL_NOT_FOUND", "OK")
    assert newer.metadata.skill_version == "2.0.0"
    assert "late" not in runtime.registry
    check(runtime, session.run_id)


class Colour(enum.StrEnum):
    RED = "red"


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


def test_a_tool_whose_schema_is_another_one_by_now_is_offered_and_called_as_it_was_added_last(runtime: Runtime) -> None:
    closed = {"type": "object", "additionalProperties": False}
    old, new = (
        skill_from_schema("GetWeather", {**closed, "properties": {name: {}}}, lambda **given: list(given))
        for name in ("city", "place")
    )
    for one, other in ((old, new), (new, old)):
        with runtime.session() as session:
            for each in (one, other, one):
                session.add(each)
                (offered,) = session.tools(["GetWeather"])
                (name,) = offered["function"]["parameters"]["properties"]  # type: ignore[index]
                assert session.call("GetWeather", {name: "Bergen"}).output == [name]
                assert each.metadata.input_schema["properties"] == {name: {}}
        assert runtime.replay(session.run_id).ok


def test_a_name_means_the_same_tool_whether_its_program_was_killed_or_not(runtime: Runtime) -> None:
    def program(session: SyncSession, dies: bool) -> list[str | None]:
        told = []
        for version in ("1.0.0", "2.0.0"):
            session.add(skill("late", version=version, tool_class="read")(look_up))
            if dies and told:
                raise KeyboardInterrupt
            told.append(session.call("late", {"q": "x"}).metadata.skill_version)
        return told

    with pytest.raises(KeyboardInterrupt), runtime.session(id="killed") as session:
        program(session, dies=True)
    for name in ("killed", "whole"):
        with runtime.session(id=name) as session:
            assert program(session, dies=False) == ["1.0.0", "2.0.0"]


def test_arguments_of_a_program_are_made_plain(runtime: Runtime, world: World) -> None:
    given = {"q": Loud("x")}
    with runtime.session() as session:
        assert session.call("search", given).output == {"q": "x"}
        session.call("search", {"q": Colour.RED})
        session.call("search", {"q": Path("/tmp/a")})
        session.call("search", {"q": datetime.date(2026, 1, 2)})
    told = [parameters["q"] for _, parameters in recorded(runtime, session.run_id)]
    assert told == ["x", "red", "/tmp/a", "2026-01-02"]
    assert world.calls["search"] == 4


# -- the context, wherever the body runs -------------------------------------------------------------------------------


def test_outside_a_call_there_is_no_current_context(runtime: Runtime) -> None:
    with pytest.raises(UsageError, match="no call of a skill runs here"):
        reenact.current()
    with runtime.session() as session:
        session.step(look, "x")
    with pytest.raises(UsageError):
        reenact.current()


def test_a_thread_that_a_body_waits_for_has_it_too(runtime: Runtime) -> None:
    async def outer() -> list[str]:
        deep = await asyncio.to_thread(lambda: reenact.current().step_id)
        return [reenact.current().step_id, deep, threading.current_thread().name]

    def plain() -> str:
        return reenact.current().step_id

    with runtime.session() as session:
        assert session.step(outer).output[:2] == ["c1", "c1"]
        assert session.step(plain).output == "c2"


# -- a process that dies -----------------------------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys
from pathlib import Path
import reenact

LEDGER = Path(sys.argv[2])

def charge(amount: int) -> str:
    with LEDGER.open("a") as ledger:
        ledger.write(f"{amount} {reenact.current().idempotency_key}\\n")
    if len(sys.argv) < 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

runtime = reenact.Runtime(sys.argv[1])
with runtime.session(resume=sys.argv[3] if len(sys.argv) > 3 else None) as session:
    print([(m["role"], m.get("content")) for m in session.history()])
    print(session.step(charge, 5 if len(sys.argv) < 4 else 6, step_id=f"pay-{len(sys.argv)}").code)
"""


def test_a_step_whose_process_was_killed_is_not_made_again_and_its_session_goes_on(tmp_path: Path) -> None:
    program, store, ledger = tmp_path / "agent.py", tmp_path / "store.db", tmp_path / "ledger"
    program.write_text(PROGRAM, encoding="utf-8")

    def start(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(program), store_at(store), str(ledger), *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert start().returncode == -signal.SIGKILL
    runtime = Runtime(store_at(store))
    run_id = runtime.store.find_run("last").run_id
    again = start(run_id)
    assert again.returncode == 0, again.stderr
    assert "ERR_IN_DOUBT" in again.stdout
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["5", "6"]
    check(runtime, run_id)


def test_where_its_calls_are_driven_an_absent_function_holds_the_session(tmp_path: Path) -> None:
    program, store, ledger = tmp_path / "agent.py", tmp_path / "store.db", tmp_path / "ledger"
    program.write_text(PROGRAM, encoding="utf-8")
    subprocess.run([sys.executable, str(program), store_at(store), str(ledger)], check=False, timeout=60)
    runtime = Runtime(store_at(store))
    result = runtime.resume("last")
    assert (result.status, len(ledger.read_text().splitlines())) == ("held", 1)
    assert "__main__.charge@0.0.0+" in str(result.reason)


# -- a program that is started again -----------------------------------------------------------------------------------

AGAIN = """
import os, signal, sys
from pathlib import Path
import reenact

LEDGER = Path(sys.argv[2])
DIES = sys.argv[3] == "dies"

def look(city: str) -> str:
    with LEDGER.open("a") as ledger:
        ledger.write("look\\n")
    return city.upper()

def charge(amount: int) -> str:
    with LEDGER.open("a") as ledger:
        ledger.write("charge\\n")
    if DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

runtime = reenact.Runtime(sys.argv[1])
with runtime.session(id="order-42") as session:
    print(session.step(look, "bergen", tool_class="read").output)
    print(session.step(charge, 5, **eval(sys.argv[4])).output)
"""


@pytest.mark.parametrize(
    ("declared", "charged"), [("{}", 1), ("dict(honours_key=True)", 2)], ids=["undeclared", "honours its key"]
)
def test_a_program_that_is_started_again_settles_its_open_step_as_declared(
    tmp_path: Path, declared: str, charged: int
) -> None:
    program, store, ledger = tmp_path / "agent.py", tmp_path / "store.db", tmp_path / "ledger"
    program.write_text(AGAIN, encoding="utf-8")

    def start(how: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(program), store_at(store), str(ledger), how, declared]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert start("dies").returncode == -signal.SIGKILL
    again = start("lives")
    done = ledger.read_text().split()
    assert (done.count("look"), done.count("charge")) == (1, charged)
    if charged == 1:
        assert (again.returncode, again.stdout.split()) == (0, ["BERGEN", "None"])
        assert Runtime(store_at(store)).store.find_run("order-42").status == "held"
        runtime = Runtime(store_at(store))
        run_id = runtime.store.find_run("last").run_id
        step_id = next(step.step_id for step in RunReader(runtime.store, run_id).steps() if not step.finished)
        asyncio.run(people.resolve(runtime, run_id, step_id, "succeeded", reason="seen", output="paid"))
        again = start("lives")
    assert (again.returncode, again.stdout.split()) == (0, ["BERGEN", "paid"])
    assert start("lives").stdout.split() == ["BERGEN", "paid"], "an ended session answers"
    assert ledger.read_text().split() == done
    check(Runtime(store_at(store)), Runtime(store_at(store)).store.find_run("last").run_id)


def test_functions_of_one_name_that_are_called_side_by_side_are_each_called(runtime: Runtime) -> None:
    def make(n: int) -> Any:
        async def add(x: int) -> int:
            await asyncio.sleep(0)
            return x + n

        return add

    async def all_of_them(numbers: range) -> list[Any]:
        async with runtime.session(id="sums") as session:
            outcomes = await asyncio.gather(*(session.step(make(n), n, tool_class="read") for n in numbers))
        return [outcome.output for outcome in outcomes]

    assert asyncio.run(all_of_them(range(20))) == [2 * n for n in range(20)]
    assert asyncio.run(all_of_them(range(20))) == [2 * n for n in range(20)]


def test_threads_that_step_side_by_side_call_their_own(runtime: Runtime) -> None:
    def make(n: int) -> Any:
        return lambda x: x + n

    with runtime.session() as session, ThreadPoolExecutor(8) as pool:
        done = pool.map(lambda n: session.step(make(n), n, skill_id="add", tool_class="read").output, range(40))
        assert list(done) == [2 * n for n in range(40)]


def test_what_was_added_stays_when_a_program_goes_on_as_another_run(runtime: Runtime) -> None:
    added = skill("late", version="1.0.0", tool_class="read")(look_up)

    def start(q: str) -> Any:
        with runtime.session(id="x", on_divergence="fork") as session:
            session.add(added)
            outcome = session.call("late", {"q": q})
            if q == "a":
                raise KeyError
            return outcome.output, session.call("late", {"q": "more"}).output

    with pytest.raises(KeyError):
        start("a")
    assert start("b") == ("b", "more")
