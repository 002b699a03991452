"""Program that imports modules of steps once, then forks a runner for each step; uses the standard library alone.

It is started by bubblewrap with capabilities over nothing but its own namespaces. The first process maps users and
waits; the second is the template, in a user namespace of its own. It knows no request, has no file of any run, and
answers READY once. It answers each message on its socket by forking the first process of a new process namespace, as
FORKED with a pidfd, or by the reason why it cannot. That process isolates itself (`isolation`), and forks the runner,
which then waits for its one request; the template sees neither request nor result.

The template prepares once what each fork would prepare in pages copied for it; a page fault is 2 us of processor time.
Opened streams save a step 33 faults, a rehearsed step 40 and the interpreter's adaptation of code: 0.3 ms of 4.6
together. (`perf stat` of task-clock and minor-faults on a template, with its forks.)
"""

from __future__ import annotations

import asyncio  # noqa: F401 - so that steps need not load it
import ctypes
import errno
import gc
import json  # noqa: F401 - likewise
import marshal
import os
import pathlib  # noqa: F401 - likewise
import select
import signal
import socket
import sys
import traceback
import typing  # noqa: F401 - likewise

from backend.isolation.confined.restrictions import (
    CLONE_NEWUSER,
    SET_CHILD_SUBREAPER,
    SET_DUMPABLE,
    SET_KEEPCAPS,
    SET_NO_NEW_PRIVS,
    SET_PDEATHSIG,
    close_all_but,
    filter_calls,
    prctl,
)
from backend.isolation.sandbox.inside.agent_code import code_of, provide_library
from backend.isolation.sandbox.inside.channel import StepChannel
from backend.isolation.sandbox.inside.isolation import (
    CLONE_NEWPID,
    SYS_ADMIN,
    TEMPLATE_CAPABILITIES,
    fork_first,
    fork_plainly,
    isolate,
    keep_capabilities,
    reset_signal,
    unmount_below,
    unshare,
    use_capabilities,
    with_retries,
)
from backend.isolation.sandbox.inside.runner import NESTING_LIMIT, answer, flush, preload, run, use_packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Options = dict[str, Any]
    """Options of a template, as `sandbox.template` sends them."""


READY, FORKED = b"ready", b"forked"
"""Answers of a template to its worker: once, and for each step."""
IMPOSSIBLE, FAILED = b"impossible: ", b"failed: "
"""Prefixes of a reason: steps can never be forked here, or cannot at the moment."""

_MOST_REASON_BYTES = 1_000
_LASTING = {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENODEV, errno.ENOSYS, errno.EOPNOTSUPP}


class UnforkableError(Exception):
    """The preloaded modules cannot be forked for steps; the message says why."""


def failure(error: BaseException) -> bytes:
    """Returns the answer for an error, which invites another try if the machine may only lack resources now."""
    lasting = error.errno in _LASTING if isinstance(error, OSError) else not isinstance(error, MemoryError)
    text = f"{type(error).__name__}: {error}".encode(errors="replace")
    return (IMPOSSIBLE if lasting else FAILED) + text[:_MOST_REASON_BYTES]


def reason(answer: bytes) -> str:
    """Returns the reason of an answer that has one, else an empty string."""
    return answer.partition(b": ")[2].decode(errors="replace")


_REHEARSALS = 40
# Preloaded modules may have wrapped the buffers of these streams, which close with the streams.
_replaced: list[object] = []
_EMPTY_STEP = "def run(context):\n    return {'empty': [1, 1.0, None]}\n"


def prepare_forks(folder: str) -> None:
    """Readies this process to fork steps; `folder` is an empty folder."""
    open_streams()
    provide_library()
    rehearse(folder)


def open_streams() -> None:
    """Opens standard output and standard error as pipes, as a step has them for its log."""
    read, write = os.pipe()
    before = [os.dup(fd) for fd in (1, 2)]
    # The streams find out here that pipes cannot seek.
    for fd in (1, 2):
        os.dup2(write, fd)
    _replaced.extend((sys.__stdout__, sys.__stderr__))
    for fd, name in ((1, "stdout"), (2, "stderr")):
        stream = open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - a descriptor
        stream.buffer.raw.name = f"<{name}>"  # type: ignore[attr-defined]  # as in a new interpreter
        # As Python does, which keeps the stream open while an agent wraps its buffer in another.
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for fd, earlier in zip((1, 2), before, strict=True):
        os.dup2(earlier, fd)
    for fd in (read, write, *before):
        os.close(fd)


