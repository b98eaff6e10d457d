"""What a session keeps when it goes on as another run, or with a changed skill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import WaitingForPerson
from reenact.record.reader import RunReader
from reenact.store.checks.verification import verify_run
from tests.engines.places import store_at
from tests.runtime.session.answering.programs import Stop

LOST = {"next": False}


@skill("buy", version="1.0.0", tool_class="write", in_doubt="hold", cost_estimate_cents=4)
def buy(what: str) -> str:
    if LOST.pop("next", False):
        raise ConnectionResetError(104, "cut off")
    return what


def runtime(path: Path, *skills: Any) -> Runtime:
    return Runtime(store_at(path / "store.db"), skills=skills or [buy])


@pytest.mark.parametrize("lost", [False, True], ids=["spent", "in doubt"])
def test_a_continuation_is_no_fresh_budget(tmp_path: Path, lost: bool) -> None:
    wanted: dict[str, Any] = {"id": "order-42", "budget_cents": 10, "on_divergence": "fork"}
    LOST["next"] = lost
    with pytest.raises(Stop), runtime(tmp_path).session(**wanted) as session:
        session.call("buy", {"what": "a"})
        raise Stop
    parent = runtime(tmp_path).store.find_run("order-42").run_id
    with runtime(tmp_path).session(**wanted, accept=["main:1"]) as session:
        codes = [session.call("buy", {"what": what}).code for what in ("b", "c")]
    assert session.run_id != parent
    assert codes == ["OK", "ERR_BUDGET_EXCEEDED"], "4 of 10 cents were spent before it went on"
    assert verify_run(store_at(tmp_path / "store.db"), session.run_id).exit_code == 0
    assert runtime(tmp_path).replay(session.run_id).verdict == "matched"


def sends(version: str, **declared: Any) -> Any:
    @skill("send", version=version, tool_class="write", **declared)
    def send(to: str) -> str:
        if LOST.pop("next", False):
            raise Stop
        return f"sent to {to}"

    return send


def test_a_session_goes_on_with_a_changed_skill_where_its_host_accepts_it(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    with pytest.raises(Stop), Runtime(store_at(store), skills=[sends("1.0.0")]).session(id="order-42") as session:
        left_open(session)
    changed = sends("1.0.0", timeout_ms=1234)
    refused = pytest.raises(WaitingForPerson, match="accept-changed send")
    with refused, Runtime(store_at(store), skills=[changed]).session(id="order-42") as session:
        session.call("send", {"to": "kim"})
    with Runtime(store_at(store), skills=[changed]).session(id="order-42", accept_changed=["send"]) as session:
        assert session.call("send", {"to": "kim"}).output == "sent to kim"
    reader = RunReader(Runtime(store_at(store)).store, session.run_id)
    list(reader.steps())
    accepted = [event for event in reader.fold.events if event.type == "accept_changed"]
    assert len(accepted) == 1
    assert accepted[0].who
    assert verify_run(store_at(store), session.run_id).exit_code == 0


def left_open(session: Any) -> None:
    """A call that was sent, and whose process is gone before it is recorded."""
    from tests.replay.recording import Crash, armed

    with armed("after_dispatch", 1):
        try:
            session.call("send", {"to": "kim"})
        except Crash:
            raise Stop from None
