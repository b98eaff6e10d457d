"""Watches over one command in the launcher: confines it, starts it, counts what it uses, and ends all that it started.

The job is a dict, read from a descriptor (marshal): `backend` (bubblewrap, landlock or none), `bubblewrap` (its path),
`namespaces` (needed, wanted or unwanted), `seccomp` (whether calls are filtered), `workspace`, `read` and `write`
(paths), `hidden` (folders) and `ways` (to them), `env`, `memory` and `file_size` (bytes), `processes`, `parent` (the id
of the process that waits) and `report` (a descriptor on which is told, in one line, what went wrong other than in the
command; nothing where nothing did).
"""

from __future__ import annotations

import marshal
import os
import resource
import signal
import time

from reenact.builtin.sandbox import bubblewrap, kernel, landlock, namespaces, processes, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take longer than the rest of the launcher
    from typing import Any, NoReturn

    Job = dict[str, Any]

_FIRST_LOOK_SECONDS, _LONGEST_PAUSE_SECONDS = 0.01, 0.05
_WATCHED = {signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP}
_HIGH_PRIORITY = -15  # root only: it has to get its turn among many


def supervise(descriptor: int, command: list[str]) -> int:
    """The command's exit code, 128 and the number for a signal; what becomes of it is said by the report."""
    with open(descriptor, "rb") as file:
        job: Job = marshal.load(file)  # noqa: S302 - written by the process that started this one
    os.set_inheritable(job["report"], False)  # noqa: FBT003 - the signature is the standard library's
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    kernel.signal_when_parent_dies(signal.SIGTERM)
    if os.getppid() != job["parent"]:
        return 1
    kernel.adopt_orphans()
    try:
        return _Command(job, command).run()
    except OSError as error:
        _tell(job, f"confine {error.strerror or error}")
        return 1


