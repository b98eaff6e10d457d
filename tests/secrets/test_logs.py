"""What HTTP libraries log inside a skill stays out of the host's log; what they log for the host does not."""

from __future__ import annotations

import importlib
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.builtin.net.quiet import TALKATIVE, quiet
from tests.builtin.servers import Server, answer
from tests.builtin.test_llm_invoke import gpt_completion
from tests.runtime.running import Bench, outcome_of, step
from tests.secrets.planting import BY_REFERENCE, leaks, leaks_in_files


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that any logger says, at the lowest level."""
    written = io.StringIO()
    handler, root = logging.StreamHandler(written), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.setLevel(level)
    root.removeHandler(handler)


def test_a_model_is_asked_without_a_word_in_the_log(tmp_path: Path, log: io.StringIO) -> None:
    importlib.import_module("openai")
    said = gpt_completion(choices=[
        {"index": 0, "message": {"role": "assistant", "content": BY_REFERENCE["EXCEPTION"]}, "finish_reason": "stop"}
    ])  # fmt: skip
    headers = {"content-type": "application/json", "set-cookie": "session=ck0-Tk0n-31337"}
    bench = Bench(tmp_path, secrets=BY_REFERENCE)
    with Server(answer(200, json.dumps(said).encode(), headers=headers)) as server:
        parameters = {
            "model": "gpt-4o", "base_url": f"{server.url}/v1", "prompt": {"$secret": "BODY_TOKEN"},
            "api_key": {"$secret": "HEADER_TOKEN"},
        }  # fmt: skip
        outcome = outcome_of(bench.run(step("llm_invoke", parameters), allow_hosts=[server.name]))
    assert outcome.ok, outcome
    assert server.requests[0].headers["authorization"] == f"Bearer {BY_REFERENCE['HEADER_TOKEN']}"
    assert leaks("the log", log.getvalue().encode()) == []
    assert leaks_in_files(tmp_path) == []


def test_only_what_is_said_inside_an_exchange_and_below_a_warning_is_dropped(log: io.StringIO) -> None:
    for name in TALKATIVE:
        logger = logging.getLogger(name)
        logger.info("before %s", name)
        with quiet():
            logger.info("inside %s", name)
            logger.warning("warning %s", name)
        logger.info("after %s", name)
    lines = log.getvalue().splitlines()
    assert [line for line in lines if line.startswith("inside")] == []
    assert len(lines) == 3 * len(TALKATIVE)
