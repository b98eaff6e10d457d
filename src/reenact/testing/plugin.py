"""The pytest plugin: the fixture `recorded`, and the option that allows recording.

It is loaded with every pytest of an environment that has Reenact, so it imports nothing before a test asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from reenact.replay.result import ReplayResult
    from reenact.testing.recordings import Recordings, RecordMode

FOLDER = "recordings"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reenact", "recorded runs of Reenact")
    group.addoption(
        "--reenact-record",
        choices=("none", "missing", "all"),
        default="none",
        help="Whether tests may record runs: none (the default, replay only), missing, or all anew.",
    )
    parser.addini("reenact_recordings", "Folder of recordings, beside each test file.", default=FOLDER)


@pytest.fixture
def recordings(request: pytest.FixtureRequest) -> Recordings:
    """The recordings beside the test, and whether this run of the tests may make new ones."""
    from reenact.testing.recordings import Recordings

    folder = Path(request.path).parent / str(request.config.getini("reenact_recordings"))
    return Recordings(folder, cast("RecordMode", request.config.getoption("--reenact-record")))


@pytest.fixture
def recorded(request: pytest.FixtureRequest, recordings: Recordings) -> Iterator[Callable[..., ReplayResult]]:
    """`recorded(plan, skills=[…])` replays the recording of this test. The network is shut unless it may record.

    The recording is named after the test; `name=` names another one, for tests with several or for sharing.
    """
    from reenact.testing.network import shut_network

    own_name = re.sub(r"[^A-Za-z0-9_.-]+", "_", request.node.name)

    def run(plan: dict[str, object], *, name: str | None = None, **options: object) -> ReplayResult:
        return recordings.run(name or own_name, plan, **options)  # type: ignore[arg-type]  # checked there

    if recordings.mode != "none":
        yield run
        return
    with shut_network():
        yield run
