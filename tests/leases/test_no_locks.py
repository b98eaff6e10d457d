"""A file system without locks is told as what it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crash.harness import Stage

SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
static int pass_on(const char *name, int fd, int cmd, void *arg) {
    if (cmd == F_SETLK || cmd == F_SETLKW) { errno = ENOLCK; return -1; }
    int (*real)(int, int, ...) = dlsym(RTLD_NEXT, name);
    return real(fd, cmd, arg);
}
int fcntl(int fd, int cmd, ...) {
    va_list list; va_start(list, cmd); void *arg = va_arg(list, void *); va_end(list);
    return pass_on("fcntl", fd, cmd, arg);
}
int fcntl64(int fd, int cmd, ...) {
    va_list list; va_start(list, cmd); void *arg = va_arg(list, void *); va_end(list);
    return pass_on("fcntl64", fd, cmd, arg);
}
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
@pytest.mark.parametrize("command", ["recover", "ls", "doctor"])
def test_a_file_system_without_locks_is_not_told_as_busy(tmp_path: Path, command: str) -> None:
    stage = Stage(tmp_path)
    stage.runtime().run(stage.plan())
    source, shim = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(source), "-ldl"], check=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "reenact", command, "--store", stage.store_path],
        env={**os.environ, "LD_PRELOAD": str(shim)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    said = done.stderr + done.stdout
    assert done.returncode == 3, said
    assert "its file system has no locks (ENOLCK)" in said, said
    assert "Traceback" not in said
    assert time.monotonic() - began < 30, "a minute of waiting changes nothing"
