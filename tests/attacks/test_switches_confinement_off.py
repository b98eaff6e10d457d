"""A plan gives itself a shell, takes its confinement off, or lets it read what is not its business."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime
from reenact.builtin.sandbox import backends
from reenact.builtin.sandbox.running import DEFAULT_LIMITS, Job, run
from reenact.builtin.workspace import open_folder
from reenact.errors import BeyondPolicy, PlanError, SkillError
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


def test_by_a_command_that_is_called_nearly_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command `tool@1` was taken for a version of `tool`, as skills have them."""
    monkeypatch.chdir(tmp_path)
    command = tmp_path / "work" / "tool@1"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\ntouch made\n")
    command.chmod(0o755)
    runtime = Runtime("store/store.db", policy={"shell": {"allow": True, "commands": ["./tool"]}})
    shell = {"allow": True, "commands": ["./tool@1"]}
    (outcome,) = runtime.run(plan(step("shell", {"argv": ["./tool@1"]}), workspace="work", shell=shell)).outcomes
    assert outcome.code == "ERR_PERMISSION_DENIED"
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize(
    "after",
    [
        step("file_read", {"path": "secret.txt"}),
        step("file_write", {"path": "made", "content": "x"}),
        step("shell", {"argv": ["cat", "READABLE/secret.txt"]}),
    ],
)
def test_by_a_link_that_a_command_puts_where_the_workspace_was(tmp_path: Path, after: dict[str, Any]) -> None:
    """A plan is held to its folders when it begins; a command changes where their names lead."""
    given, outside = tmp_path / "given", tmp_path / "outside"
    (given / "inner").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.txt").write_text("not his")
    policy = {"workspaces": [str(given)], "shell": {"allow": True, "readable": [str(given)]}}
    readable = str(given / "inner")
    shell = {"allow": True, "workspace": str(given), "readable": [readable]}
    link = step("shell", {"argv": ["sh", "-c", f"rmdir inner && ln -s {outside} inner"]})
    if after["skill_id"] == "shell":
        after = step("shell", {"argv": ["cat", f"{readable}/secret.txt"]})
    runtime = Runtime(tmp_path / "store" / "store.db", policy=policy)
    made, refused_ = runtime.run(plan(link, after, workspace=str(given / "inner"), shell=shell)).outcomes
    assert made.ok, made
    assert refused_.code == "ERR_PERMISSION_DENIED", refused_
    assert not (outside / "made").exists()


def test_by_a_link_that_comes_between_the_look_and_the_command(tmp_path: Path) -> None:
    """The launcher goes to where the workspace was found, or starts nothing."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "workspace").symlink_to(tmp_path / "elsewhere")
    job = Job(["touch", "made"], tmp_path / "workspace", backends.found(), {}, DEFAULT_LIMITS)
    with pytest.raises(SkillError, match="the workspace leads elsewhere"):
        asyncio.run(run(job, b"", 30, 1000))
    assert not (tmp_path / "elsewhere" / "made").exists()


def test_by_a_link_on_the_way_to_the_workspace(tmp_path: Path) -> None:
    """The way is opened name by name, from the root on."""
    (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotADirectoryError), open_folder(tmp_path / "link" / "inner", []):
        pass
    with open_folder(tmp_path / "elsewhere" / "inner", ["new"], create=True) as folder:
        os.fsync(folder)
    assert (tmp_path / "elsewhere" / "inner" / "new").is_dir()


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
