"""What a hostile command tries, run by `probes.py` through the real skill: `python -I -S inside.py GROUP TARGETS`.

Each function that begins with the group's name is one probe, in a process of its own. It returns where the attack
worked, and raises where it was refused. The last line printed is a JSON object, name → escaped, refused, or absent
where the kernel has nothing of the kind.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
from pathlib import Path
from types import SimpleNamespace as Targets

LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"kcmp": 312, "bpf": 321, "perf": 298, "uffd": 323, "handle": 303, "clone": 56, "memfd": 319,
               "add_key": 248, "shmget": 29},
    "aarch64": {"kcmp": 272, "bpf": 280, "perf": 241, "uffd": 282, "handle": 264, "clone": 220, "memfd": 279,
                "add_key": 217, "shmget": 194},
}[os.uname().machine]  # fmt: skip
NOT_HERE = {errno.ENOSYS, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.ESOCKTNOSUPPORT}
ABSENT = 77


def kernel(number: int, *arguments: object) -> int:
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return checked(LIBC.syscall(ctypes.c_long(number), *given))


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# -- network -----------------------------------------------------------------------------------------------------------


def network_tcp(to: Targets) -> None:
    with socket.create_connection(("127.0.0.1", to.tcp), 5) as connection:
        connection.sendall(b"x")


def network_tcp_on_ipv6(to: Targets) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as connection:
        connection.connect(("::ffff:127.0.0.1", to.tcp))


def network_udp(to: Targets) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", to.udp))


def network_mptcp(to: Targets) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as connection:
        connection.connect(("127.0.0.1", to.tcp))


def network_tcp_fast_open(to: Targets) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", to.tcp))
        connection.getpeername()


def network_mptcp_fast_open(to: Targets) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as connection:
        connection.sendmsg([b"x"], [], socket.MSG_FASTOPEN, ("127.0.0.1", to.tcp))


def network_listen(_to: Targets) -> None:
    socket.create_server(("127.0.0.1", 0)).close()


def network_raw(_to: Targets) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


def network_packet(_to: Targets) -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()


def network_netlink(_to: Targets) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.bind((0, 0))


def network_vsock(_to: Targets) -> None:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()


def network_kernel_crypto(_to: Targets) -> None:
    socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0).close()


def network_io_uring(_to: Targets) -> None:
    kernel(425, 4, (ctypes.c_uint32 * 30)())


def network_unix_socket_outside(to: Targets) -> None:
    os.chdir(to.outside)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect("stream.sock")


def network_unix_socket_through_a_link(to: Targets) -> None:
    os.symlink(f"{to.outside}/stream.sock", "link.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect("link.sock")


def network_unix_datagram_outside(to: Targets) -> None:
    os.chdir(to.outside)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", "datagram.sock")


def network_unix_datagram_from_a_pair(to: Targets) -> None:
    """A pair of datagram sockets is not tied: each end can be pointed anywhere."""
    os.chdir(to.outside)
    end, _other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    end.sendto(b"x", "datagram.sock")


def network_abstract_unix_socket(to: Targets) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect("\0" + to.abstract)


# -- files -------------------------------------------------------------------------------------------------------------


def files_read(to: Targets) -> None:
    assert Path(to.outside, "secret.txt").read_text() == "secret"


def files_read_through_a_link(to: Targets) -> None:
    os.symlink(f"{to.outside}/secret.txt", "link")
    assert Path("link").read_text() == "secret"


def files_list(to: Targets) -> None:
    assert os.listdir(to.outside)


def files_read_passwords(_to: Targets) -> None:
    assert Path("/etc/shadow").read_text()


def files_overwrite(to: Targets) -> None:
    Path(to.outside, "secret.txt").write_text("changed")


def files_overwrite_what_is_readable(to: Targets) -> None:
    Path(to.readable, "secret.txt").write_text("changed")


def files_truncate(to: Targets) -> None:
    os.truncate(f"{to.outside}/longer.txt", 0)


def files_truncate_what_is_readable(to: Targets) -> None:
    os.truncate(f"{to.readable}/longer.txt", 0)


def files_create(to: Targets) -> None:
    Path(to.outside, "created").write_text("x")


def files_remove(to: Targets) -> None:
    os.unlink(f"{to.outside}/removed.txt")


def files_make_a_folder(to: Targets) -> None:
    os.mkdir(f"{to.outside}/folder")


def files_make_a_pipe(to: Targets) -> None:
    os.mkfifo(f"{to.outside}/pipe")


def files_make_a_link(to: Targets) -> None:
    os.symlink("/etc/passwd", f"{to.outside}/symbolic")


def files_move_out(to: Targets) -> None:
    Path("mine").write_text("x")
    os.rename("mine", f"{to.outside}/moved")


def files_move_in(to: Targets) -> None:
    os.rename(f"{to.outside}/movable.txt", "stolen")


def files_link_in(to: Targets) -> None:
    os.link(f"{to.outside}/secret.txt", "linked")


def files_chmod(to: Targets) -> None:
    os.chmod(f"{to.outside}/modes.txt", 0o777)


def files_chmod_what_is_readable(to: Targets) -> None:
    os.chmod(f"{to.readable}/modes.txt", 0o777)


def files_chmod_what_is_open(to: Targets) -> None:
    os.fchmod(os.open(f"{to.readable}/open.txt", os.O_RDONLY), 0o777)


def files_chmod_by_its_newest_call(to: Targets) -> None:
    kernel(452, -100, f"{to.readable}/newest.txt".encode(), 0o777, 0)


def files_chown(to: Targets) -> None:
    os.chown(f"{to.readable}/owners.txt", os.getuid(), os.getgid())


def files_utime(to: Targets) -> None:
    os.utime(f"{to.readable}/times.txt", (1, 1))


def files_utime_outside(to: Targets) -> None:
    os.utime(f"{to.outside}/times.txt", (1, 1))


def files_xattr(to: Targets) -> None:
    os.setxattr(f"{to.readable}/xattrs.txt", "user.mark", b"x")


def files_chattr(to: Targets) -> None:
    """FS_IOC_SETFLAGS, "no dump", through a descriptor that can only read."""
    descriptor = os.open(f"{to.readable}/flags.txt", os.O_RDONLY)
    flags = struct.unpack("l", fcntl.ioctl(descriptor, 0x80086601, bytes(8)))[0]
    fcntl.ioctl(descriptor, 0x40086602, struct.pack("l", flags | 0x40))


def files_name_by_handle(to: Targets) -> None:
    handle, mount = (ctypes.c_uint32 * 64)(128), ctypes.c_int()
    kernel(NUMBERS["handle"], -100, f"{to.outside}/secret.txt".encode(), handle, ctypes.byref(mount), 0)


def files_watch(to: Targets) -> None:
    """The names of files that come and go."""
    watch = checked(LIBC.inotify_init1(0))
    checked(LIBC.inotify_add_watch(watch, os.fsencode(to.outside), 0x100))


def files_in_the_hosts_tmp(to: Targets) -> None:
    Path(to.temporary).write_text("x")


def files_in_shared_memory(to: Targets) -> None:
    Path(to.shared).write_text("x")


def files_mount(to: Targets) -> None:
    checked(LIBC.mount(os.fsencode(to.outside), os.fsencode(to.outside), None, ctypes.c_ulong(4096), None))
    LIBC.umount2(os.fsencode(to.outside), 2)


def files_chroot(_to: Targets) -> None:
    os.mkdir("root")
    os.chroot("root")


def files_environment_of_the_host(to: Targets) -> None:
    assert Path(f"/proc/{to.host}/environ").read_bytes()


def files_environment_of_any_process(_to: Targets) -> None:
    """Of the host's, and of those that make the sandbox."""
    places = [place for place in Path("/proc").glob("[0-9]*/environ") if int(place.parent.name) != os.getpid()]
    assert any(b"PLANTED_SECRET" in content(place) for place in places)


