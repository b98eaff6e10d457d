"""A session that is held over a call in doubt: commands exit with 4, until a person has resolved it."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.harness import Command, environment

PROGRAM = """
from reenact import Runtime, skill

@skill("pay", version="1.0.0", tool_class="write", in_doubt="hold")
def pay(cents: int) -> dict:
    raise ConnectionResetError(104, "cut off")

if __name__ == "__main__":
    with Runtime("store.db", skills=[pay]).session(id="order-42") as session:
        print(session.call("pay", {"cents": 5}).code)
"""


def test_commands_exit_with_4_while_a_session_is_held(reenact: Command) -> None:
    (reenact.folder / "agent.py").write_text(PROGRAM)

    def start() -> str:
        done = subprocess.run(
            [sys.executable, "agent.py"],
            cwd=reenact.folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    on = ("--store", "store.db", "--skills", "agent.py")
    assert start() == "ERR_IN_DOUBT"
    for command in (("resume", "order-42"), ("recover",)):
        done = reenact(*command, *on)
        assert done.code == 4, (command, done.out, done.err)
        assert "Traceback" not in done.err
    resolved = reenact("resolve", "order-42", "main:1", "--succeeded", "--output", "{}", "--reason", "seen", *on)
    assert resolved.code == 0, resolved.err
    assert start() == "OK"
    assert reenact("verify", "order-42", "--store", "store.db").code == 0
