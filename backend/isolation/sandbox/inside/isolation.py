"""Moves a forked process into namespaces, file systems and a user of its own, without any right to leave them."""

from __future__ import annotations

import ctypes
import os
import struct
import time

from backend.isolation.confined.restrictions import (
    CAP_AMBIENT,
    CAP_AMBIENT_CLEAR_ALL,
    CAPABILITIES,
    CAPBSET_DROP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWUSER,
    SET_DUMPABLE,
    SET_NO_NEW_PRIVS,
    checked,
    filter_calls,
    prctl,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWPID = 0x00020000, 0x02000000, 0x04000000, 0x20000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND = 1, 2, 4, 8, 32, 4096
SETGID, SETUID, SETPCAP, NET_ADMIN, SYS_ADMIN = 6, 7, 8, 12, 21
TEMPLATE_CAPABILITIES = (SETGID, SETUID, SETPCAP, NET_ADMIN, SYS_ADMIN)

_TRIES, _PAUSE_SECONDS = 100, 0.01

_INTERNET, _DATAGRAMS, _CLOSE_ON_EXEC = 2, 2, 0o2000000
_SET_INTERFACE_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_LOOPBACK_UP = struct.pack("16sh14x", b"lo", _UP_AND_RUNNING)
_CAPABILITY_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.signal.restype = ctypes.c_void_p
_SIGNAL_ERROR = ctypes.c_void_p(-1).value
# PyDLL keeps the interpreter's lock, which a child would otherwise find taken.
_libc_under_lock = ctypes.PyDLL(None, use_errno=True)


def reset_signal(number: int) -> None:
    """Gives a signal its default effect, without Python's enumerations, which touch 40 pages. Raises OSError."""
    if _libc.signal(number, None) == _SIGNAL_ERROR:
        raise OSError(f"signal {number} keeps its handler")


def unshare(namespaces: int) -> None:
    """Moves this process, or with CLONE_NEWPID its next child, to new namespaces. Raises OSError."""
    checked(_libc.unshare(ctypes.c_int(namespaces)))


def fork_plainly() -> int:
    """Forks this single-threaded process without running modules' fork hooks; returns the child's id, and 0 in it.

    The hooks ready threads, locks and random numbers in 0.4 to 0.6 ms of processor time. A process that only isolates
    itself uses none of these; a runner, of one thread whose locks are free, makes its random numbers itself. Where
    packages were preloaded it is forked by `os.fork`. Raises OSError.
    """
    child: int = _libc_under_lock.fork()
    checked(child)
    return child


def enter(namespace: int, kind: int) -> None:
    """Enters the namespace of this kind that a descriptor stands for. Raises OSError."""
    checked(_libc.setns(namespace, kind))


def fork_first(own: int) -> int:
    """Forks the first process of a new process namespace; returns its id, and 0 in it.

    `own` is a descriptor of this process's namespace, to which its next child belongs again.

    Raises:
        OSError: nothing was forked.
        RuntimeError: this process cannot return, and so must fork no more.
    """
    first = -1
    try:
        unshare(CLONE_NEWPID)
        first = fork_plainly()
    finally:
        if first != 0:
            with_retries(enter, own, CLONE_NEWPID)
    return first


def with_retries(call: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of `call`; retries OSError for a second, then raises RuntimeError."""
    for _ in range(_TRIES):
        try:
            return call(*arguments)
        except OSError as error:
            failed = error
            time.sleep(_PAUSE_SECONDS)
    raise RuntimeError(f"{call.__name__} failed for a second: {failed}")


def unmount_below(folder: str) -> None:
    """Unmounts everything that is mounted below a folder, the deepest first. Raises OSError."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes long to import
        places = [line.split(" ")[4] for line in file]
    for place in reversed(places):
        if place.startswith(f"{folder}/"):
            checked(_libc.umount2(place.encode(), 0))


def keep_capabilities(kept: Iterable[int]) -> None:
    """Drops all other capabilities of this process for good. Raises OSError."""
    mask = 0
    for capability in kept:
        mask |= 1 << capability
    for capability in range(CAPABILITIES):
        # The kernel knows fewer capabilities.
        if not mask >> capability & 1 and _libc.prctl(CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    use_capabilities(mask)
    prctl(CAP_AMBIENT, CAP_AMBIENT_CLEAR_ALL)


def use_capabilities(mask: int) -> None:
    """Makes these the permitted and effective capabilities of this process. Raises OSError."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    checked(_libc.capset(header, struct.pack("=6I", low, low, 0, high, high, 0)))


def isolate(options: dict[str, Any], user: int, workspace_bytes: int) -> None:
    """Gives the first process of a new process namespace its other namespaces, mounts and user, then drops its rights.

    The mounts belong to the template's user namespace, and code that runs here later to a namespace below, so that a
    capability gained there is of no use. Raises OSError.
    """
    namespaces = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
    unshare(namespaces | CLONE_NEWNET if options["own_network"] else namespaces)
    if options["own_network"]:
        _start_loopback()
    # By the template's own view of processes, in which this user namespace can be given its user.
    processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _mount("tmpfs", "/step", "tmpfs", NOSUID | NODEV, f"mode=0777,size={workspace_bytes}")
    umask = os.umask(0)
    for folder in options["folders"]:
        os.mkdir(folder, 0o777)  # noqa: PTH102 - pathlib takes long to import
    os.umask(umask)
    _mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    # The settings of the kernel belong to the host.
    _mount(None, "/proc", None, REMOUNT | BIND | RDONLY | NOSUID | NODEV | NOEXEC)
    if options["own_users"]:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _enter_user_namespace(processes, user)
    os.close(processes)
    keep_capabilities(())
    prctl(SET_NO_NEW_PRIVS, 1)
    filter_calls(options["filter"])


def _enter_user_namespace(processes: int, user: int) -> None:
    # A process that has changed its user cannot write these files otherwise.
    prctl(SET_DUMPABLE, 1)
    unshare(CLONE_NEWUSER)
    own = f"{user} {user} 1"
    for name, content in (
        ("self/setgroups", "deny"),
        ("self/uid_map", own),
        ("self/gid_map", own),
        ("sys/user/max_user_namespaces", "0"),
    ):
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=processes)
        os.write(fd, content.encode())
        os.close(fd)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    checked(_libc.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()))


def _start_loopback() -> None:
    any_socket = checked(_libc.socket(_INTERNET, _DATAGRAMS | _CLOSE_ON_EXEC, 0))
    checked(_libc.ioctl(any_socket, ctypes.c_ulong(_SET_INTERFACE_FLAGS), _LOOPBACK_UP))
    os.close(any_socket)
