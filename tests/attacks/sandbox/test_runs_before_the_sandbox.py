"""A library named in `env` is loaded by the launcher, before anything is confined, and reads the host's secrets."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

from reenact.builtin.sandbox import environment, launch
from tests.attacks.sandbox.probes import PROBED, UNCONFINED, run

EVIL = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void steal(void) {
    char secret[100];
    int from = open(SECRET, O_RDONLY), to = open(STOLEN, O_WRONLY | O_CREAT | O_APPEND, 0600);
    long size = read(from, secret, sizeof secret);
    if (size > 0) write(to, secret, size);
}
"""


@pytest.fixture
def stolen(tmp_path: Path) -> Path:
    """Where the library that lies in the workspace, e.so, writes what it has read outside."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler")
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("the host's secret", encoding="utf-8")
    (tmp_path / "e.c").write_text(EVIL, encoding="utf-8")
    names = [f'-DSECRET="{tmp_path}/secret"', f'-DSTOLEN="{tmp_path}/work/stolen"']
    library = str(tmp_path / "work" / "e.so")
    subprocess.run([compiler, "-shared", "-fPIC", *names, "-o", library, str(tmp_path / "e.c")], check=True)
    return tmp_path / "work" / "stolen"


@pytest.mark.parametrize("sandbox", PROBED)
def test_a_preloaded_library_reads_the_hosts_secrets(
    sandbox: str, stolen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"LD_PRELOAD": str(stolen.with_name("e.so"))}
    refused = run(sandbox, stolen.parent, ["true"], env=env)
    assert refused.code == "ERR_VALIDATION_FAILED"
    assert refused.message.startswith("env: LD_PRELOAD makes programs load or run something else")

    # Also where the name were not refused: it is given to the command, inside, and to nothing before that.
    monkeypatch.setattr(environment, "refused", lambda _names: None)
    assert run(UNCONFINED, stolen.parent, ["true"], env=env).ok
    assert stolen.read_text(encoding="utf-8") == "the host's secret", "the control must succeed"
    stolen.unlink()
    assert run(sandbox, stolen.parent, ["true"], env=env).ok
    assert not stolen.exists() or stolen.read_text(encoding="utf-8") == ""


NAMES = [
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "BASH_ENV", "ENV", "PYTHONPATH", "PYTHONSTARTUP",
    "PERL5LIB", "PERL5OPT", "NODE_OPTIONS", "RUBYOPT", "GLIBC_TUNABLES", "IFS", "ld_preload", "BASH_FUNC_ls%%",
    "GIT_SSH_COMMAND", "JAVA_TOOL_OPTIONS", "SHELLOPTS", "DYLD_INSERT_LIBRARIES", "LESSOPEN", "LOCPATH",
    "MAKEFLAGS", "TAR_OPTIONS", "RSYNC_RSH", "GTK_MODULES", "VIMINIT",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_variable_that_loads_something_is_refused_before_anything_starts(tmp_path: Path, name: str) -> None:
    """Also unconfined."""
    outcome = run(UNCONFINED, tmp_path, ["touch", "started"], env={name: "x"})
    assert outcome.code == "ERR_VALIDATION_FAILED"
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("name", ["HOME", "PATH", "TZ", "CC", "DATABASE_URL", "LANG", "EDITION", "PERLA"])
def test_an_ordinary_variable_is_given(tmp_path: Path, name: str) -> None:
    outcome = run(UNCONFINED, tmp_path, ["printenv", name], env={name: "/usr/bin:/bin"})
    assert outcome.output["stdout"] == "/usr/bin:/bin\n"  # type: ignore[index]


@pytest.mark.parametrize("sandbox", PROBED)
def test_the_command_has_its_environment_and_nothing_else(
    sandbox: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRIPE_KEY", "sk_live_planted")
    outcome = run(sandbox, tmp_path, ["env"], env={"GIVEN": "yes"})
    names = {line.partition("=")[0] for line in outcome.output["stdout"].splitlines()}  # type: ignore[index]
    assert names - {"PWD"} == {"PATH", "HOME", "TMPDIR", "LANG", "GIT_CONFIG_NOSYSTEM", "GIVEN"}


def test_the_launcher_imports_nothing_of_the_project_but_its_folder() -> None:
    folder = Path(launch.__file__).parent
    waiting, seen = ["launch"], set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("reenact"):
                inside = node.module == "reenact.builtin.sandbox"
                named = [alias.name for alias in node.names] if inside else [(node.module or "").rpartition(".")[2]]
                assert all((folder / f"{part}.py").is_file() for part in named), node.module
                waiting += [part for part in named if part not in seen]
    assert seen == {"launch", "supervisor", "bubblewrap", "kernel", "landlock", "namespaces", "processes", "seccomp"}
