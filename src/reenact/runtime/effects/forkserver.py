"""The process that forks processes for skills: started clean and with one thread, so that forking it is safe.

A runtime's own process has threads, and a child forked from it may wait for ever for a lock that some thread held. Its
own process is also the one that may die at any time: this one sees that, and ends what it has forked.
"""

from __future__ import annotations

import gc
import importlib
import os
import selectors
import signal
import socket
import struct
from contextlib import suppress
from typing import Final

from reenact.runtime.effects.child import be_the_child

DESCRIPTORS: Final = 4
"""That come with a request: the line to the child, the control of it, its stdout, its stderr."""
NUMBER: Final = struct.Struct(">i")
"""How the control speaks: the child's process id, then its exit code as `subprocess` counts it."""


PRELOADED: Final = ("asyncio", "reenact.skills.declare")
"""What nearly every module of skills imports. Those modules themselves are imported by each child: they may start
threads."""


def serve(descriptor: int) -> None:
    """Fork whatever is asked for, until whoever started this process is gone: then nothing of it is left."""
    for number in (signal.SIGINT, signal.SIGTERM):  # its parent's to hear: it may drain, and ends this one with itself
        signal.signal(number, signal.SIG_IGN)
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the pages of what is here already stay shared
    ForkServer(socket.socket(fileno=descriptor)).serve()


class ForkServer:
    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent
        self._controls: dict[int, socket.socket] = {}
        """By process id."""
        self._woken, self._wake = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        for socket_ in (self._woken, self._wake):
            socket_.settimeout(0)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._parent, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._parent:
                    if not self._accept():
                        for pid in self._controls:
                            end(pid)
                        return
                elif key.fileobj is self._woken:
                    self._reap()
                elif self._controls.get(key.data) is key.fileobj:  # it is no longer wanted: nothing is ever said there
                    self._selector.unregister(key.fileobj)
                    end(key.data)

    def _accept(self) -> bool:
        word, descriptors, _, _ = socket.recv_fds(self._parent, 1, DESCRIPTORS)
        if not word:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # noqa: FBT003  # the system's own interface
        if len(descriptors) < DESCRIPTORS:  # too many are open: what came is closed, which tells
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        line, control = (socket.socket(fileno=descriptor) for descriptor in descriptors[:2])
        output, errors = descriptors[2:]
        with suppress(OSError):  # too many processes: the same
            pid = os.fork()
            if pid == 0:
                self._let_go(control)
                be_the_child(line, output, errors)
            self._controls[pid] = control
            self._selector.register(control, selectors.EVENT_READ, pid)
            with suppress(OSError):
                control.sendall(NUMBER.pack(pid))
        line.close()
        os.close(output)
        os.close(errors)
        return True

    def _let_go(self, control: socket.socket) -> None:
        """In the child: what it kept open nobody could see the end of."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for ours in (self._parent, self._woken, self._wake, control, *self._controls.values()):
            ours.close()

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        for pid in list(self._controls):
            code = exit_code(pid)
            if code is None:
                continue
            control = self._controls.pop(pid)
            with suppress(KeyError):
                self._selector.unregister(control)
            with suppress(OSError):
                control.sendall(NUMBER.pack(code))
            control.close()


def exit_code(pid: int) -> int | None:
    """None while it runs. What it has left running in its group ends with it, before its number can be another's."""
    if hasattr(os, "waitid"):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        end(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    reaped, status = os.waitpid(pid, os.WNOHANG)
    if reaped == 0:
        return None
    end(pid)
    return os.waitstatus_to_exitcode(status)


def end(pid: int) -> None:
    """A child that has not yet made its own group is ended alone."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
