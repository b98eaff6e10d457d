"""kill -9 while the replay log is written: the next process goes on in the same file, to the bytes of an export."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact import Runtime
from reenact.record.export import export_run
from reenact.runtime.crash_points import CRASH_POINTS, LOG_POINTS
from reenact.runtime.writing.replay_log import ReplayLogs, locked
from reenact.trace import ReplayReader
from tests.cli.harness import SKILLS as COMMAND_SKILLS
from tests.cli.harness import Command, error_line
from tests.crash.harness import KILLED, MANY_DEATHS, SKILLS, Stage, in_child
from tests.engines.places import opened, store_at

SEEN = tuple(point for point in CRASH_POINTS if "redispatch" not in point)


@dataclass(frozen=True)
class Logged(Stage):
    """A stage whose runs write their logs."""

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def runtime(self) -> Runtime:
        return Runtime(store_at(self.store_path), skills=SKILLS, max_redispatches=MANY_DEATHS, replay_log=self.logs)

    def go_on(self) -> None:
        runtime = self.runtime()
        runtime.recover()
        runtime.close()

    def check(self) -> None:
        """Each log is what an export of its run says, byte for byte."""
        store = opened(self.store_path)
        rows = list(store.runs())
        store.close()
        assert rows
        for row in rows:
            folder = self.folder / "exported" / row.run_id
            export_run(store_at(self.store_path), row.run_id, folder)
            log = self.logs / f"{row.run_id}.jsonl"
            assert log.read_bytes() == (folder / "REPLAY.jsonl").read_bytes()
            assert log.stat().st_mode & 0o077 == 0


@pytest.fixture
def logged(stage: Stage) -> Logged:
    return Logged(stage.folder)


@pytest.mark.parametrize("point", [*SEEN, *LOG_POINTS])
def test_the_log_is_whole_after_kill_9_at(point: str, logged: Logged) -> None:
    """At its first, its third and its last passage; where recovery dies there too, after that."""
    for times in (1, 3, 6):
        killed = in_child(lambda: logged.runtime().run(logged.plan(f"p{times}")), crash_at=f"{point}:{times}")  # noqa: B023
        assert killed == KILLED or times > 1
        in_child(logged.go_on, crash_at=point)
        logged.go_on()
    logged.check()


@pytest.mark.parametrize("point", [*LOG_POINTS, "after_commit", "after_seal"])
def test_every_line_is_reached(point: str, logged: Logged) -> None:
    """Killed at its first passage, and each process after it at its second to fourth, until one comes to the end."""
    in_child(lambda: logged.runtime().run(logged.plan()), crash_at=point)
    deaths = 1
    while in_child(logged.go_on, crash_at=f"{point}:{2 + deaths % 3}") == KILLED:
        deaths += 1
        assert deaths < 40, "it does not come forward"
    logged.go_on()
    logged.check()


def test_a_session_that_is_started_again_goes_on_in_its_file(logged: Logged) -> None:
    file = logged.folder / "session.jsonl"

    def program() -> None:
        runtime = Runtime(store_at(logged.store_path), skills=SKILLS, replay_log=file, max_redispatches=MANY_DEATHS)
        with runtime.session(id="order-7", agent_id="a", scorer=lambda _: 0.25) as session:
            for number in range(4):
                session.call("act", {"ledger": logged.ledger_path, "value": number})
            session.verify(["true"])
            session.finish(confidence=0.5)
        runtime.close()

    for number in range(1, 16):
        in_child(program, crash_at=f"in_replay_log:{number}")
    in_child(program, crash_at="before_seal")
    program()
    [row] = opened(logged.store_path).runs()
    export_run(store_at(logged.store_path), row.run_id, logged.folder / "bundle")
    assert file.read_bytes() == (logged.folder / "bundle" / "REPLAY.jsonl").read_bytes()
    assert ReplayReader.from_file(file).average_step_utility() == 0.25


def test_a_run_that_was_sealed_before_its_last_line_is_completed_by_whoever_comes_next(logged: Logged) -> None:
    assert in_child(lambda: logged.runtime().run(logged.plan()), crash_at="after_seal") == KILLED
    [log] = logged.logs.iterdir()
    whole = log.read_bytes()
    log.write_bytes(whole[:-70])
    logged.runtime().close()
    assert log.read_bytes() == whole


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1))
def test_wherever_it_was_cut_it_is_completed(where: float, finished: tuple[Path, Path, bytes]) -> None:
    store, log, whole = finished
    log.write_bytes(whole[: round(where * len(whole))])
    kept = opened(store)
    logs = ReplayLogs(kept, log)
    logs.committed(next(iter(kept.runs())).run_id)
    kept.close()
    assert log.read_bytes() == whole


@pytest.fixture(scope="module")
def finished(engine: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, bytes]:
    folder = tmp_path_factory.mktemp("finished")
    stage, log = Stage(folder), folder / "log.jsonl"
    runtime = Runtime(stage.url, skills=SKILLS, replay_log=log)
    runtime.run(stage.plan())
    runtime.close()
    return Path(stage.store_path), log, log.read_bytes()


@pytest.mark.parametrize("change", ["edited", "foreign", "longer"])
def test_a_file_that_says_something_else_is_left_alone_and_told_of(
    change: str, logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    assert in_child(lambda: logged.runtime().run(logged.plan()), crash_at="after_dispatch:2") == KILLED
    [log] = logged.logs.iterdir()
    lines = log.read_bytes().splitlines(keepends=True)
    other = {
        "edited": [*lines[:-1], lines[-1].replace(b"Success", b"Skipped").replace(b'"turn":0', b'"turn":9')],
        "foreign": [*lines, b"somebody's notes"],
        "longer": [*lines, lines[-1]],
    }[change]
    log.write_bytes(b"".join(other))
    with caplog.at_level(logging.WARNING, "reenact.replay_log"):
        logged.go_on()
    assert log.read_bytes() == b"".join(other)
    assert "is behind" in caplog.text
    assert opened(logged.store_path).find_run(log.stem).status == "completed"


def test_a_log_that_cannot_be_written_holds_nobody_up_and_is_made_up_for(
    logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    logged.logs.mkdir()
    runtime = logged.runtime()
    blocked = logged.logs.with_name("elsewhere")
    logged.logs.rename(blocked)
    with caplog.at_level(logging.WARNING, "reenact.replay_log"):
        assert runtime.run(logged.plan()).status == "completed"
    assert caplog.text.count("No such file or directory") == 1
    blocked.rename(logged.logs)
    assert runtime.run(logged.plan("q")).status == "completed"
    runtime.close()
    assert len(list(logged.logs.iterdir())) == 1


def test_a_file_that_somebody_holds_is_caught_up_with_later(logged: Logged, caplog: pytest.LogCaptureFixture) -> None:
    log = logged.folder / "held.jsonl"
    runtime = Runtime(store_at(logged.store_path), skills=SKILLS, replay_log=log)
    with caplog.at_level(logging.WARNING, "reenact.replay_log"), locked(log):
        run = runtime.run(logged.plan())
    assert run.status == "completed"
    assert log.read_bytes() == b""
    assert "is behind" in caplog.text
    logs = ReplayLogs(runtime.store, log)
    logs.committed(run.run_id)
    assert log.read_bytes().endswith(b"}\n")
    runtime.close()


def test_a_second_run_does_not_write_into_the_file_of_another(logged: Logged, caplog: pytest.LogCaptureFixture) -> None:
    log = logged.folder / "one.jsonl"
    runtime = Runtime(store_at(logged.store_path), skills=SKILLS, replay_log=log)
    first = runtime.run(logged.plan())
    whole = log.read_bytes()
    with caplog.at_level(logging.WARNING, "reenact.replay_log"):
        runtime.run(logged.plan("q"))
    assert log.read_bytes() == whole
    assert f"it holds run {first.run_id}" in caplog.text
    runtime.close()


def test_the_command_goes_on_in_its_file_and_refuses_one_that_is_taken(tmp_path: Path) -> None:
    reenact, log = Command(tmp_path), tmp_path / "log.jsonl"
    plan = reenact.plan({"skill_id": "steady"}, {"skill_id": "flaky"})
    skills = ("--skills", COMMAND_SKILLS, "--replay-log", "log.jsonl")
    assert reenact("run", plan, *skills, REENACT_CRASH_AT="in_replay_log:5").code == -KILLED
    assert not log.read_bytes().endswith(b"\n")
    assert reenact("resume", "last", *skills).code == 0
    assert reenact("export", "last", "--to", "bundle").code == 0
    assert log.read_bytes() == (tmp_path / "bundle" / "REPLAY.jsonl").read_bytes()
    again = reenact("run", plan, *skills)
    assert again.code == 2
    assert "the file holds the replay log of run" in error_line(again)
    assert reenact("recover", "--replay-log", "log.jsonl").code == 0


def test_the_command_puts_issue_policy_and_confidence_into_the_plan(tmp_path: Path) -> None:
    reenact = Command(tmp_path)
    plan = reenact.plan({"skill_id": "steady"}, confidence=0.5)
    said = ("--issue-number", "42", "--policy-version", "v1.2.3")
    assert reenact("run", plan, "--skills", COMMAND_SKILLS, *said, "--replay-log", "log.jsonl").code == 0
    start, end = (json.loads((tmp_path / "log.jsonl").read_text().splitlines()[line]) for line in (1, -1))
    assert (start["issue_number"], start["policy_version"], end["confidence"]) == (42, "v1.2.3", 0.5)
    for option, value in (("--confidence", "0.7"), ("--policy-version", ""), ("--confidence", "2")):
        refused = reenact("run", plan, "--skills", COMMAND_SKILLS, option, value)
        assert refused.code == 2
        assert error_line(refused)