class _Command:
    def __init__(self, job: Job, command: list[str]) -> None:
        self.job = job
        self.command = command
        self.around = 0
        """Processes of the sandbox itself among the descendants."""
        self.status = -1

    def run(self) -> int:
        priority = _raise_priority()
        start = {"bubblewrap": self._in_bubblewrap, "landlock": self._with_landlock, "none": self._as_it_is}
        child = start[self.job["backend"]](priority)
        _let_go_of_output()
        code, excess = self._watch(child)
        processes.end_all()
        if excess:
            _tell(self.job, f"limit {excess}")
        elif self.status >= 0 and code is not None:
            code = bubblewrap.exit_code(os.read(self.status, 4096))
            if code is None:
                _tell(self.job, "bubblewrap")
        return 1 if code is None else code

    # -- starting ----------------------------------------------------------------------------------------------------

    def _in_bubblewrap(self, priority: int) -> int:
        self.around = 2
        self.status, status = os.pipe()
        os.set_inheritable(status, True)  # noqa: FBT003
        around = seccomp.Surroundings(paths=True, read_only=True, processes=True)
        filter_ = _memory_file(seccomp.program(around))
        given = bubblewrap.arguments(self.job, filter_, status)
        told = _memory_file(b"".join(os.fsencode(text) + b"\0" for text in given))
        child = os.fork()
        if child == 0:
            self._become([self.job["bubblewrap"], "--args", str(told), "--", *self.command], {}, priority)
        for descriptor in (status, filter_, told):
            os.close(descriptor)
        return child

    def _with_landlock(self, priority: int) -> int:
        child = None if self.job["namespaces"] == "unwanted" else self._in_namespaces(priority)
        if child is not None:
            return child
        if self.job["namespaces"] == "needed" or self.job["hidden"]:
            raise OSError("this system gives it no namespaces")
        child = os.fork()
        if child == 0:
            self._confine_and_become(seccomp.Surroundings(paths=False, read_only=False, processes=False), priority)
        return child

    def _in_namespaces(self, priority: int) -> int | None:
        arranged, tell = os.pipe()
        child = namespaces.clone()
        if child == 0:
            try:
                kernel.signal_when_parent_dies(signal.SIGKILL)
                namespaces.arrange_mounts(self.job["workspace"], self.job["ways"], self.job["hidden"])
                os.write(tell, b"1")
            except OSError:
                os._exit(1)
            self._be_process_1(priority)
        os.close(tell)
        is_arranged = child is not None and os.read(arranged, 1) == b"1"
        os.close(arranged)
        if child is not None and not is_arranged:
            os.waitpid(child, 0)
            return None
        self.around = 1
        return child

    def _be_process_1(self, priority: int) -> NoReturn:
        """Adopts and reaps in the namespace; with its end everything in it ends."""
        child = os.fork()
        if child == 0:
            self._confine_and_become(seccomp.Surroundings(paths=False, read_only=True, processes=True), priority)
        kernel.drop_capabilities()
        _let_go_of_output()
        os.close(self.job["report"])
        while True:
            ended, status = os.wait()
            if ended == child:
                os._exit(_code(status))

    def _as_it_is(self, priority: int) -> int:
        child = os.fork()
        if child == 0:
            self._become(self.command, self.job["env"], priority)
        return child

    def _confine_and_become(self, around: seccomp.Surroundings, priority: int) -> NoReturn:
        try:
            kernel.signal_when_parent_dies(signal.SIGKILL)
            program = seccomp.program(around) if self.job["seccomp"] else b""
            _go_to(self.job["workspace"])
            _limit(self.job, in_own_count=around.processes)
            _set_priority(priority)
            kernel.drop_capabilities()
            landlock.confine([".", *self.job["write"]], self.job["read"])
            if program:
                kernel.install_filter(program)
        except OSError as error:
            _tell(self.job, f"confine {error.strerror or error}")
            os._exit(1)
        self._exec(self.command, self.job["env"])

    def _become(self, argv: list[str], env: dict[str, str], priority: int) -> NoReturn:
        try:
            kernel.signal_when_parent_dies(signal.SIGKILL)
            _go_to(self.job["workspace"])
            _limit(self.job, in_own_count=False)
            _set_priority(priority)
        except OSError as error:
            _tell(self.job, f"confine {error.strerror or error}")
            os._exit(1)
        self._exec(argv, env)

    def _exec(self, argv: list[str], env: dict[str, str]) -> NoReturn:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # which Python ignores, and what it ignores a program inherits
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            os.execve(argv[0], argv, env)  # noqa: S606 - becoming the command is the purpose
        except OSError as error:
            _tell(self.job, f"start {error.strerror}")
        os._exit(1)

    # -- watching ----------------------------------------------------------------------------------------------------

    def _watch(self, child: int) -> tuple[int | None, str | None]:
        """The command's exit code, None where it was told to end; and the limit that it passed."""
        pause, looked = _FIRST_LOOK_SECONDS, time.monotonic()
        while True:
            got = signal.sigtimedwait(_WATCHED, pause)
            if got is not None and got.si_signo != signal.SIGCHLD:
                return None, None
            code = _reap(child)
            if code is not None:
                return code, None
            if time.monotonic() - looked >= pause:
                excess = self._excess()
                if excess:
                    return None, excess
                pause, looked = min(pause * 1.5, _LONGEST_PAUSE_SECONDS), time.monotonic()

    def _excess(self) -> str | None:
        found = processes.descendants(os.getpid())
        if processes.threads(found) - self.around > self.job["processes"]:
            return "processes"
        return "memory" if processes.resident_bytes(found) > self.job["memory"] else None


def _reap(child: int) -> int | None:
    """The exit code of `child` once it has ended; others that have are let go."""
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == 0:
            return code
        if ended == child:
            code = _code(status)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _go_to(workspace: str) -> None:
    os.chdir(workspace)
    if os.getcwd() != workspace:  # another command has put a link there since it was looked at
        raise OSError("the workspace leads elsewhere")


def _limit(job: Job, *, in_own_count: bool) -> None:
    """Limits that the kernel keeps for each process; the totals are counted by `_watch`."""
    limits = {
        resource.RLIMIT_DATA: job["memory"],
        resource.RLIMIT_FSIZE: job["file_size"],
        resource.RLIMIT_CORE: 0,
    }
    if in_own_count:  # else it would count every process of the user
        limits[resource.RLIMIT_NPROC] = job["processes"]
    for kind, wanted in limits.items():
        _, most = resource.getrlimit(kind)
        value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(kind, (value, value))


def _raise_priority() -> int:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, min(before, _HIGH_PRIORITY))
    except OSError:
        return before  # only root may
    return before


def _set_priority(priority: int) -> None:
    if os.getpriority(os.PRIO_PROCESS, 0) != priority:
        os.setpriority(os.PRIO_PROCESS, 0, priority)


def _let_go_of_output() -> None:
    """Whoever reads the command's outputs is told of their end by the command's own end."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("sandbox", 0)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _tell(job: Job, text: str) -> None:
    os.write(job["report"], text.encode(errors="replace")[:500] + b"\n")
