"""shell: off by default, confined by the kernel, ended with all its children."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from reenact.builtin.limiter import Limiter
from reenact.builtin.sandbox import backends
from reenact.builtin.sandbox.shell_1_0 import shell as shell_1_0
from reenact.builtin.shell import shell
from tests.builtin.calling import Called, call


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "outside.txt").write_text("secret", encoding="utf-8")
    return folder


def run(workspace: Path, *argv: str, rules: dict[str, Any] | None = None, **parameters: Any) -> Called:
    """Confined as far as this system can; tests/attacks/sandbox has what must hold."""
    context = {"workspace": str(workspace), "shell": {"allow": True, "confine": "best-effort", **(rules or {})}}
    return call(shell, {"argv": list(argv), **parameters}, context=context)


def test_a_command_runs_in_the_workspace(workspace: Path) -> None:
    called = run(workspace, "sh", "-c", "pwd; cat; echo oops >&2; echo done > made", stdin="hello\n")
    assert called.output == {"exit_code": 0, "stdout": f"{workspace}\nhello\n", "stderr": "oops\n", "encoding": "text"}
    assert called.report.side_effects == [("process_run", "sh")]
    assert (workspace / "made").read_text(encoding="utf-8") == "done\n"


@pytest.mark.parametrize("rules", [None, {}, {"allow": False}, {"allow": "yes"}, {"allow": 1}])
def test_it_is_off_unless_the_plan_says_allow_true(workspace: Path, rules: Any) -> None:
    called = call(shell, {"argv": ["true"]}, context={"workspace": str(workspace), "shell": rules})
    assert called.code == "ERR_SKILL_DISABLED"
    assert called.report.side_effects == []


def test_a_system_that_cannot_confine_runs_nothing_unless_the_host_says_so(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "found", lambda: backends.Backend("none", "nothing", missing="bubblewrap"))
    refused = run(workspace, "true", rules={"confine": "require"})
    assert refused.code == "ERR_SKILL_DISABLED"
    assert str(refused.error) == (
        "this system cannot confine a command: it lacks bubblewrap; install bubblewrap, or let the host say "
        'confine = "best-effort"'
    )
    assert run(workspace, "true", rules={"confine": "best-effort"}).code == "OK"
    assert run(workspace, "true", rules={"confine": "off"}).code == "OK"


def test_nothing_of_this_processs_environment_is_seen(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPE_KEY", "sk_live_planted")
    called = run(workspace, "env", env={"GIVEN": "yes"})
    assert "sk_live_planted" not in called.output["stdout"]
    assert "GIVEN=yes" in called.output["stdout"]


def test_an_exit_code_other_than_zero_is_a_failure_unless_it_is_wanted(workspace: Path) -> None:
    failed = run(workspace, "sh", "-c", "echo partial; exit 3")
    assert failed.code == "ERR_UNKNOWN"
    assert failed.report.raw_response["stdout"] == "partial\n"
    assert run(workspace, "sh", "-c", "exit 3", check=False).output["exit_code"] == 3
    assert run(workspace, "sh", "-c", "exit 127", check=False).output["exit_code"] == 127


def test_a_command_that_is_not_there_is_said_so(workspace: Path) -> None:
    for argv in (["no-such-command"], ["./nothing"], ["/no/such/file"]):
        assert run(workspace, *argv).code == "ERR_VALIDATION_FAILED"
        assert run(workspace, *argv, rules={"confine": "off"}).code == "ERR_VALIDATION_FAILED"


def test_only_listed_commands_run_where_the_plan_lists_them(workspace: Path) -> None:
    assert run(workspace, "true", rules={"commands": ["true"]}).code == "OK"
    assert run(workspace, "sh", rules={"commands": ["true"]}).code == "ERR_PERMISSION_DENIED"


def test_a_command_that_takes_too_long_ends_with_all_its_children(workspace: Path) -> None:
    """The child holds one end of a pipe: end of file on the other end means that the child is gone."""
    os.mkfifo(workspace / "alive")
    reader = os.open(workspace / "alive", os.O_RDONLY | os.O_NONBLOCK)
    command = "(echo up; sleep 1000) > alive & sleep 1000"
    for limit_ms in (300, 3_000, 30_000):  # on a busy machine it may end before the child is there
        assert run(workspace, "sh", "-c", command, timeout_ms=limit_ms).code == "ERR_TIMEOUT"
        os.set_blocking(reader, True)
        if said := os.read(reader, 100):
            break
    assert said == b"up\n"
    assert os.read(reader, 100) == b""
    os.close(reader)


def test_output_is_bounded(workspace: Path) -> None:
    assert run(workspace, "yes", max_bytes=10_000).code == "ERR_STORAGE_QUOTA_EXCEEDED"
    assert run(workspace, "printf", "12345", max_bytes=5).output["stdout"] == "12345"


def test_output_that_is_no_text_comes_as_base64(workspace: Path) -> None:
    assert run(workspace, "printf", "\\377").output == {
        "exit_code": 0, "stdout": "/w==", "stderr": "", "encoding": "base64"
    }  # fmt: skip


def test_what_no_process_can_be_given_is_refused(workspace: Path) -> None:
    assert run(workspace, "echo", "a\0b").code == "ERR_VALIDATION_FAILED"
    assert run(workspace, "echo", env={"A=B": "c"}).code == "ERR_VALIDATION_FAILED"
    assert run(workspace, "true", rules={"alow": True}).code == "ERR_VALIDATION_FAILED"
    assert run(workspace, "true", rules={"confine": "maybe"}).code == "ERR_VALIDATION_FAILED"


def test_a_refusal_by_the_limiter_runs_nothing(workspace: Path) -> None:
    context = {
        "workspace": str(workspace),
        "shell": {"allow": True, "confine": "off"},
        "rate_limits": {"skills": {"shell": {"per_second": 0.001}}},
    }
    limiter = Limiter()
    codes = [call(shell, {"argv": ["true"]}, context=context, services={"limiter": limiter}).code for _ in range(2)]
    assert codes == ["OK", "ERR_RATE_LIMIT_INTERNAL"]


def test_more_can_be_made_readable_by_the_plan(workspace: Path) -> None:
    outside = workspace.parent / "outside.txt"
    called = run(workspace, "cat", str(outside), rules={"readable": [str(outside)]})
    assert called.output["stdout"] == "secret"


def test_a_signal_counts_as_128_and_its_number(workspace: Path) -> None:
    for confine in ("best-effort", "off"):
        called = run(workspace, "sh", "-c", "kill -9 $$", check=False, rules={"confine": confine})
        assert called.output["exit_code"] == 137, confine


def test_what_a_command_leaves_in_the_background_ends_with_it(workspace: Path) -> None:
    """Nobody waits for it, though it holds the output open."""
    called = run(workspace, "sh", "-c", "sleep 1000 & echo done", timeout_ms=60_000)
    assert called.output["stdout"] == "done\n"


def test_the_command_gets_ordinary_signals(workspace: Path) -> None:
    """Python ignores SIGPIPE, and a program inherits what is ignored: `yes` would say that its pipe is broken."""
    called = run(workspace, "sh", "-c", "yes | head -n 1")
    assert called.output == {"exit_code": 0, "stdout": "y\n", "stderr": "", "encoding": "text"}


def test_the_version_before_is_kept_for_plans_that_pin_it(workspace: Path) -> None:
    context = {"workspace": str(workspace), "shell": {"allow": True, "confine": "best-effort"}}
    assert call(shell_1_0, {"argv": ["echo", "old"]}, context=context).output["stdout"] == "old\n"
