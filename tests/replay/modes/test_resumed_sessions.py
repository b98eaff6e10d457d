"""A session that was interrupted goes on with what its duplicate gate knew, so that its replay decides alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import Runtime
from reenact.replay import replay
from tests.engines.places import store_at
from tests.runtime.session.conftest import World


def test_a_resumed_session_knows_the_calls_of_its_turn_and_replays_as_it_went(tmp_path: Path) -> None:
    world = World()
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=world.skills())
    with pytest.raises(ZeroDivisionError), runtime.session() as session:
        session.call("search", {"q": "before the turn"})
        session.turn()
        session.call("search", {"q": "x"})
        raise ZeroDivisionError
    with runtime.session(resume=session.run_id, duplicate_output=True) as again:
        repeated = again.call("search", {"q": "x"})
        codes = [repeated.code, again.call("search", {"q": "before the turn"}).code]
    assert codes == ["DENIED_DUPLICATE", "OK"]
    assert repeated.output == {"q": "x"}
    assert world.calls["search"] == 3
    result = replay(runtime, session.run_id)
    assert result.verdict == "matched", result.divergence
