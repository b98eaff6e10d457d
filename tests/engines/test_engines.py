"""Which tests run on which engine is as the pages say, and nobody opts out without a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.engines.once import reasons
from tests.engines.suites import CHOSEN, SUITES

ONE_OF_EACH = "tests/runtime/call/test_cancelled_retries.py"
WITH_A_LISTED_ONE = "tests/runtime/call/test_keys.py"
WITHOUT_A_STORE = "tests/runtime/session/test_checks.py::test_the_ends_of_what_is_printed_are_those_of_the_whole"
CONTRACT = "tests/store/test_contract_evidence.py"


def collected(root: Path, *paths: str, engines: str = "") -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", *paths]
    environment = {**os.environ, CHOSEN: engines}
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_every_test_that_runs_on_one_engine_alone_is_there_and_in_a_suite(root: Path) -> None:
    for name in reasons():
        path, _, test = name.partition("::")
        assert name.startswith(SUITES), name
        assert f"def {test}(" in (root / path).read_text(encoding="utf-8") if test else (root / path).is_file(), name


def test_all_run_on_sqlite_and_the_first_of_a_file_on_postgresql(root: Path) -> None:
    found = collected(root, ONE_OF_EACH, WITH_A_LISTED_ONE, CONTRACT)
    for path in (ONE_OF_EACH, WITH_A_LISTED_ONE):
        of_it = [each for each in found if each.startswith(path)]
        assert len([each for each in of_it if "postgres" in each]) == 1
        assert len(of_it) > 4
    assert len([each for each in found if each.startswith(CONTRACT) and "[postgres" in each]) > 4, "all of the contract"


def test_where_postgresql_is_named_all_of_the_suites_run_there_but_what_is_listed(root: Path) -> None:
    found = collected(root, ONE_OF_EACH, WITH_A_LISTED_ONE, CONTRACT, engines="postgres")
    of_suites = [each for each in found if each.startswith(SUITES)]
    assert len(of_suites) > 10
    assert all("postgres" in each for each in of_suites)
    assert not [each for each in found if each.startswith(tuple(reasons())) or "[sqlite" in each]


def test_a_test_of_a_suite_that_has_no_store_in_the_database_fails_where_it_is_not_listed(root: Path) -> None:
    assert WITHOUT_A_STORE in reasons()
    program = f"""
import sys, pytest
from tests.engines import plugin
plugin.reason_for = lambda node_id: None
sys.exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", {WITHOUT_A_STORE!r}]))
"""
    environment = {**os.environ, CHOSEN: "postgres"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "asks for no store of its engine" in done.stdout