def rehearse(folder: str) -> None:
    """Runs an empty step here, with an empty folder of outputs, until the interpreter has adapted its code.

    Adapted code and caches of types are then shared; otherwise every fork would write them into pages of its own.
    """
    read_end, write_end = os.pipe()
    preloaded = sys.modules.pop("agent", None)
    limits = {"event_bytes": 1, "events": 1, "event_data_bytes": 1, "json_levels": 1_000, "result_bytes": 1_000}
    outputs = {"levels": 1, "files": 1, "directories": 1}
    given = (
        *("attempt", "run_id", "step", "client_reference", "failure", "parameters", "input_text", "needs"),
        *("large_needs", "item", "large_item", "item_index", "input", "call", "connectors", "secrets"),
    )
    for _ in range(_REHEARSALS):
        request = dict.fromkeys(given) | {"needs": {}, "large_needs": {}, "data_limits": limits}
        request |= {"code": {"text": _EMPTY_STEP, "name": "agent.py"}}
        request |= {"folders": dict.fromkeys(("outputs", "shared", "files"), folder)}
        channel = StepChannel(write_end)
        answer(channel, request, code_of(request), outputs)
        os.read(read_end, 1_000)
    for fd in (read_end, write_end):
        os.close(fd)
    del sys.modules["agent"]
    if preloaded is not None:
        sys.modules["agent"] = preloaded


MOST_MESSAGE_BYTES = 64 * 1024
DESCRIPTORS = 3
"""The runner's socket, its log, and where the first process of its namespace reports the runner's status."""
PROBE_WORKSPACE_BYTES = 1024 * 1024

_REAP_MILLISECONDS = 1_000
_INTERRUPT, _KILL, _NO_TIME_LEFT = map(int, (signal.SIGINT, signal.SIGKILL, signal.SIGXCPU))


def main(control_fd: int) -> NoReturn:
    """Starts the template, and ends when the template ends."""
    control = socket.socket(fileno=control_fd)
    options: Options = marshal.loads(control.recv(MOST_MESSAGE_BYTES))  # noqa: S302 - the worker made it
    try:
        unmount_below("/proc")
        entered, mapped = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        prctl(SET_CHILD_SUBREAPER, 1)
        between = os.fork()
        if between == 0:
            _enter_user_namespace(options, entered[1], mapped[0])
            # The template returns to this namespace of processes after each fork, so it must be its own.
            unshare(CLONE_NEWPID)
            if os.fork() != 0:
                os._exit(0)
            _prepare(control, options)
            _serve(control, options)
        os.read(entered[0], 1)
        _map_users(between, options)
        os.write(mapped[1], b"m")
        close_all_but(set())
        keep_capabilities(())
        prctl(SET_DUMPABLE, 0)
        while True:
            os.wait()
    except ChildProcessError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the worker must know that there is no template
        control.send(failure(error))
    os._exit(1)


def _enter_user_namespace(options: Options, entered: int, mapped: int) -> None:
    if options["own_users"]:
        prctl(SET_KEEPCAPS, 1)
        os.setgroups([])
        user = options["user"]
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        # This process may make a user namespace even where ordinary users may not.
        use_capabilities(1 << SYS_ADMIN)
    unshare(CLONE_NEWUSER)
    os.write(entered, b"e")
    os.read(mapped, 1)
    keep_capabilities(TEMPLATE_CAPABILITIES)
    prctl(SET_NO_NEW_PRIVS, 1)
    filter_calls(options["template_filter"])


def _map_users(process: int, options: Options) -> None:
    first, count = options["users"]
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{process}/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib is no shorter
            file.write(f"{first} {first} {count}")


def _prepare(control: socket.socket, options: Options) -> None:
    """Imports the modules that the environment preloads, then tries the isolation out."""
    close_all_but({0, 1, 2, control.fileno()})
    sys.setrecursionlimit(NESTING_LIMIT)
    packages = options["packages"]
    modules = [] if packages is None else use_packages(packages)
    _end_by(signal.SIGXCPU)
    options["failures"] = preload(modules)
    flush()
    prepare_forks("/step")
    # Hooks that modules registered for a fork take 0.4 ms, and no module of the template needs them.
    options["fork_runner"] = os.fork if modules else fork_plainly
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    options["own"] = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    read, write = os.pipe2(os.O_CLOEXEC)
    first = fork_first(options["own"])
    if first == 0:
        try:
            isolate(options, options["user"], PROBE_WORKSPACE_BYTES)
        except BaseException as error:  # noqa: BLE001 - the code of the template must not run in this process
            os.write(write, failure(error))
        os._exit(0)
    os.close(write)
    failed = os.read(read, MOST_MESSAGE_BYTES)
    os.close(read)
    os.waitpid(first, 0)
    if failed:
        control.send(failed)
        os._exit(1)
    _refuse_what_forks_would_share({0, 1, 2, control.fileno(), options["own"]})
    gc.collect()
    gc.freeze()
    control.send(READY)


