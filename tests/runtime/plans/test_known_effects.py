"""What a step came to is recorded, whatever goes wrong with the step behind it; and threads may begin side by side."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reenact import Registry, Runtime, skill
from reenact.errors import SecretError
from reenact.runtime.plans import plan_run
from tests.engines.places import store_at

SENT: list[str] = []


@skill("mail", version="1.0.0", tool_class="write", idempotent=False)
def mail(to: str) -> str:
    SENT.append(to)
    return f"sent to {to}"


DOCUMENT = {
    "plan_id": "p", "agent_id": "a",
    "steps": [
        {"step_id": "one", "skill_id": "mail", "parameters": {"to": "kim"}},
        {"step_id": "two", "skill_id": "mail", "parameters": {"to": "{{one}}"}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("error", [SecretError("its key is readable by others"), LookupError("gone"), OSError("disk")])
def test_a_mail_is_sent_once_although_the_next_step_cannot_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    SENT.clear()
    whole = plan_run.next_call

    def broken(run: object, step: object) -> object:
        if getattr(step, "step_id", None) == "two":
            raise error
        return whole(run, step)  # type: ignore[arg-type]

    runtime = Runtime(store_at(tmp_path / "store.db"), skills=Registry([mail]))
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(plan_run, "next_call", broken)
            try:
                run_id = runtime.store.find_run("last").run_id if SENT else None
                result = runtime.run(DOCUMENT) if run_id is None else runtime.resume(run_id)
                assert result.status == "held"
            except type(error):
                pass
    assert SENT == ["kim"]
    assert runtime.resume(runtime.store.find_run("last").run_id).status == "completed"
    assert SENT == ["kim", "sent to kim"]


FIRST_PLANS = """
import os, threading
from reenact import Runtime
from reenact.contracts.plan import plan_from_document

document = {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "x", "skill_id": "y", "parameters": {}}]}

def read(together):
    together.wait()
    plan_from_document(dict(document))

for _ in range(60):
    child = os.fork()
    if child == 0:
        together = threading.Barrier(8)
        threads = [threading.Thread(target=read, args=(together,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_threads_that_read_their_first_plan_at_once_live() -> None:
    """msgspec builds a type when it is first used: threads that did so at once ended one process in twelve."""
    subprocess.run([sys.executable, "-c", FIRST_PLANS], check=True)
