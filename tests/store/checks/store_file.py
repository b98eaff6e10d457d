"""A store file with runs of every kind, and what somebody with write access could do to it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from reenact.record.erase import erase
from reenact.replay.runtime import Runtime
from reenact.runtime import crash_points
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.skills.registry import Registry
from reenact.store.compression import Codec
from tests.engines.places import ask, opened, store_at
from tests.store.copies import copy_store

COMMIT_BITS = 24
EVIDENCE = ("commits", "payloads", "erasures", "keys")


@skill("talk", version="1.0.0", tool_class="read", retry={"backoff_base_ms": 1}, cost_estimate_cents=1)
def talk(ctx: SkillContext, text: str, failures: int = 0) -> dict[str, str]:
    """Says something, at the second or third try."""
    if ctx.attempt < failures:
        raise TimeoutError("not yet")
    ctx.side_effect("speech", text[:8])
    return {"said": text * 40}


REGISTRY = Registry([talk])
PLAN: dict[str, object] = {
    "plan_id": "a-plan",
    "agent_id": "an-agent",
    "steps": [
        {"step_id": "first", "skill_id": "talk", "parameters": {"text": "good morning", "failures": 2}},
        {"step_id": "keyed", "skill_id": "talk", "parameters": {"text": "good day"}, "idempotency_key": "key-1"},
        {"step_id": "again", "skill_id": "talk", "parameters": {"text": "good morning"}},
        {"step_id": "refused", "skill_id": "talk", "parameters": {"text": 7}, "on_error": "continue"},
    ],
}


class StoreFile:
    """A file with four runs: `first` and `second` are sealed, `killed` is not, `last` is sealed; of `second`
    one step's values were erased."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.first = run_plan(path)
        self.second = run_plan(path)
        self.killed = kill_plan(path, "before_seal")
        self.last = run_plan(path)
        self.erased = erase_step(path, self.second, "keyed")

    def copy(self, to: Path) -> Path:
        return copy_store(self.path, to)

    def number(self, run_id: str) -> int:
        return int(ask(self.path, f"SELECT run_no FROM runs WHERE run_id = '{run_id}'")[0][0])


def run_plan(path: Path) -> str:
    runtime = Runtime(store_at(path), skills=REGISTRY)
    try:
        result = runtime.run(PLAN)
    finally:
        runtime.close()
    assert result.status == "completed"
    return result.run_id


def kill_plan(path: Path, crash_point: str, plan: dict[str, object] = PLAN, skills: Registry = REGISTRY) -> str:
    """A run in a forked process that kills itself; the id of the run that it leaves."""
    child = os.fork()
    if child == 0:
        crash_points.arm(crash_point)
        try:
            Runtime(store_at(path), skills=skills).run(plan)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    return str(ask(path, "SELECT run_id FROM runs ORDER BY run_no DESC LIMIT 1")[0][0])


def erase_step(path: Path, run_id: str, step_id: str) -> int:
    store = opened(path)
    try:
        return erase(store, run_id, step_id, who="a person", reason="asked for")
    finally:
        store.close()


def query(path: Path, sql: str, parameters: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    db = sqlite3.connect(path)
    try:
        return db.execute(sql, parameters).fetchall()
    finally:
        db.close()


def tamper(path: Path, *changes: tuple[str, tuple[object, ...]]) -> None:
    """Change rows as somebody would who knows how: guards off, changes, guards on again."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")  # a copy that is thrown away need not survive a power cut
    guards = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        db.execute(f"DROP TRIGGER {name}")
    db.execute("BEGIN")
    for sql, parameters in changes:
        db.execute(sql, parameters)
    db.execute("COMMIT")
    for _, sql in guards:
        db.execute(sql)
    db.close()


def rewrite(path: Path, commit_id: int, change: Callable[[bytes], bytes]) -> tuple[str, tuple[object, ...]]:
    """The change that puts another body into a commit, packed as the store packs it."""
    codec = Codec()
    stored = query(path, "SELECT body FROM commits WHERE id = ?", (commit_id,))[0][0]
    assert isinstance(stored, bytes)
    return "UPDATE commits SET body = ? WHERE id = ?", (codec.pack_body(change(codec.unpack(stored))), commit_id)
