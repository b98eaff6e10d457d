"""Escape sequences, bidi and zero-width characters out of a plan, a tool or a store reach no terminal."""

from __future__ import annotations

import ast
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import reenact
from reenact.cli.main import COMMANDS
from reenact.cli.screens.printing import one_line
from tests.cli.harness import Command

SRC = Path(reenact.__file__).parent
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u200b\u2066\x08\r"
"""Sets the title, clears the screen, colours (C1), turns the reading direction, hides, overwrites."""
SKILLS = """
from reenact import SkillContext, SkillError, skill

@skill("speak", version="1.0.0", tool_class="read")
def speak(ctx: SkillContext, text: str, fail: bool = False) -> dict:
    ctx.progress(text)
    if fail:
        raise SkillError.of("ERR_VALIDATION_FAILED", text, about=text)
    return {"said": text, text: 1}
"""
PRINTER = SRC / "cli" / "screens" / "printing.py"
EXEMPT = {
    SRC / "__main__.py": "says `interrupted` where nothing could be imported",
    SRC / "cli" / "demo" / "service.py": "tells its parent a port",
}


@pytest.fixture
def stuffed(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    (tmp_path / "speak.py").write_text(SKILLS, encoding="utf-8")
    steps = [
        {"step_id": "good", "skill_id": "speak", "parameters": {"text": EVIL}, "on_error": "continue"},
        {"step_id": "bad", "skill_id": "speak", "parameters": {"text": EVIL, "fail": True}},
    ]
    plan = {"plan_id": "p", "agent_id": "a", "goal": EVIL, "steps": steps}
    (tmp_path / "evil.json").write_text(json.dumps(plan), encoding="utf-8")
    for _ in range(2):
        done = command("run", "evil.json", "--skills", "speak.py")
        assert done.code == 1, done.err
        check_clean("run", done.out + done.err)
    return command


def check_clean(where: str, shown: str) -> None:
    raw = sorted({char for char in shown if not char.isprintable() and char != "\n"})
    assert not raw, f"{where}: {raw!r} in {shown!r}"


def test_no_command_prints_what_a_tool_or_a_plan_says_raw(stuffed: Command, tmp_path: Path) -> None:
    first, second = (run["run_id"] for run in stuffed("ls", "--json").json)
    assert stuffed("export", first, "--to", "bundle").code == 0
    for arguments in (
        ("ls",), ("ls", "--json"), ("show", first), ("show", first, "--values"), ("show", first, "--values", "--json"),
        ("show", "bundle"), ("show", "bundle", "--values"), ("diff", first, second), ("diff", first, second, "--json"),
        ("verify", first), ("verify", first, "--json"), ("verify", "bundle"), ("doctor",), ("doctor", "--json"),
        ("replay", first), ("replay", first, "--json"), ("metrics",), ("metrics", "--json"), ("recover",),
        ("simulate", "evil.json", "--skills", "speak.py"), ("simulate", "evil.json", "--skills", "speak.py", "--json"),
        ("pin", "evil.json", "--skills", "speak.py"), ("skills", "--skills", "speak.py"), ("show", EVIL),
        ("verify", EVIL), ("run", f"{EVIL}.json"), ("ls", "--status", EVIL), ("diff", EVIL, EVIL), (EVIL,),
        ("cancel", EVIL, "--reason", EVIL), ("resume", EVIL), ("erase", EVIL), ("skill", EVIL), ("export", EVIL),
        ("lint", f"{EVIL}.py"), ("hash", EVIL), ("approve", EVIL, EVIL), ("--store", EVIL),
    ):  # fmt: skip
        done = stuffed(*arguments)
        check_clean(" ".join(map(repr, arguments)), done.out + done.err)
        if "--json" in arguments and done.out:
            json.loads(done.out)


def test_nor_what_somebody_wrote_into_the_store(stuffed: Command, tmp_path: Path) -> None:
    """Names are checked where they are written; a store that came from elsewhere says what it likes."""
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            db.execute(f'DROP TRIGGER "{name}"')
        run_id = db.execute("SELECT run_id FROM runs").fetchone()[0]
        for column in ("plan_id", "agent_id", "started_at", "session"):
            db.execute(f"UPDATE runs SET {column} = ? WHERE run_id = ?", (f"x{EVIL}", run_id))
        db.execute(f"CREATE TABLE {json.dumps('t' + EVIL)} (x)")
    for arguments in (
        ("ls",),
        ("ls", "--json"),
        ("show", run_id),
        ("verify", run_id),
        ("doctor",),
        ("doctor", "--json"),
    ):
        done = stuffed(*arguments)
        check_clean(" ".join(arguments), done.out + done.err)


def test_the_demo_and_every_other_command_are_known_here() -> None:
    assert {"show", "ls", "diff", "doctor", "verify", "metrics", "replay"} <= COMMANDS.keys()


def test_what_is_escaped_is_told_in_one_line() -> None:
    assert one_line(EVIL).isprintable()
    assert "\\x1b" in one_line(EVIL)
    assert "\\u202e" in one_line(EVIL)


def prints(node: ast.AST) -> bool:
    """`print(…)`, `typer.echo`, `click.echo`, `rich.print`, `sys.stdout.write` and their like."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return name in ("print", "typer.echo", "typer.secho", "click.echo", "click.secho", "rich.print") or name.endswith(
        ("stdout.write", "stderr.write", "stdout.buffer.write", "stderr.buffer.write", "stdout.writelines")
    )


def test_only_the_printer_prints() -> None:
    places = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in sorted(SRC.rglob("*.py"))
        if path != PRINTER and path not in EXEMPT
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if prints(node) and isinstance(node, ast.Call)
    ]
    assert places == []
