"""The reference says what the commands are, and no more."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import typer

from reenact.cli.main import COMMANDS

OURS = ("run", "resume", "recover", "ls", "show", "export", "verify", "pin", "demo")


def page(root: Path) -> str:
    return (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def module_of(name: str) -> ModuleType:
    return import_module(f"reenact.cli.{COMMANDS[name][0]}")


def test_every_command_has_its_function() -> None:
    assert [name for name in COMMANDS if not callable(getattr(module_of(name), name.replace("-", "_"), None))] == []


def test_every_command_stands_in_the_reference(root: Path) -> None:
    text = page(root)
    told = set(re.findall(r"^## `([a-z-]+)", text, re.MULTILINE))
    told |= set(re.findall(r"`([a-z-]+)`", text.partition("## The other commands")[2]))
    assert told == set(COMMANDS)


def test_every_option_that_a_section_names_exists_and_every_option_is_named(root: Path) -> None:
    text = page(root)
    common = set(re.findall(r"--[a-z]+(?:-[a-z]+)*", text.partition("### Exit codes")[0]))
    for name in OURS:
        section = re.search(rf"^## `{name}\b.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
        assert section is not None, name
        app = typer.Typer()
        app.command()(getattr(module_of(name), name))
        options = {
            option
            for parameter in typer.main.get_command(app).params
            for option in parameter.opts
            if option[:2] == "--"
        }
        told = set(re.findall(r"--[a-z]+(?:-[a-z]+)*", re.sub(r"```.*?```", "", section[0], flags=re.DOTALL)))
        assert told <= options, name
        missing = options - told - common - {"--install-completion", "--show-completion", "--output"}
        assert missing == set(), name


def test_every_command_says_its_exit_codes(root: Path) -> None:
    for name in OURS:
        text = getattr(module_of(name), name).__doc__
        assert "Exit codes:" in text, name
