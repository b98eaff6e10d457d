"""The plugin in test suites of its own: replay only by default, the network shut, recording when asked for."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import socket
import pytest
from reenact import skill

CALLS = []

@skill("quote", version="1.0.0", tool_class="read", side_effects=["http_request"])
async def quote(ctx, symbol: str) -> dict:
    CALLS.append(symbol)
    ctx.side_effect("http_request", "quotes.example")
    if ctx.attempt == 0:
        ctx.http_status(503)
    return {"symbol": symbol, "price": 42}

def plan(symbol="ABC"):
    return {"plan_id": "quotes", "agent_id": "tester", "goal": "a quote",
            "steps": [{"step_id": "ask", "skill_id": "quote", "parameters": {"symbol": symbol}}]}

def test_the_price(recorded):
    result = recorded(plan(), skills=[quote])
    assert result.get_step("ask").outcome.output == {"symbol": "ABC", "price": 42}
    assert result.retry_count == 1
"""


def plugin_arguments() -> list[str]:
    """The plugin is found by its entry point once the package is installed with it."""
    installed = any(point.value == "reenact.testing.plugin" for point in entry_points(group="pytest11"))
    return ["-p", "no:cacheprovider"] if installed else ["-p", "no:cacheprovider", "-p", "reenact.testing.plugin"]


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*plugin_arguments(), *arguments)


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_quotes=SUITE)
    return pytester


def test_without_a_recording_a_test_fails_and_says_how_to_make_one(suite: pytest.Pytester) -> None:
    result = run(suite)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*there is no recording *test_the_price; make it with: pytest --reenact-record=missing*"]
    )
    assert not (suite.path / "recordings").exists()


def test_a_recording_is_made_once_and_replayed_ever_after(suite: pytest.Pytester) -> None:
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    manifest = suite.path / "recordings" / "test_the_price" / "manifest.json"
    first = manifest.read_bytes()

    run(suite).assert_outcomes(passed=1)
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    assert manifest.read_bytes() == first


def test_replaying_calls_no_skill(suite: pytest.Pytester) -> None:
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    broken = SUITE.replace("CALLS.append(symbol)", 'raise AssertionError("called")')
    suite.makepyfile(test_quotes=broken)

    run(suite).assert_outcomes(passed=1)


def test_all_records_anew(suite: pytest.Pytester) -> None:
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    manifest = suite.path / "recordings" / "test_the_price" / "manifest.json"
    first = manifest.read_bytes()

    run(suite, "--reenact-record=all").assert_outcomes(passed=1)
    assert manifest.read_bytes() != first


def test_a_changed_plan_is_told_and_nothing_is_overwritten(suite: pytest.Pytester) -> None:
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    suite.makepyfile(test_quotes=SUITE.replace('symbol="ABC"', 'symbol="XYZ"'))

    result = run(suite, "--reenact-record=missing")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*was recorded of another plan: *steps?0?.parameters*"])


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ('version="1.0.0"', 'version="1.1.0"', "quote: version 1.0.0 → 1.1.0"),
        ('tool_class="read"', 'tool_class="write"', "quote@1.0.0 declares something else now"),
    ],
)
def test_another_version_of_a_tool_fails_the_test(suite: pytest.Pytester, was: str, now: str, told: str) -> None:
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    suite.makepyfile(test_quotes=SUITE.replace(was, now))

    result = run(suite)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*was recorded with other tools: {told}; record it again*"])


def test_other_defaults_than_when_it_was_recorded_change_nothing(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    monkeypatch.setattr("reenact.runtime.plans.pinning.policy_to_dict", lambda _: {"max_retries": 0})

    run(suite).assert_outcomes(passed=1)


def test_a_damaged_recording_is_never_taken_for_an_absent_one(suite: pytest.Pytester) -> None:
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    journal = suite.path / "recordings" / "test_the_price" / "journal.jsonl"
    damaged = journal.read_bytes().replace(b'"ERR_HTTP_503"', b'"ERR_HTTP_502"', 1)
    journal.write_bytes(damaged)

    result = run(suite, "--reenact-record=missing")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*DamagedRecord*cannot be replayed*"])
    assert journal.read_bytes() == damaged


def test_the_network_is_shut_while_a_test_replays(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_network=SUITE
        + """
def test_nothing_leaves(recorded):
    with pytest.raises(OSError, match="the network is shut in this test"):
        socket.create_connection(("127.0.0.1", 9))
    with pytest.raises(OSError, match="looks up 'example.com'"):
        socket.getaddrinfo("example.com", 80)
"""
    )

    run(suite, "-k", "test_nothing_leaves").assert_outcomes(passed=1)


def test_another_folder_can_be_configured(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\nreenact_recordings = tapes")

    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    assert (suite.path / "tapes" / "test_the_price" / "seal.json").is_file()


def test_a_changed_policy_shows_as_another_behaviour(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    monkeypatch.setattr("reenact.runtime.call.retry.should_retry", lambda *_: False)

    result = run(suite)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the replay of *differed: step ask, after attempt 0: retry_count was tried again*"])


def test_recordings_hold_no_path_of_this_machine(suite: pytest.Pytester) -> None:
    run(suite, "--reenact-record=missing").assert_outcomes(passed=1)
    files = [path for path in (suite.path / "recordings").rglob("*") if path.is_file()]

    assert files
    assert not [path for path in files if str(Path.home()).encode() in path.read_bytes() and str(Path.home()) != "/"]
