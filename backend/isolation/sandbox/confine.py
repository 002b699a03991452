"""Program that runs a command under Landlock and a filter of system calls; uses the standard library alone.

Its arguments are options as JSON and the command. The first process is the guard, which is not confined: orphans of the
command become its children, and it kills all of them when the command exits, when the worker asks for it on the link,
or when the worker dies. The second process drops its rights and executes the command.
"""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from backend.isolation.confined.restrictions import (
    SET_CHILD_SUBREAPER,
    SET_NO_NEW_PRIVS,
    SET_PDEATHSIG,
    close_all_but,
    drop_rights,
    filter_calls,
    prctl,
    restrict_files,
)


def _execute(command: list[str], options: dict[str, Any], guard: int) -> NoReturn:
    """Drops the rights of this process, and executes the command in it."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    close_all_but({0, 1, 2, *options["fds"]})
    with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 - pathlib takes a third of the start
        file.write("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(options["workspace"])
    prctl(SET_NO_NEW_PRIVS, 1)
    restrict_files(options["paths"], options["abi"], network=options["network"] == "full")
    drop_rights(options["user"])
    # Set after the change of user, which resets this signal.
    prctl(SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    filter_calls(bytes.fromhex(options["filter"]))
    os.execve(command[0], command, {**os.environ, **options["variables"]})  # noqa: S606, TID251 - the purpose of this program, which was given its environment


def _descendants() -> Iterator[int]:
    """Yields the ids of all processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes a third of the start
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - pathlib takes longer
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    family = [os.getpid()]
    for member in family:
        family += children.get(member, [])
    yield from family[1:]


def _reap(command: int) -> int | None:
    """Reaps dead children; returns the command's status if the command is among them.

    Raises:
        ChildProcessError: no child is left.
    """
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return None
        if pid == command:
            return status


def _guard(command: int, link: int, wakeups: int) -> int | None:
    """Waits for the end of the command and returns its exit status; None if the worker ends it first."""
    import select

    waiting = select.poll()
    waiting.register(link, select.POLLIN)
    waiting.register(wakeups, select.POLLIN)
    status = None
    asked = False
    while status is None and not asked:
        for fd, _ in waiting.poll():
            asked = asked or fd == link or signal.SIGTERM in os.read(wakeups, 512)
        status = _reap(command)
    return None if status is None else os.waitstatus_to_exitcode(status)


def _end_all() -> None:
    """Kills and reaps all descendants; orphans become children of this process, at the latest in a later round."""
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
    """Runs the command, and exits with its status once it and all processes that it started are dead."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    prctl(SET_PDEATHSIG, signal.SIGTERM)
    prctl(SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _execute(command, options, guard)
        except BaseException as error:  # noqa: BLE001 - the code of the guard must not run in this process
            os.write(2, f"the step could not be confined: {error}\n".encode())
            os._exit(126)
    link = options["link"]
    close_all_but({link, read, write})
    status: int | None = 126
    try:
        status = _guard(child, link, read)
    finally:
        _end_all()
        if status is None:
            if _worker_died(link):
                os.execv("/bin/rm", ["rm", "-rf", "--", options["scratch"]])  # noqa: S606 - the last act of this process
            status = 0
        # Signals are encoded as shells do.
        os._exit(128 - status if status < 0 else status)


def _worker_died(link: int) -> bool:
    import select

    # SIGTERM comes when the thread that started this process ends, a little before the worker's files are closed.
    readable, _, _ = select.select([link], [], [], 1)
    return bool(readable) and not os.read(link, 1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
