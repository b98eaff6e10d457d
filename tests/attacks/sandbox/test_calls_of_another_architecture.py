"""A command calls the kernel through a door that the filter does not know: i386, x32, or a call newer than its list."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reenact.builtin.sandbox import seccomp
from tests.attacks.sandbox.probes import PROBED, UNCONFINED, run

TABLES = (seccomp.ALWAYS, seccomp.OF_ATTRIBUTES, seccomp.OF_OTHERS, seccomp.OF_SOCKETS, seccomp.SPECIAL)
HEADERS = (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm-generic/unistd.h"))
I386 = """
#include <stdio.h>
int main(void) {
    long id = 20;  /* getpid of i386 */
    __asm__ volatile("int $0x80" : "+a"(id) : : "memory", "r8", "r9", "r10", "r11");
    if (id > 0) puts("escaped");
    return 0;
}
"""
NEWER = """
#include <stdio.h>
#include <unistd.h>
#include <errno.h>
#include <sys/syscall.h>
int main(void) {  /* listxattrat, of Linux 6.13: known to the kernel, not to the filter */
    long got = syscall(465, -100, "/", 0, (char *)0, 0L);
    if (got >= 0 || errno != ENOSYS) puts("escaped");
    return 0;
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a door of x86_64")
@pytest.mark.parametrize("sandbox", PROBED)
@pytest.mark.parametrize("program", [I386, NEWER], ids=["i386", "newer"])
def test_calls_through_another_door(sandbox: str, program: str, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler")
    (tmp_path / "probe.c").write_text(program, encoding="utf-8")
    subprocess.run([compiler, "-o", str(tmp_path / "probe"), str(tmp_path / "probe.c")], check=True)
    control: Any = run(UNCONFINED, tmp_path, ["./probe"]).output
    if "escaped" not in control["stdout"]:
        pytest.skip("this kernel has no such door")
    confined: Any = run(sandbox, tmp_path, ["./probe"]).output
    assert "escaped" not in confined["stdout"]


@pytest.mark.parametrize("column", [0, 1], ids=["x86_64", "aarch64"])
def test_the_numbers_are_the_kernels(column: int) -> None:
    if not HEADERS[column].exists():
        pytest.skip("no headers of the kernel")
    text = HEADERS[column].read_text(encoding="utf-8")
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    for name, numbers in [pair for table in TABLES for pair in table.items()]:
        if numbers[column] is None:
            assert name not in known
        else:
            assert known.get(name, numbers[column]) == numbers[column], name


@pytest.mark.parametrize("machine", seccomp.MACHINES)
@pytest.mark.parametrize("apart", [True, False])
def test_the_program_is_whole(machine: str, apart: bool) -> None:
    """Every jump lands inside, every way ends with an answer, and it is not longer than the kernel takes."""
    around = seccomp.Surroundings(paths=apart, read_only=apart, processes=apart)
    program = seccomp.program(around, machine)
    code = [program[at : at + 8] for at in range(0, len(program), 8)]
    assert len(program) % 8 == 0
    assert len(code) < 4096
    for at, instruction in enumerate(code):
        if instruction[0] & 0x07 == 0x05:
            assert at + 1 + max(instruction[2], instruction[3]) < len(code)
    assert code[-1][0] == 0x06