def content(place: Path) -> bytes:
    try:
        return place.read_bytes()
    except OSError:
        return b""


def files_memory_of_the_host(to: Targets) -> None:
    os.close(os.open(f"/proc/{to.host}/mem", os.O_RDONLY))


def files_root_of_the_host(to: Targets) -> None:
    assert Path(f"/proc/{to.host}/root{to.outside}/secret.txt").read_text()


def files_descriptors_of_the_host(to: Targets) -> None:
    assert os.listdir(f"/proc/{to.host}/fd")


def files_oom_score_of_the_host(to: Targets) -> None:
    place = Path(f"/proc/{to.host}/oom_score_adj")
    place.write_text(place.read_text())


def files_settings_of_the_kernel(_to: Targets) -> None:
    place = Path("/proc/sys/kernel/core_pattern")
    place.write_text(place.read_text())


# -- processes ---------------------------------------------------------------------------------------------------------


def processes_find_the_host(to: Targets) -> None:
    os.kill(to.host, 0)


def processes_signal(to: Targets) -> None:
    os.kill(to.victim, signal.SIGUSR1)


def processes_signal_by_descriptor(to: Targets) -> None:
    signal.pidfd_send_signal(os.pidfd_open(to.victim), signal.SIGUSR1)


def processes_trace(to: Targets) -> None:
    checked(LIBC.ptrace(0x4206, to.victim, None, None))  # PTRACE_SEIZE


