"""A command reaches the network, files outside, or other processes. Unconfined each probe must succeed."""

from __future__ import annotations

import pytest

from tests.attacks.sandbox.probes import FOUND, NAMES, Group, names


def test_this_system_has_a_sandbox_to_probe() -> None:
    assert FOUND, "no back-end is found: install bubblewrap, or run on a kernel with Landlock"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Group:
    return Group("network", tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Group:
    return Group("files", tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Group:
    return Group("processes", tmp_path_factory.mktemp("processes"))


@pytest.mark.parametrize("sandbox", NAMES)
@pytest.mark.parametrize("probe", names("network"))
def test_reaches_the_network(network: Group, sandbox: str, probe: str) -> None:
    network.check(sandbox, probe)


@pytest.mark.parametrize("sandbox", NAMES)
@pytest.mark.parametrize("probe", names("files"))
def test_touches_files_outside(files: Group, sandbox: str, probe: str) -> None:
    files.check(sandbox, probe)


@pytest.mark.parametrize("sandbox", NAMES)
@pytest.mark.parametrize("probe", names("processes"))
def test_touches_other_processes(processes: Group, sandbox: str, probe: str) -> None:
    processes.check(sandbox, probe)
