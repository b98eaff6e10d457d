"""A plan gives itself a shell, takes its confinement off, or lets it read what is not its business."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime
from reenact.errors import BeyondPolicy, PlanError
from tests.attacks.strangers import refused
from tests.cli.harness import Command
from tests.runtime.running import plan, step

TOUCH = {"skill_id": "shell", "parameters": {"argv": ["touch", "made"]}}
SHELL = "[shell]\nallow = true\n"


@pytest.mark.parametrize("shell", [{"allow": True}, {"allow": True, "confine": "off"}])
def test_by_asking_for_a_shell(tmp_path: Path, shell: dict[str, Any]) -> None:
    """A plan's own word switched it on, and its confinement off."""
    reader = Command(tmp_path)
    file = reader.plan(TOUCH, workspace=".", shell=shell)
    for command in ("run", "simulate"):
        refused(reader(command, file), "$.context.shell.allow", "shell.allow")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ({"confine": "off"}, "$.context.shell.confine"),
        ({"readable": ["/home"]}, "$.context.shell.readable[0]"),
        ({"workspace": "/"}, "$.context.shell.workspace"),
    ],
)
def test_by_going_further_than_a_host_that_allows_one(tmp_path: Path, shell: dict[str, Any], place: str) -> None:
    """What a host allows stays confined, in its folders."""
    reader = Command(tmp_path)
    (tmp_path / "policy.toml").write_text(SHELL)
    file = reader.plan(TOUCH, workspace=".", shell={"allow": True, **shell})
    refused(reader("run", file, "--host-policy", "policy.toml"), place)
    assert not (tmp_path / "made").exists()


def test_by_a_command_that_the_host_does_not_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of a plan are those of both."""
    monkeypatch.chdir(tmp_path)
    runtime = Runtime("store.db", policy={"shell": {"allow": True, "commands": ["true"]}})
    for asked in ({}, {"commands": ["touch", "true"]}):
        document = plan(step("shell", TOUCH["parameters"]), workspace=".", shell={"allow": True, **asked})
        (outcome,) = runtime.run(document).outcomes
        assert outcome.code in ("ERR_PERMISSION_DENIED", "ERR_SKILL_DISABLED"), outcome
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("workspace", ["/", "..", "/etc", "out", "~"])
def test_by_another_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workspace: str) -> None:
    """A plan chose any folder of the machine; a link inside leads nowhere else."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "out").symlink_to(tmp_path)
    (tmp_path / "secret.txt").write_text("not his")
    monkeypatch.chdir(inside)
    document = plan(step("file_read", {"path": "secret.txt"}), workspace=workspace)
    if workspace == "~":  # a folder of that name in the current one
        (outcome,) = Runtime("store.db").run(document).outcomes
        assert not outcome.ok
        return
    with pytest.raises(BeyondPolicy, match=r"\$\.context\.workspace: .* is in no folder that this host gives plans"):
        Runtime("store.db").run(document)
    assert issubclass(BeyondPolicy, PlanError)


def test_by_a_resumed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was begun where more was allowed goes no further where less is."""
    monkeypatch.chdir(tmp_path)
    allowed = {"shell": {"allow": True}}
    document = plan(
        step("file_write", {"path": "a", "content": "1"}), workspace=".", supervisor="ask", shell=allowed["shell"]
    )
    began = Runtime("store.db", policy=allowed).run(document)
    assert began.status == "waiting"
    (waiting,) = Runtime("store.db").recover()
    assert waiting.status == "waiting", "nobody has answered: it is not opened"
    held = Runtime("store.db").resume(began.run_id)
    assert held.status == "held"
    assert "shell.allow" in str(held.reason)
    assert not (tmp_path / "a").exists()
    assert Runtime("store.db", policy=allowed).resume(began.run_id).status == "waiting"
