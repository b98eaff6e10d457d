"""A skill does what its agent may not, and has not said so in its declaration."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from reenact import SkillContext, SkillError, skill
from tests.runtime.running import Bench, outcome_of, step

SENT: list[str] = []
PROFILE = {"disallowed_side_effects": ["email_sent"]}


@skill("quiet", version="1.0.0", tool_class="read", retry={"max_retries": 2})
def quiet(ctx: SkillContext, to: str) -> str:
    """Declares nothing."""
    ctx.side_effect("http_request", "example.com")
    ctx.side_effect("email_sent", to)
    SENT.append(to)
    return "sent"


@skill("stubborn", version="1.0.0", tool_class="read")
def stubborn(ctx: SkillContext, to: str) -> str:
    """Does not care what it is told."""
    with contextlib.suppress(SkillError):
        ctx.side_effect("email_sent", to)
    return "sent all the same"


@skill("apart", version="1.0.0", tool_class="read", isolation="process")
def apart(ctx: SkillContext, file: str) -> str:
    """In a process of its own."""
    ctx.side_effect("email_sent", "kim")
    Path(file).touch()
    return "sent"


def test_it_is_stopped_before(tmp_path: Path) -> None:
    """It was only recorded."""
    SENT.clear()
    bench = Bench(tmp_path, quiet)
    refused = bench.run(step(quiet, {"to": "kim"}), profile=PROFILE)
    outcome = outcome_of(refused)
    assert (outcome.code, outcome.retryable, SENT) == ("ERR_PERMISSION_DENIED", False, [])
    assert outcome.details is not None
    assert outcome.details["side_effect"] == "email_sent"
    assert [effect.type for effect in outcome.side_effects] == ["http_request"]
    bench.check(refused)
    assert bench.runtime.replay(refused.run_id).verdict == "matched"
    assert bench.run(step(quiet, {"to": "kim"})).status == "completed"
    assert SENT == ["kim"]


@pytest.mark.parametrize("policy", [None, {"disallowed_side_effects": ["email_sent"]}])
def test_one_that_goes_on_has_failed(tmp_path: Path, policy: dict[str, list[str]] | None) -> None:
    """What it does after that cannot be stopped; that it is a success is not said."""
    bench = Bench(tmp_path, stubborn, policy=policy)
    context: dict[str, object] = {} if policy else {"profile": PROFILE}
    result = bench.run(step(stubborn, {"to": "kim"}), **context)
    assert outcome_of(result).code == "ERR_PERMISSION_DENIED"
    with bench.runtime.session(context=context) as session:
        assert session.call("stubborn", {"to": "kim"}).code == "ERR_PERMISSION_DENIED"
    bench.check(session.run_id)


def test_in_a_process_of_its_own_too(tmp_path: Path) -> None:
    """The child is told of the profile with its context."""
    file = tmp_path / "touched"
    result = Bench(tmp_path, apart).run(step(apart, {"file": str(file)}), profile=PROFILE)
    assert (outcome_of(result).code, file.exists()) == ("ERR_PERMISSION_DENIED", False)