def processes_read_memory(to: Targets) -> None:
    class Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    buffer = ctypes.create_string_buffer(8)
    local = Vector(ctypes.cast(buffer, ctypes.c_void_p), 8)
    remote = Vector(to.victim_address, 8)
    checked(
        LIBC.process_vm_readv(to.victim, ctypes.byref(local), ctypes.c_ulong(1), ctypes.byref(remote),
                              ctypes.c_ulong(1), ctypes.c_ulong(0))
    )  # fmt: skip
    assert buffer.raw == b"a secret"


def processes_take_a_descriptor(to: Targets) -> None:
    kernel(438, os.pidfd_open(to.victim), 1, 0)


def processes_compare(to: Targets) -> None:
    kernel(NUMBERS["kcmp"], os.getpid(), to.victim, 1, 0, 0)


def processes_limit_another(to: Targets) -> None:
    """With a limit on CPU time of 0 the host would be killed."""
    resource.prlimit(to.victim, resource.RLIMIT_CORE, (0, 0))


def processes_slow_another_down(to: Targets) -> None:
    os.setpriority(os.PRIO_PROCESS, to.victim, 5)


def processes_slow_the_user_down(to: Targets) -> None:
    os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0))
    os.kill(to.victim, 0)  # in a namespace of its own, those are only its own


def processes_bind_another_to_a_core(to: Targets) -> None:
    os.sched_setaffinity(to.victim, os.sched_getaffinity(0))


def processes_new_mounts(_to: Targets) -> None:
    checked(LIBC.unshare(0x20000))


def processes_new_user(_to: Targets) -> None:
    checked(LIBC.unshare(0x10000000))


def processes_clone_as_new_user(_to: Targets) -> None:
    if kernel(NUMBERS["clone"], 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


def processes_clone3_as_new_user(_to: Targets) -> None:
    if kernel(435, (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, signal.SIGCHLD), 64) == 0:
        os._exit(0)


def processes_enter_the_hosts_namespaces(to: Targets) -> None:
    """Mounts of the host; the control cannot enter its own again with threads about, and asks for its name's."""
    descriptor = os.open(f"/proc/{to.host}/ns/uts", os.O_RDONLY)
    checked(LIBC.setns(descriptor, 0))


def processes_keep_a_key(_to: Targets) -> None:
    kernel(NUMBERS["add_key"], b"user", b"reenact-probe", b"x", 1, -1)


def processes_bpf(_to: Targets) -> None:
    kernel(NUMBERS["bpf"], 0, struct.pack("IIIII", 2, 4, 4, 1, 0) + bytes(108), 128)


def processes_perf(_to: Targets) -> None:
    kernel(NUMBERS["perf"], struct.pack("IIQ", 1, 112, 0) + bytes(96), 0, -1, -1, 0)


def processes_userfaultfd(_to: Targets) -> None:
    kernel(NUMBERS["uffd"], 1)


def processes_memory_that_is_not_counted(_to: Targets) -> None:
    kernel(NUMBERS["memfd"], b"x", 0)


def processes_memory_that_outlives(_to: Targets) -> None:
    shared = kernel(NUMBERS["shmget"], 0, 4096, 0o1600)
    LIBC.shmctl(shared, 0, None)


def processes_new_privileges(_to: Targets) -> None:
    """By a program that is root's, with its bit set."""
    assert LIBC.prctl(39, 0, 0, 0, 0) == 0


def processes_capabilities(_to: Targets) -> None:
    held = (ctypes.c_uint32 * 6)()
    checked(LIBC.capget((ctypes.c_uint32 * 2)(0x20080522, 0), held))
    if os.getuid() != 0:
        raise OSError(errno.ENOSYS, "only root has some to lose")
    assert held[0] | held[3]


def processes_type_into_the_terminal(_to: Targets) -> None:
    """TIOCSTI: refused with EPERM before the kernel looks whether there is a terminal at all."""
    ended, _other = os.pipe()
    try:
        fcntl.ioctl(ended, 0x5412, b"x")
    except OSError as error:
        if error.errno != errno.ENOTTY:
            raise


# -- running them ------------------------------------------------------------------------------------------------------


def main() -> None:
    group, targets = sys.argv[1], Targets(**json.loads(sys.argv[2]))
    results = {}
    for name, probe in list(globals().items()):
        if name.startswith(f"{group}_"):
            child = os.fork()
            if child == 0:
                os._exit(attempt(name, probe, targets))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            results[name] = {0: "escaped", ABSENT: "absent"}.get(code, "refused")
    print(json.dumps(results))


def attempt(name: str, probe: object, targets: Targets) -> int:
    signal.alarm(20)
    code = 1
    try:
        probe(targets)  # type: ignore[operator]
        code = 0
    except OSError as error:
        code = ABSENT if error.errno in NOT_HERE else 1
        print(name, repr(error), file=sys.stderr, flush=True)
    except BaseException as error:
        print(name, repr(error), file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    main()