def _end_by(number: int) -> None:
    """Makes a signal end this process; the kernel drops unhandled signals of a namespace's first process.

    The handler is not Python's, because an extension module need not return to the interpreter.
    """
    libc = ctypes.CDLL(None)
    libc.signal(number, ctypes.cast(libc["_exit"], ctypes.c_void_p))


def _refuse_what_forks_would_share(known: set[int]) -> None:
    """Raises UnforkableError if modules left a descriptor or memory by which steps could pass messages, or a thread.

    A pool of threads may end its threads before a fork, as that of OpenBLAS does, so the first fork comes before this.
    """
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - pathlib takes longer
        raise UnforkableError("what is preloaded has started threads")
    inherited = {int(fd) for fd in os.listdir("/proc/self/fd")} - known  # noqa: PTH208 - pathlib takes longer
    if any(os.path.lexists(f"/proc/self/fd/{fd}") for fd in inherited):  # that of the listing is closed
        raise UnforkableError("what is preloaded holds open files")
    with open("/proc/self/maps", "rb") as maps:  # noqa: PTH123 - pathlib takes longer
        if any(line.split(b" ", 2)[1] == b"rw-s" for line in maps):
            raise UnforkableError("what is preloaded holds shared memory")
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    raise UnforkableError("what is preloaded has started processes")


def _serve(control: socket.socket, options: Options) -> NoReturn:
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    running = 0
    while True:
        asked = waiting.poll(_REAP_MILLISECONDS if running else None)
        while running and os.waitpid(-1, os.WNOHANG)[0]:
            running -= 1
        if not asked:
            continue
        message, fds, _, _ = socket.recv_fds(control, MOST_MESSAGE_BYTES, DESCRIPTORS)
        if not message:
            os._exit(0)
        running += _fork_step(control, options, message, fds)


def _fork_step(control: socket.socket, options: Options, message: bytes, fds: list[int]) -> int:
    """Forks a step and answers with its first process, or the reason why not; closes `fds`.

    Returns the number of steps forked. Raises RuntimeError: the template must end, with its forks.
    """
    forked = 0
    try:
        _make_room(control, fds)
        user, workspace_bytes = marshal.loads(message)  # noqa: S302 - the worker made it
        first = fork_first(options["own"])
        if first == 0:
            try:
                _begin(options, user, workspace_bytes, fds[:DESCRIPTORS])
            finally:
                os._exit(126)
        forked = 1
    except (OSError, MemoryError) as error:
        control.send(failure(error))
    else:
        os.close(fds.pop())
        # The child's id cannot have been used again, for the child has not been reaped.
        fds.append(with_retries(os.pidfd_open, first))
        with_retries(socket.send_fds, control, [FORKED], fds[DESCRIPTORS:])
    finally:
        for fd in fds:
            os.close(fd)
    return forked


def _make_room(control: socket.socket, fds: list[int]) -> None:
    """Adds to a step's descriptors one that its pidfd will replace. Raises OSError if there is no room for all."""
    if len(fds) != DESCRIPTORS:
        raise OSError(errno.EMFILE, "the template has no room for the descriptors of the step")
    fds.append(os.dup(control.fileno()))


def _begin(options: Options, user: int, workspace_bytes: int, fds: list[int]) -> NoReturn:
    """Isolates this process, forks the runner, reaps the runner's orphans, and reports the runner's status."""
    channel, log, report = fds
    try:
        # Opened again, because a descriptor that steps shared would carry its flags from one to the next.
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        close_all_but({0, 1, 2, channel, report})
        os.setsid()
        isolate(options, user, workspace_bytes)
        # Set again after the change of user, which resets it. Another process of the step's user can neither trace nor
        # read this one.
        prctl(SET_DUMPABLE, 0)
        prctl(SET_PDEATHSIG, _KILL)
        step = options["fork_runner"]()
        if step == 0:
            _start(options, channel, report)
    except BaseException as error:  # noqa: BLE001 - the code of the template must not run in this process
        os.write(2, f"the step could not be isolated: {type(error).__name__}: {error}\n".encode(errors="replace"))
        os._exit(126)
    # The kernel keeps from this process the signals of the step that it has no handler for.
    for number in (_INTERRUPT, _NO_TIME_LEFT):
        reset_signal(number)
    close_all_but({report})
    ended, status = os.wait()
    while ended != step:
        ended, status = os.wait()
    os.write(report, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _start(options: Options, channel: int, report: int) -> NoReturn:
    try:
        os.close(report)
        prctl(SET_DUMPABLE, 1)
        reset_signal(_NO_TIME_LEFT)
        os.chdir(options["workspace"])
        run(channel, options["failures"])
    except SystemExit:
        os._exit(0)
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
