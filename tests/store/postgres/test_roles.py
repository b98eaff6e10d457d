"""Each role does its work and nothing more. The script is run as an administrator would run it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from reenact.errors import ReenactError, StoreError, UsageError
from reenact.record.archive.moving import move
from reenact.record.erase import erase
from reenact.record.export import export_evidence
from reenact.replay.runtime import Runtime
from reenact.store.checks.verification import verify_run
from reenact.store.doctor.examine import examine
from reenact.store.open import grants, open_evidence, open_store, upgrade
from reenact.values.clock import SystemClock
from tests.postgres.server import Server
from tests.store.checks.store_file import PLAN, REGISTRY

ROLES = ("owner", "worker", "eraser", "auditor")
DATABASE = "roles"
WHO = {"who": "a person", "reason": "asked for"}


@pytest.fixture
def urls(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A store of an owner's, and what each role would call it: made as the script says."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    postgres.add_database(DATABASE, owner="postgres")
    found = {role: postgres.url(database=DATABASE, role=f"reenact_{role}") for role in ROLES}
    postgres.execute(grants(found["owner"]), database=DATABASE)
    for role in ROLES:
        postgres.execute(f"ALTER ROLE reenact_{role} LOGIN PASSWORD '{postgres.password}'")
    upgrade(found["owner"])
    for _ in range(2):  # it may be run again
        postgres.execute(grants(found["owner"]), database=DATABASE)
    yield found
    postgres.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
    for role in ROLES:
        postgres.execute(f"DROP ROLE reenact_{role}")


def refused(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as db, pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute(statement)


def run_once(url: str) -> str:
    with closing(Runtime(url, skills=REGISTRY)) as runtime:
        result = runtime.run(PLAN)
        assert result.status == "completed"
        return result.run_id


def test_a_worker_runs_agents_and_changes_nothing_that_is_evidence(urls: dict[str, str]) -> None:
    run_id = run_once(urls["worker"])
    with closing(Runtime(urls["worker"], skills=REGISTRY)) as runtime:
        with runtime.session(id="a session", agent_id="an-agent") as session:
            session.call("talk", {"text": "good evening"}, idempotency_key="key-2")
        store = runtime.store
        store.request_cancel(run_id, "{}")
        assert store.cast_vote(run_id, "t", b"{}", settles=False) is False  # it has ended
        store.log.advance()
        with pytest.raises(ReenactError, match="permission denied"):
            erase(store, run_id, "keyed", **WHO)
    for statement in (
        "UPDATE reenact.commits SET body = body",
        "DELETE FROM reenact.commits",
        "DELETE FROM reenact.payloads",
        "TRUNCATE reenact.payloads",
        "UPDATE reenact.notes SET digest = digest",
        "DELETE FROM reenact.erasures",
        "DELETE FROM reenact.runs",
        "UPDATE reenact.store SET value = value",
        "CREATE TABLE reenact.mine (a integer)",
        "ALTER TABLE reenact.commits DISABLE TRIGGER USER",
        "DROP TRIGGER commits_are_not_changed ON reenact.commits",
        "CREATE OR REPLACE FUNCTION reenact.now_ms() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
    ):
        refused(urls["worker"], statement)
    assert verify_run(urls["auditor"], run_id).exit_code == 0


def test_an_eraser_erases_archives_and_runs_nothing(urls: dict[str, str], tmp_path: Path) -> None:
    erased, archived = run_once(urls["worker"]), run_once(urls["worker"])
    with closing(open_store(urls["eraser"])) as store:
        assert erase(store, erased, "keyed", **WHO) > 0
        assert move(store, archived, tmp_path / "archive", **WHO).values > 0
    for run_id in (erased, archived):
        assert verify_run(urls["auditor"], run_id).exit_code == 0
    with closing(Runtime(urls["eraser"], skills=REGISTRY)) as runtime, pytest.raises(StoreError, match="permission"):
        runtime.run(PLAN)
    refused(urls["eraser"], "DELETE FROM reenact.commits")
    refused(urls["eraser"], "DELETE FROM reenact.erasures")


def test_an_auditor_lists_verifies_and_exports_and_reads_no_secret(
    urls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = run_once(urls["worker"])
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))  # who audits has no key of the store's
    with closing(open_store(urls["auditor"], to_read=True)) as store:
        assert [row.run_id for row in store.runs()] == [run_id]
        assert len(list(store.bodies(run_id))) > 0
    assert verify_run(urls["auditor"], "last").exit_code == 0
    with open_evidence(urls["auditor"]) as evidence:
        assert export_evidence(evidence, run_id, tmp_path / "bundle").sealed
    findings = examine(urls["auditor"], SystemClock())
    assert "rights" not in {finding.subject for finding in findings}
    refused(urls["auditor"], "SELECT secret FROM reenact.key_secret")
    refused(urls["auditor"], "INSERT INTO reenact.commits VALUES (1, 1, '', '', '')")
    refused(urls["auditor"], "UPDATE reenact.runs SET status = status")


def test_the_script_names_what_it_is_told_to_and_nothing_else() -> None:
    script = grants("postgresql://h/d?schema=mine", worker="agents")
    assert '"mine"' in script
    assert '"agents"' in script
    assert re.search(r":(schema|owner|worker|eraser|auditor)", script) is None
    for name in ("a b", "pg_x", "A", "1", "x" * 64, 'a"; DROP'):
        with pytest.raises(UsageError, match="a role's name"):
            grants("postgresql://h/d", worker=name)
    with pytest.raises(UsageError, match="a name of its own"):
        grants("postgresql://h/d", worker="one", eraser="one")
    with pytest.raises(UsageError, match="has no roles"):
        grants("sqlite:///store.db")
