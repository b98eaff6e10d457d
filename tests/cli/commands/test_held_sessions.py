"""A session that is held over a call in doubt: commands exit with 4, until a person has resolved it."""

from __future__ import annotations

import shlex
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
    run_id = reenact("ls", "--json", "--store", "store.db").json[0]["run_id"]
    say = f"`reenact resolve {run_id} main:1 --succeeded|--failed|--redispatch --reason '…' --store store.db`"
    for command in (("show", "order-42"), ("doctor",)):
        assert say in reenact(*command, "--store", "store.db").out, command
    for command in (("resume", "order-42"), ("recover",)):
        done = reenact(*command, *on)
        assert done.code == 4, (command, done.out, done.err)
        assert "Traceback" not in done.err
    resolved = reenact("resolve", "order-42", "main:1", "--succeeded", "--output", "{}", "--reason", "seen", *on)
    assert resolved.code == 0, resolved.err
    assert start() == "OK"
    assert reenact("verify", "order-42", "--store", "store.db").code == 0


def test_the_commands_that_a_waiting_session_prints_can_be_pasted(reenact: Command) -> None:
    waiting = PROGRAM.replace('id="order-42"', 'id="order-42", context={"supervisor": "ask"}')
    body = """        for cents in (5, 6):
            try:
                session.call("pay", {"cents": cents})
            except WaitingForPerson as person:
                print(person)
"""
    waiting = waiting.replace('        print(session.call("pay", {"cents": 5}).code)\n', body)
    (reenact.folder / "agent.py").write_text(f"from reenact.errors import WaitingForPerson\n{waiting}")
    done = subprocess.run(
        [sys.executable, "agent.py"], cwd=reenact.folder, env=environment(), capture_output=True, text=True, check=True
    )
    first = done.stdout.splitlines()[0].split("`")[1]
    assert first.endswith(f" main:1 --reason '…' --store sqlite:///{reenact.folder}/store.db")
    (following,) = [
        line for line in reenact("show", "last", "--store", "store.db").out.splitlines() if "next  " in line
    ]
    assert following.endswith("; so do main:2")
    assert reenact(*shlex.split(first)[1:]).code == 0
    again = reenact(*shlex.split(first)[1:])
    assert "voted on already; start its program again" in again.err
    deny = reenact("show", "last", "--store", "store.db").out.partition("next  ")[2].split("`")[3]
    assert reenact(*shlex.split(deny)[1:]).code == 0
