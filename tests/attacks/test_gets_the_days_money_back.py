"""Whoever takes out of the database, or changes, what an agent has spent today, so that its budget is there again."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import NotAuthentic
from reenact.record.erase import erase
from reenact.store.beside.idempotency import FIRST, LAST
from reenact.store.beside.spending import SPENT
from reenact.store.open import open_store
from reenact.store.sqlite.keys import KeyRows

SENT: list[str] = []


def priced(name: str) -> Any:
    @skill(name, version="1.0.0", tool_class="write", cost_estimate_cents=60)
    def pay() -> str:
        SENT.append(name)
        return name

    return pay


PAY = priced("pay")


def plan(**budget: Any) -> dict[str, Any]:
    steps = [{"step_id": "a", "skill_id": "pay", "parameters": {}}]
    return {"plan_id": "p", "agent_id": "clerk", "steps": steps, "context": {"budget": budget}}


A_DAY = plan(per_day_cents=100)
ANYTHING = plan()


def pay(path: Path, what: dict[str, Any] = A_DAY) -> str:
    """The code of the call."""
    runtime = Runtime(str(path), skills=[PAY])
    try:
        return runtime.run(what).outcomes[0].code
    finally:
        runtime.close()


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.executescript(script)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """60 of 100 cents are spent."""
    path = tmp_path / "store.db"
    assert pay(path) == "OK"
    assert pay(path) == "ERR_BUDGET_EXCEEDED"
    SENT.clear()
    yield path
    SENT.clear()


ATTACKS = {
    "no row": "DELETE FROM spending",
    "less": "UPDATE spending SET exact = '1'",
    "another model": "UPDATE spending SET model = 'gpt-4o'",
    "another day": "UPDATE spending SET day = '2020-01-01'",
    "another agent": "UPDATE spending SET agent_id = 'ada'",
    "no row, nor one that vouches for it": "DELETE FROM spending; DELETE FROM idempotency WHERE tool = 'spent'",
    "nor any at all": "DELETE FROM spending; DELETE FROM idempotency",
    "as if of before": "DELETE FROM spending; UPDATE idempotency SET agent_id = '' WHERE tool = ''",
    "as if vouched for by hand": "DELETE FROM spending; UPDATE idempotency SET trace_id = 'x' WHERE tool = 'spent'",
}


@pytest.mark.parametrize("limit", ["day", "model"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_refused_is_not_sent(store: Path, attack: str, limit: str) -> None:
    change(store, ATTACKS[attack])
    budget = plan(per_day_cents=100) if limit == "day" else plan(per_model_cents={"": 100})
    for _ in range(2):
        with pytest.raises(NotAuthentic, match="`reenact ") as refused:
            pay(store, budget)
        assert "\n" not in str(refused.value)
        assert refused.value.code == "EVIDENCE_NOT_AUTHENTIC"
    assert SENT == []


def test_what_is_spent_afterwards_does_not_make_it_right(store: Path) -> None:
    """As much as was taken out: the amounts are then what they were."""
    change(store, ATTACKS["no row"])
    assert pay(store, ANYTHING) == "OK"
    with pytest.raises(NotAuthentic, match="what agent clerk has spent"):
        pay(store)
    assert SENT == ["pay"]


def test_a_row_that_is_taken_out_while_a_call_is_made_does_not_cost_its_result(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    pay(path)

    @skill("pay", version="1.0.0", tool_class="write", cost_estimate_cents=10)
    def pay_less() -> str:
        change(path, ATTACKS["no row"])
        return "sent"

    runtime = Runtime(str(path), skills=[pay_less])
    assert runtime.run(A_DAY).outcomes[0].code == "OK"
    runtime.close()
    with pytest.raises(NotAuthentic):
        pay(path)


def test_whoever_limits_nothing_goes_on(store: Path) -> None:
    change(store, ATTACKS["no row, nor one that vouches for it"])
    assert pay(store, ANYTHING) == "OK"


def test_another_agent_and_another_day_go_on(store: Path) -> None:
    change(store, ATTACKS["no row"])
    assert pay(store, {**A_DAY, "agent_id": "ada"}) == "OK"


def test_a_person_may_take_it_as_it_is(store: Path) -> None:
    change(store, ATTACKS["less"])
    runtime = Runtime(str(store), skills=[PAY])
    runtime.store.vouch()
    runtime.close()
    assert pay(store) == "OK"
    assert pay(store) == "ERR_BUDGET_EXCEEDED"


# -- and those who change nothing go on --------------------------------------------------------------------------------


def of_before(path: Path) -> None:
    """As a store was when nobody vouched for amounts: its rows are linked without those."""
    store = open_store(str(path))
    key = store.signing_key
    keys, db = store.idempotency, store._writer
    with db.transaction() as cursor:
        rows = KeyRows(cursor.execute)
        keys.link_all(rows, key)
        cursor.execute("DELETE FROM idempotency WHERE tool = 'spent'")
        first, _ = keys.find(rows, FIRST)
        keys._write(rows, first._replace(agent_id="", next=LAST))
    store.close()
    with closing(sqlite3.connect(path)) as seen:
        assert seen.execute("SELECT count(*) FROM idempotency WHERE tool = ?", SPENT[1:]).fetchone() == (0,)


def test_a_store_of_before_goes_on_with_what_is_found(store: Path) -> None:
    of_before(store)
    assert pay(store) == "ERR_BUDGET_EXCEEDED"
    change(store, ATTACKS["no row"])
    with pytest.raises(NotAuthentic):
        pay(store)


def test_a_rotated_key_vouches_on(store: Path) -> None:
    runtime = Runtime(str(store), skills=[PAY])
    runtime.store.key_table.rotate("ada")
    runtime.close()
    assert pay(store) == "ERR_BUDGET_EXCEEDED"
    assert pay(store, plan(per_day_cents=120)) == "OK"


def test_erased_runs_give_nothing_back(store: Path) -> None:
    runtime = Runtime(str(store), skills=[PAY])
    for run in runtime.store.runs():
        erase(runtime.store, run.run_id, None, who="ada", reason="asked for")
    runtime.close()
    assert pay(store) == "ERR_BUDGET_EXCEEDED"


def spend_often(path: Path, start: Any, told: Any) -> None:
    runtime = Runtime(str(path), skills=[priced("pay")])
    start.wait()
    told.put([runtime.run(plan(per_day_cents=600)).outcomes[0].code for _ in range(6)])
    runtime.close()


def test_processes_side_by_side_spend_to_the_limit_and_no_further(store: Path) -> None:
    """Each finds what the others have just written."""
    spawn = multiprocessing.get_context("spawn")
    start, told = spawn.Event(), spawn.Queue()
    processes = [spawn.Process(target=spend_often, args=(store, start, told)) for _ in range(3)]
    for process in processes:
        process.start()
    start.set()
    codes = [code for _ in processes for code in told.get(timeout=60)]
    for process in processes:
        process.join()
    assert sorted(set(codes)) == ["ERR_BUDGET_EXCEEDED", "OK"]
    assert codes.count("OK") == 9
