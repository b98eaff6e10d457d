"""A plan names a `module:function`, and looking at the plan imports it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.strangers import MARKED, anew, mailed, refused
from tests.cli.harness import SKILLS, Command

STEP = {"skill_id": "json_transform", "parameters": {"data": [2, 1], "operation": "sort"}}


def here(folder: Path) -> dict[str, str]:
    """The stranger's module lies where the interpreter looks for modules, as in a folder that was unpacked."""
    (folder / "evil.py").write_text(MARKED)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize("command", ["simulate", "run", "pin"])
def test_by_a_plan_that_is_looked_at(tmp_path: Path, command: str) -> None:
    """`simulate` imported it to see that it is there, `run` before anything was asked."""
    reader, path = Command(tmp_path), here(tmp_path)
    file = reader.plan(STEP, supervisor="evil:say_yes")
    refused(anew(reader, command, file, **path), "$.context.supervisor", "evil:say_yes", "supervisors")
    assert not (tmp_path / "imported").exists()
    assert not reader.store.exists() or reader("ls", "--json").json == []
    trusted = anew(reader, command, file, "--trust-plan", **path)
    assert trusted.code == 0, trusted.err
    assert (tmp_path / "imported").exists() is (command != "pin")


@pytest.mark.parametrize(
    "arguments",
    [("replay",), ("replay", "--mode", "dry_run"), ("fork", "--at", "s0"), ("show",), ("verify",)],
)
def test_by_a_folder_that_is_looked_at(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A mock fork imported it, although all is served."""
    mail, path = mailed(tmp_path / "stranger", STEP, supervisor="evil:say_yes"), here(tmp_path)
    reader = Command(tmp_path)
    done = anew(reader, arguments[0], mail, *arguments[1:], **path)
    assert done.code == 0, (done.out, done.err)
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("command", ["simulate", "run", "pin"])
def test_by_a_module_that_is_called_nearly_so(tmp_path: Path, command: str) -> None:
    """`auto@evil:say_yes` was taken for a version of `auto`, as skills have them, and imported."""
    reader = Command(tmp_path)
    (tmp_path / "auto@evil.py").write_text(MARKED)
    file = reader.plan(STEP, supervisor="auto@evil:say_yes")
    refused(anew(reader, command, file, PYTHONPATH=str(tmp_path)), "$.context.supervisor", "supervisors")
    assert not (tmp_path / "imported").exists()


def test_by_a_policy_that_lists_others(tmp_path: Path) -> None:
    """What a policy lists is all that is loaded, also for a plan that is trusted."""
    reader, path = Command(tmp_path), here(tmp_path)
    (tmp_path / "policy.toml").write_text('supervisors = ["auto", "policies:small_sums"]\n')
    file = reader.plan(STEP, supervisor="evil:say_yes")
    for more in ((), ("--trust-plan",)):
        refused(
            anew(reader, "run", file, "--host-policy", "policy.toml", "--skills", SKILLS, *more, **path), "evil:say_yes"
        )
    assert not (tmp_path / "imported").exists()
