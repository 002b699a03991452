"""Holds one command by Landlock and a filter of system calls, and outlives it: standard library only, run as a program.

It is called with a JSON object and the command. The first process stays outside as the guard: everything that the
command starts and leaves behind becomes its child, and when the command exits, the worker says so on the link or the
worker dies, it kills all of them. The second process gives up its rights and becomes the command.
"""

import ctypes
import json
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
SET_PDEATHSIG, SET_KEEPCAPS, CAPBSET_DROP, SET_SECCOMP, SET_SECUREBITS = 1, 8, 24, 22, 28
SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS, CAP_AMBIENT = 36, 38, 47
CAP_AMBIENT_RAISE, CAP_AMBIENT_CLEAR_ALL = 2, 4
DAC_READ_SEARCH, CAPABILITIES = 2, 64
NO_ROOT_LOCKED = 0b11

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
_MAKE_DEVICE_OR_SOCKET = 1 << 6 | 1 << 9 | 1 << 11
FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
ALL_RIGHTS = {3: (1 << 15) - 1, 5: (1 << 16) - 1}
RIGHTS = {
    "list": READ_DIR,
    "read": READ_FILE | READ_DIR,
    "run": READ_FILE | READ_DIR | EXECUTE,
    "use": READ_FILE | WRITE_FILE | 1 << 14,
    "own": (1 << 15) - 1 & ~_MAKE_DEVICE_OR_SOCKET,
}
"""What each word of the options allows below a path."""

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _prctl(option: int, *values: int) -> None:
    _checked(_libc.prctl(option, *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4])))


def _landlock(paths: dict[str, list[str]], abi: int, *, network: bool) -> None:
    """Allow what `paths` says, by words of RIGHTS, and nothing else of what this version of Landlock knows."""
    handled = ALL_RIGHTS[5 if abi >= 5 else 3]
    tcp = 0b11 if abi >= 4 and not network else 0
    scopes = 0b11 if abi >= 6 else 0
    attributes = struct.pack("=QQQ", handled, tcp, scopes)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    ruleset = _checked(_libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    for word, allowed in paths.items():
        for path in allowed:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rights = RIGHTS[word] & (ALL_RIGHTS[5] if os.path.isdir(path) else FILE_RIGHTS)  # noqa: PTH112 - pathlib takes a third of the start
            _checked(_libc.syscall(ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0))
            os.close(fd)
    _checked(_libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _drop_rights(user: int | None) -> None:
    """Become `user`, who has one capability: to reach files in other users' folders, which Landlock then limits."""
    kept = DAC_READ_SEARCH if user is not None else None
    for capability in range(CAPABILITIES if os.geteuid() == 0 else 0):
        if capability != kept and _libc.prctl(CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    _libc.prctl(SET_SECUREBITS, NO_ROOT_LOCKED, 0, 0, 0)
    if user is not None:
        _prctl(SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    mask = 0 if kept is None else 1 << kept
    header = struct.pack("=Ii", 0x20080522, 0)
    _checked(_libc.capset(header, struct.pack("=6I", mask, mask, mask, 0, 0, 0)))
    _prctl(CAP_AMBIENT, CAP_AMBIENT_CLEAR_ALL)
    if kept is not None:
        _prctl(CAP_AMBIENT, CAP_AMBIENT_RAISE, kept)


def _filter_calls(program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    whole = Program(len(program) // 8, program)
    _checked(_libc.prctl(SET_SECCOMP, 2, ctypes.byref(whole), 0, 0))


def _become(command: list[str], options: dict[str, Any], guard: int) -> NoReturn:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    _close_all_but({0, 1, 2, *options["fds"]})
    with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 - pathlib takes a third of the start
        file.write("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(options["workspace"])
    _prctl(SET_NO_NEW_PRIVS, 1)
    _landlock(options["paths"], options["abi"], network=options["network"] == "full")
    _drop_rights(options["user"])
    # Only now: a change of user forgets it.
    _prctl(SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    _filter_calls(bytes.fromhex(options["filter"]))
    os.execv(command[0], command)  # noqa: S606 - the very point


def _close_all_but(kept: set[int]) -> None:
    start = 0
    for fd in sorted(kept):
        # An empty range from 0 on would close everything.
        if start < fd:
            os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _descendants() -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes a third of the start
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - the same
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    family = [os.getpid()]
    for member in family:
        family += children.get(member, [])
    yield from family[1:]


def _reap(command: int) -> int | None:
    """Reap whatever has died; the status of the command's process if it is among them. No child: ChildProcessError."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return None
        if pid == command:
            return status


def _guard(command: int, link: int, woken: int) -> int | None:
    """Wait for the end of the command and give its exit status; None when the worker wants it no more."""
    import select

    waiting = select.poll()
    waiting.register(link, select.POLLIN)
    waiting.register(woken, select.POLLIN)
    status = None
    asked = False
    while status is None and not asked:
        for fd, _ in waiting.poll():
            asked = asked or fd == link or signal.SIGTERM in os.read(woken, 512)
        status = _reap(command)
    return None if status is None else os.waitstatus_to_exitcode(status)


def _end_all() -> None:
    # Who has left its parents behind is a child of this process by now, or will be in a later round.
    while True:
        for pid in _descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            _reap(0)
        except ChildProcessError:
            return
        time.sleep(0.001)


def main(options: dict[str, Any], command: list[str]) -> NoReturn:
    """Start the command and stay until it and all that it started are dead."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    _prctl(SET_PDEATHSIG, signal.SIGTERM)
    _prctl(SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(command, options, guard)
        except BaseException as error:  # noqa: BLE001 - nothing of the guard's may run here
            os.write(2, f"the step could not be confined: {error}\n".encode())
            os._exit(126)
    link = options["link"]
    _close_all_but({link, read, write})
    status: int | None = 126
    try:
        status = _guard(child, link, read)
    finally:
        _end_all()
        if status is None:
            if _worker_died(link):
                os.execv("/bin/rm", ["rm", "-rf", "--", options["scratch"]])  # noqa: S606 - nothing else is left to do
            status = 0
        # A signal is told as a shell does.
        os._exit(128 - status if status < 0 else status)


def _worker_died(link: int) -> bool:
    import select

    # The thread that started this process ends a little before the worker's files are closed.
    readable, _, _ = select.select([link], [], [], 1)
    return bool(readable) and not os.read(link, 1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
