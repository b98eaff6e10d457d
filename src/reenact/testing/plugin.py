"""The pytest plugin: the fixtures `recorded` and `recorded_session`, and the option that allows recording.

It is loaded with every pytest of an environment that has Reenact, so it imports nothing before a test asks for it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from reenact.replay.result import ReplayResult
    from reenact.testing.recordings import Recordings, RecordMode
    from reenact.testing.sessions import RecordedSession

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
    mode = cast("RecordMode", request.config.getoption("--reenact-record"))
    return Recordings(folder, mode, f"pytest {shlex.quote(request.node.nodeid)} --reenact-record=all")


@pytest.fixture
def recorded(request: pytest.FixtureRequest, recordings: Recordings) -> Iterator[Callable[..., ReplayResult]]:
    """`recorded(plan, skills=[…])` replays the recording of this test. The network is shut unless it may record.

    The recording is named after the test; `name=` names another one, for tests with several or for sharing.
    """
    from reenact.testing.network import shut_network
    from reenact.testing.traceback import hide_machinery

    def run(plan: dict[str, object], *, name: str | None = None, **options: object) -> ReplayResult:
        __tracebackhide__ = True
        try:
            return recordings.run(name or own_name(request), plan, **options)  # type: ignore[arg-type]  # checked there
        except Exception as error:
            hide_machinery(error)
            raise

    with shut_network() if recordings.mode == "none" else nullcontext():
        yield run


@pytest.fixture
def recorded_session(
    request: pytest.FixtureRequest, recordings: Recordings
) -> Iterator[Callable[..., RecordedSession]]:
    """`with recorded_session(skills=[…]) as session:` runs an agent's real code over the recording of this test.

    Every call is answered from there, and `Diverged` fails the test. `async with` gives an agent the async session.
    """
    from reenact.testing.network import shut_network

    def opening(*, name: str | None = None, **options: object) -> RecordedSession:
        __tracebackhide__ = True
        return recordings.session(name or own_name(request), **options)  # type: ignore[arg-type]  # checked there

    with shut_network() if recordings.mode == "none" else nullcontext():
        yield opening


def own_name(request: pytest.FixtureRequest) -> str:
    """The recording of a test is named after it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", request.node.name)
