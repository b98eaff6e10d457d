"""Why somebody erased, archived or replaced something stands in a record that nobody can change: never a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.errors import UsageError
from reenact.record.archive.moving import move
from reenact.record.erase import erase
from reenact.runtime.people.votes import whoami
from reenact.store.erasures import for_good
from reenact.store.keys.keeping import replace_key, rotate_key
from tests.cli.harness import Command
from tests.runtime.running import Bench, step

LEAKED = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def test_the_reason_of_an_erasure_is_often_the_secret_that_leaked(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    data = {"operation": "extract", "data": {"a": "a value that is kept"}, "path": "a"}
    result = bench.run(step("json_transform", data, step_id="one"), step("json_transform", data, step_id="two"))
    erase(bench.store, result.run_id, "one", who="ann", reason=f"she pasted {LEAKED} here")
    move(bench.store, result.run_id, tmp_path / "moved", who="ann", reason=f"it may hold {LEAKED}")
    said = b"".join(bench.store.erasures())
    assert b'"she pasted [redacted] here"' in said
    assert b'"it may hold [redacted]"' in said
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or LEAKED.encode() not in file.read_bytes(), file


def test_of_a_key_that_is_replaced_too() -> None:
    assert for_good("ann", f"it stood beside {LEAKED}") == "it stood beside [redacted]"


def test_who_says_so_is_no_secret(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for act in (
        lambda: whoami(LEAKED),
        lambda: erase(bench.store, "any", None, who=LEAKED, reason="r"),
        lambda: rotate_key(bench.store, who=LEAKED),
        lambda: replace_key(bench.store, who=LEAKED, reason="r"),
    ):
        with pytest.raises(UsageError, match="looks like a secret"):
            act()
    assert whoami("ann@example.org") == "ann@example.org"


def test_the_command_says_so(reenact: Command) -> None:
    done = reenact("erase", "last", "--yes", "--who", LEAKED, "--reason", "r")
    assert done.code != 0
    assert LEAKED not in done.out + done.err
