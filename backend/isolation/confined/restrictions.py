"""Drops rights of the calling process for good: by Landlock, capabilities and a filter of system calls.

Uses the standard library alone, because it is also sent to the sandboxes of steps as byte code.
"""

import ctypes
import os
import resource
import struct

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
SET_PDEATHSIG, SET_KEEPCAPS, CAPBSET_DROP, SET_SECCOMP, SET_SECUREBITS = 1, 8, 24, 22, 28
SET_DUMPABLE, SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS, CAP_AMBIENT = 4, 36, 38, 47
CAP_AMBIENT_RAISE, CAP_AMBIENT_CLEAR_ALL = 2, 4
DAC_READ_SEARCH, CAPABILITIES = 2, 64
NO_ROOT_LOCKED = 0b11
NO_FIXUP_LOCKED = 0b1100
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x08000000, 0x10000000, 0x40000000

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
_MAKE_DEVICE_OR_SOCKET = 1 << 6 | 1 << 9 | 1 << 11
FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
HANDLED_BITS = {1: 13, 2: 14, 3: 15, 5: 16}
RIGHTS = {
    "list": READ_DIR,
    "read": READ_FILE | READ_DIR,
    "run": READ_FILE | READ_DIR | EXECUTE,
    "use": READ_FILE | WRITE_FILE | 1 << 14,
    "own": (1 << 15) - 1 & ~_MAKE_DEVICE_OR_SOCKET,
}
"""Rights below a path, by their name in options."""

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    # Not made in the function that uses it, which runs in every step: a class touches 30 pages.
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def checked(result: int) -> int:
    """Returns the result of a C function; raises OSError if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def prctl(option: int, *values: int) -> None:
    """Changes a property of the process; raises OSError."""
    checked(_libc.prctl(option, *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4])))


def landlock_abi() -> int:
    """Returns the version of Landlock that this kernel supports and has enabled, 0 for none."""
    version: int = _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return max(0, version)


def new_namespaces() -> bool:
    """Moves the process to new network and IPC namespaces; returns False if the kernel does not allow it."""
    if _libc.unshare(CLONE_NEWNET | CLONE_NEWIPC) == 0:
        return True
    return bool(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) == 0)


def restrict_files(paths: dict[str, list[str]], abi: int, *, network: bool) -> None:
    """Restricts the process to the rights of RIGHTS on `paths`, in all that this version of Landlock controls."""
    handled = (1 << HANDLED_BITS[max(version for version in HANDLED_BITS if version <= abi)]) - 1
    tcp = 0b11 if abi >= 4 and not network else 0
    scopes = 0b11 if abi >= 6 else 0
    attributes = struct.pack("=QQQ", handled, tcp, scopes)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    ruleset = checked(_libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    for word, allowed in paths.items():
        for path in allowed:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rights = RIGHTS[word] & handled & (handled if os.path.isdir(path) else FILE_RIGHTS)  # noqa: PTH112 - pathlib takes a third of the start
            checked(_libc.syscall(ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0))
            os.close(fd)
    checked(_libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def drop_rights(user: int | None) -> None:
    """Drops all capabilities, and changes to `user` if given.

    That user keeps the capability to read files of others, which Landlock then restricts; access(2) regards it too.
    """
    kept = DAC_READ_SEARCH if user is not None else None
    for capability in range(CAPABILITIES):
        if capability != kept and _libc.prctl(CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    _libc.prctl(SET_SECUREBITS, NO_ROOT_LOCKED if user is None else NO_ROOT_LOCKED | NO_FIXUP_LOCKED, 0, 0, 0)
    if user is not None:
        prctl(SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    mask = 0 if kept is None else 1 << kept
    header = struct.pack("=Ii", 0x20080522, 0)
    checked(_libc.capset(header, struct.pack("=6I", mask, mask, mask, 0, 0, 0)))
    prctl(CAP_AMBIENT, CAP_AMBIENT_CLEAR_ALL)
    if kept is not None:
        prctl(CAP_AMBIENT, CAP_AMBIENT_RAISE, kept)


def filter_calls(program: bytes) -> None:
    """Applies a filter of `backend.isolation.confined.syscall_filter` to every later system call of the process."""
    loaded = _Program(len(program) // 8, program)
    checked(_libc.prctl(SET_SECCOMP, 2, ctypes.byref(loaded), 0, 0))


def close_all_but(kept: set[int]) -> None:
    """Closes every other descriptor of the process."""
    start = 0
    for fd in sorted(kept):
        # An empty range that begins at 0 would close every descriptor.
        if start < fd:
            os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
