"""A folder that was unpacked or cloned holds a `reenact.toml` of its own, which allows what its plan asks for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.strangers import NAME, OK, PLANTED, VALUE, refused, sending
from tests.builtin.servers import Server
from tests.cli.harness import Command

STEP = {"skill_id": "json_transform", "parameters": {"data": [2, 1], "operation": "sort"}}
WIDER = [
    ('secrets = ["*"]', "secrets"),
    (f'secrets = ["{NAME}"]', "secrets"),
    ("[shell]\nallow = true", "shell.allow"),
    ('[shell]\nconfine = "off"', "shell.confine"),
    ('workspaces = ["/"]', "workspaces"),
    ('workspaces = [".."]', "workspaces"),
    ('private_hosts = ["169.254.169.254"]', "private_hosts"),
    ('supervisors = ["*"]', "supervisors"),
    ('supervisors = ["evil:say_yes"]', "supervisors"),
]


@pytest.mark.parametrize(("text", "key"), WIDER)
def test_in_the_current_folder(tmp_path: Path, text: str, key: str) -> None:
    """Its reader owns every file in it: owner and mode tell nothing, so it may only narrow."""
    reader = Command(tmp_path)
    (tmp_path / "reenact.toml").write_text(text + "\n")
    refused(reader("run", reader.plan(STEP)), f"{key} allows more than", "may only narrow")
    refused(reader("policy"), "may only narrow")
    named = reader("policy", "--host-policy", "reenact.toml")
    assert named.code == 0, named.err


def test_and_gets_a_secret_with_it(tmp_path: Path) -> None:
    """With the file ignored or refused, nothing is sent; named by its reader, it holds."""
    with Server(OK) as server:
        reader = Command(tmp_path)
        (tmp_path / "reenact.toml").write_text(f'secrets = ["{NAME}"]\n')
        file = reader.plan(sending(server), allow_hosts=[server.name])
        assert reader("run", file, **PLANTED).code == 2
        assert server.requests == []
        assert reader("run", file, **PLANTED, REENACT_POLICY="reenact.toml").code == 0
        assert server.requests[0].headers["x-key"] == VALUE


def test_in_a_file_that_others_can_write(tmp_path: Path) -> None:
    """Whoever can write the policy is the host."""
    reader = Command(tmp_path)
    file = tmp_path / "policy.toml"
    file.write_text("[shell]\nallow = true\n")
    file.chmod(0o666)
    refused(reader("policy", "--host-policy", file), "others can write the policy", "chmod go-w")
    file.chmod(0o620)
    refused(reader("policy", "--host-policy", file), "others can write the policy")


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file away")
def test_in_a_file_of_another_user(tmp_path: Path) -> None:
    """In a folder such as /tmp anybody leaves one."""
    reader = Command(tmp_path)
    file = tmp_path / "reenact.toml"
    file.write_text('skills = ["json_transform"]\n')
    os.chown(file, 12345, 12345)
    refused(reader("policy"), "belongs to another user")


def test_what_narrows_is_used(tmp_path: Path) -> None:
    """In the current folder, and within the user's own."""
    reader = Command(tmp_path)
    own = tmp_path / "config" / "reenact" / "reenact.toml"
    own.parent.mkdir(parents=True)
    own.write_text('agents = ["an-agent"]\n[shell]\nallow = true\n')
    (tmp_path / "reenact.toml").write_text('skills = ["file_read"]\n[shell]\nallow = false\n')
    settings = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    shown = reader("policy", "--json", **settings).json
    assert (shown["plans"]["agents"], shown["plans"]["skills"]) == (["an-agent"], ["file_read"])
    assert shown["plans"]["shell.allow"] is False
    done = reader("run", reader.plan(STEP), **settings)
    assert (done.code, "ERR_PERMISSION_DENIED" in done.out) == (1, True)
    (tmp_path / "reenact.toml").write_text('agents = ["*"]\n')
    refused(reader("policy", **settings), "agents allows more than", str(own))
