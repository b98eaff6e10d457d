"""A person's word about a call in doubt: how far it reaches, and what becomes of the call's key."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.journal import frontier
from reenact.record.state import load_fold
from reenact.runtime.gates import key as keys
from reenact.runtime.people import decisions as people
from reenact.store.checks.verification import verify_run
from reenact.values.clock import FixedClock
from tests.engines.places import opened, store_at
from tests.replay.recording import Crash, armed
from tests.runtime.running import ask_to_cancel, plan, step


class Desk:
    """A runtime whose one tool is held when in doubt, and the person beside it."""

    def __init__(self, folder: Path) -> None:
        self.sent = 0
        self.clock = FixedClock()
        self.path = folder / "store.db"

        @skill("pay", version="1.0.0", tool_class="write", in_doubt="hold")
        async def pay(ctx: SkillContext, n: int) -> str:
            self.sent += 1
            return f"paid {n}"

        @skill("look", version="1.0.0", tool_class="read")
        async def look(n: int) -> int:
            return n

        self.runtime = Runtime(opened(self.path, clock=self.clock), skills=[pay, look], clock=self.clock)
        self.plan = self.runtime.pinned(plan(step(pay, {"n": 1}, idempotency_key="order-1")))

    def crash(self, work: Any, point: str = "after_dispatch") -> None:
        with armed(point, 1), pytest.raises(Crash):
            work()
        self.clock.advance(60)

    def begin(self) -> str:
        """A run that died in its call; its id."""
        self.crash(lambda: self.runtime.run(self.plan))
        return self.runtime.store.find_run("last").run_id

    def say(self, run_id: str, resolution: people.Resolution, output: object = None) -> None:
        work = people.resolve(self.runtime, run_id, "s0", resolution, reason="looked", output=output)
        asyncio.run(work)

    def check(self, run_id: str) -> None:
        verified = verify_run(store_at(self.path), run_id)
        assert verified.exit_code == 0, (verified.report.first_break, verified.differences)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(keys, "IN_FLIGHT_WAIT_S", 0.05)
    return Desk(tmp_path)


def test_the_word_to_send_again_is_about_one_dispatch(desk: Desk) -> None:
    run_id = desk.begin()
    assert desk.runtime.resume(run_id).status == "held"
    desk.say(run_id, "redispatch")
    desk.crash(lambda: desk.runtime.resume(run_id))
    assert desk.sent == 2
    assert desk.runtime.resume(run_id).status == "held", "nobody has spoken about the second dispatch"
    desk.say(run_id, "redispatch")
    assert desk.runtime.resume(run_id).status == "completed"
    assert desk.sent == 3
    desk.check(run_id)


def test_the_word_to_send_again_still_counts_when_nothing_was_sent_after_it(desk: Desk) -> None:
    run_id = desk.begin()
    desk.say(run_id, "redispatch")
    desk.crash(lambda: desk.runtime.resume(run_id), "before_redispatch_record")
    assert desk.runtime.resume(run_id).status == "completed"
    assert desk.sent == 2


def test_the_word_to_send_again_is_known_beyond_a_run_checkpoint(desk: Desk) -> None:
    """A session's other calls go on beside the one in doubt, and leave a checkpoint."""
    run_id = desk.begin()
    desk.say(run_id, "redispatch")
    fold = load_fold(desk.runtime.store, run_id).fold
    (trace_id,) = fold.open
    assert fold.freed == {trace_id: 0}
    assert frontier.unpack(run_id, frontier.pack(fold))[0].freed == {trace_id: 0}


def test_a_key_is_used_up_when_a_person_says_that_its_call_succeeded(desk: Desk) -> None:
    first = desk.begin()
    desk.say(first, "succeeded", "paid, I saw it")
    assert desk.runtime.resume(first).status == "completed"
    second = desk.runtime.run(desk.plan)
    assert (second.status, second.outcomes[0].output, desk.sent) == ("completed", "paid, I saw it", 1)
    for run_id in (first, second.run_id):
        desk.check(run_id)


def test_a_key_is_free_again_when_a_person_says_that_its_call_failed(desk: Desk) -> None:
    first = desk.begin()
    desk.say(first, "failed")
    assert desk.runtime.resume(first).status == "failed"
    assert desk.runtime.run(desk.plan).status == "completed"
    assert desk.sent == 2
    desk.check(first)


def test_a_key_is_in_doubt_when_its_run_is_cancelled_over_an_open_call(desk: Desk) -> None:
    first = desk.begin()
    asyncio.run(people.cancel(desk.runtime, first, reason="enough"))
    desk.check(first)
    second = desk.runtime.run(desk.plan)
    assert (second.status, desk.sent) == ("held", 1)
    desk.say(second.run_id, "redispatch")
    assert desk.runtime.resume(second.run_id).status == "completed"
    assert desk.sent == 2
    for run_id in (first, second.run_id):
        desk.check(run_id)


def test_a_key_is_in_doubt_when_a_cancelled_run_is_recovered_to_its_end(desk: Desk) -> None:
    """Whoever recovers it finds the request, and seals it over the call that is open."""
    first = desk.begin()
    ask_to_cancel(desk.runtime.store, first)
    assert desk.runtime.resume(first).status == "cancelled"
    desk.check(first)
    assert desk.runtime.run(desk.plan).status == "held"
    assert desk.sent == 1


def test_a_call_that_is_cancelled_before_it_is_sent_leaves_its_key_free(desk: Desk) -> None:
    """The request comes while the call is made durable: nothing was sent, so nothing is in doubt."""
    real, run_ids = desk.runtime.store.append, []

    def append(unit: Any, lease: Any, **options: Any) -> Any:
        if unit.reservations:
            run_ids.append(unit.run_id)
            ask_to_cancel(desk.runtime.store, unit.run_id)
        return real(unit, lease, **options)

    desk.runtime.store.append = append  # type: ignore[method-assign]
    assert desk.runtime.run(desk.plan).status == "cancelled"
    desk.runtime.store.append = real  # type: ignore[method-assign]
    assert desk.sent == 0
    desk.check(run_ids[0])
    assert desk.runtime.run(desk.plan).status == "completed"
    desk.check(run_ids[0])
