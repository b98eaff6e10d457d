"""A store is one store by whatever name it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.store.checks.verification import verify_run


@skill("nothing", version="1.0.0", tool_class="read")
def nothing() -> None:
    """Does it."""


PLAN = {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": "nothing"}]}


@pytest.mark.parametrize("made_by", ["its name", "a link"])
def test_a_store_has_one_key_whichever_link_leads_to_it(tmp_path: Path, made_by: str) -> None:
    (tmp_path / "real").mkdir()
    store, link = tmp_path / "real" / "agents.db", tmp_path / "link.db"
    link.symlink_to(store)
    names = [store, link] if made_by == "its name" else [link, store]
    for name in names:
        runtime = Runtime(f"sqlite:///{name}", skills=[nothing])
        run = runtime.run(PLAN)
        runtime.close()
        assert verify_run(str(store), run.run_id).exit_code == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_file() and not path.is_symlink()] == []
    assert [path.name for path in (tmp_path / "real").glob("*.key")] == ["agents.db.key"]
