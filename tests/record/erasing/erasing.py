"""A store with something in it that shall go, and a look at what is left of it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from reenact import SkillContext, skill
from reenact.record.erase import erase
from reenact.store.base import Store
from reenact.verify.report import Report
from reenact.verify.verifier import verify_bundle
from tests.engines.places import ask, opened, raw_of
from tests.runtime.running import Bench

GOING = "Jane Doe, Elm Street 7"
STAYING = "the weather is fine"


@skill("echo", version="1.0.0", tool_class="read", idempotent=True)
def echo(text: Any, fail: bool = False) -> Any:
    if fail:
        raise ValueError(f"cannot do {text}")
    return {"said": text}


@skill("write", version="1.0.0", tool_class="write")
def write(text: Any) -> Any:
    return {"wrote": text}


@skill("lose_the_lease", version="1.0.0", tool_class="write", honours_key=True)
def lose_the_lease(ctx: SkillContext, store: str, text: str) -> dict[str, str]:
    """While it works another executor takes the run over."""
    ask(store, f"UPDATE runs SET token = token + 1, owner = NULL, expires_ms = 0 WHERE run_id = '{ctx.run_id}'")
    return {"late": text}


def erased(bench: Bench, run_id: str, step_id: str | None = None) -> int:
    return erase(bench.store, run_id, step_id, who="privacy@example.com", reason="request 42")


def bytes_of(folder: Path) -> bytes:
    """Everything that lies in the folder: the database, its log, exports; or in the database that stands for it."""
    files = (path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    return b"".join((raw_of(folder / "store.db"), *files))


def values_of(path: str) -> bytes:
    """The same with every packed cell unpacked."""
    with closing(opened(path)) as store:
        found = [body for row in store.runs() for body in store.bodies(row.run_id, unchecked=True)]
        found += [envelope for row in store.runs() for _, envelope in store.payloads(row.run_id)]
    plain = [*ask(path, "SELECT body FROM late_effects"), *ask(path, "SELECT cancel FROM runs WHERE cancel <> ''")]
    return b"".join((*found, *(cell if isinstance(cell, bytes) else str(cell).encode() for (cell,) in plain)))


def is_there(bench: Bench, text: str = GOING) -> bool:
    folder = Path(bench.path).parent
    return text.encode() in bytes_of(folder) or text.encode() in values_of(bench.path)


def verified(folder: Path) -> Report:
    report = verify_bundle(folder)
    assert report.integrity == "holds", report.first_break
    return report


def records(store: Store) -> list[dict[str, Any]]:
    return [json.loads(record) for record in store.erasures()]
