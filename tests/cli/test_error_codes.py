"""Every error has a stable code, which stands in its line, in its JSON and in the reference."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import reenact
from reenact.errors import ReenactError
from tests.cli.harness import SKILLS, Command

PAGE = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text(encoding="utf-8")
OPTIONAL = ("reenact.telemetry", "reenact.testing", "reenact.__main__")


def errors(kind: type[ReenactError] = ReenactError) -> Iterator[type[ReenactError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from errors(below)


def every_error() -> list[type[ReenactError]]:
    for found in pkgutil.walk_packages(reenact.__path__, "reenact."):
        if not found.name.startswith(OPTIONAL):
            importlib.import_module(found.name)
    return sorted({kind for kind in errors() if kind.__module__.startswith("reenact.")}, key=lambda kind: kind.__name__)


def test_every_error_has_a_code_of_its_own_that_is_documented() -> None:
    table = PAGE[PAGE.index("### Error codes") : PAGE.index("## `run PLAN`")]
    rows = {
        code: int(row.split("|")[2])
        for row in table.splitlines()
        if row.startswith("| `")
        for code in re.findall(r"`([A-Z0-9_]+)`", row.split("|")[1])
    }
    kinds = every_error()
    assert len(kinds) > 30
    assert [kind.__name__ for kind in kinds if "code" not in vars(kind)] == []
    assert len({kind.code for kind in kinds}) == len(kinds)
    found = {kind.code: kind.exit_code for kind in kinds}
    assert {code: exit_code for code, exit_code in rows.items() if code != "IO_ERROR"} == found


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (("show", "nothing"), "RUN_NOT_FOUND", 2),
        (("run", "missing.json"), "PLAN_INVALID", 2),
        (("run", "plan.json", "--skills", "missing.py"), "SKILL_DECLARATION_INVALID", 2),
        (("ls", "--no-such-option"), "USAGE", 2),
        (("replay", "last", "--mode", "none"), "USAGE", 2),
    ],
)
def test_the_code_stands_in_the_line_and_in_the_document(
    recorded: Command, arguments: tuple[str, ...], code: str, exit_code: int
) -> None:
    done = recorded(*arguments, "--json")
    document = json.loads(done.out)["error"]
    assert (done.code, document["code"], document["exit_code"]) == (exit_code, code, exit_code)
    assert done.err == f"error: {document['message']} [{code}]\n"
    assert recorded(*arguments).out == ""


def interrupted_without_its_plan(reenact_: Command) -> str:
    """A run that was killed, whose plan is gone from the store."""
    plan = reenact_.plan({"skill_id": "steady", "parameters": {"text": "a"}})
    reenact_("run", plan, "--skills", SKILLS, REENACT_CRASH_AT="before_dispatch:1")
    with sqlite3.connect(reenact_.store) as database:
        (run_id,) = database.execute("SELECT run_id FROM runs").fetchone()
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("DELETE FROM payloads")
    return str(run_id)


def test_a_run_whose_plan_was_lost_cannot_be_recovered_and_nobody_calls_it_erased(reenact: Command) -> None:
    run_id = interrupted_without_its_plan(reenact)
    told = reenact("recover", "--skills", SKILLS, "--json")
    (document,) = told.json
    assert (told.code, document["run_id"], document["error_code"]) == (1, run_id, "STATE_RECOVERY_FAILED")
    assert "nobody erased it" in document["error"]
    assert "[STATE_RECOVERY_FAILED]" in reenact("recover", "--skills", SKILLS).out
    alone = reenact("resume", run_id, "--skills", SKILLS)
    assert (alone.code, alone.err.rstrip().endswith("[STATE_RECOVERY_FAILED]")) == (1, True)
