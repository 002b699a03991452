"""Attacks of a hostile step on processes, its own and others'."""

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from backend.runtime.agents import Limits, StepFailed, run_python_step
from tests.support.answers import value_in_process
from tests.unit.backend.isolation.sandbox.escapes.attempt import ATTEMPT
from tests.unit.backend.isolation.sandbox.layers import counts_processes
from tests.unit.backend.isolation.sandbox.steps import Steps, marker, running


def test_processes_outside_cannot_be_touched(confined: Steps, sleeper: "subprocess.Popen[bytes]") -> None:
    tried = confined.run(
        ATTEMPT
        + """
import ctypes, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "failed")
def run(context):
    tried = {}
    for pid in {context.parameters["pid"], os.getppid()} - {1}:
        tried |= {
            f"{pid} signal": attempt(os.kill, pid, signal.SIGUSR1),
            f"{pid} trace": attempt(lambda: check(libc.ptrace(16, pid, None, None))),
            f"{pid} memory": attempt(lambda: check(libc.process_vm_readv(pid, None, 0, None, 0, 0))),
            f"{pid} limit": attempt(resource.prlimit, pid, resource.RLIMIT_CORE, (0, 0)),
            f"{pid} priority": attempt(os.setpriority, os.PRIO_PROCESS, pid, 19),
            f"{pid} processors": attempt(os.sched_setaffinity, pid, {0}),
            f"{pid} files": attempt(os.listdir, f"/proc/{pid}/fd"),
            f"{pid} memory file": attempt(open, f"/proc/{pid}/mem", "rb"),
        }
    return tried
""",
        parameters={"pid": sleeper.pid},
    )
    assert [name for name, refused in tried.items() if refused is None] == []
    assert sleeper.poll() is None


def test_everybody_cannot_be_signalled_at_once(confined: Steps, sleeper: "subprocess.Popen[bytes]") -> None:
    """Sends signal 0 first; the real signal follows only if that reached no process but the step's own."""
    found = confined.run(
        """
        import os, signal
        def run(context):
            found = []
            for target in (-1, -context.parameters["pid"], context.parameters["pid"]):
                try:
                    os.kill(target, 0)
                except OSError:
                    continue
                found.append(target)
            return found
        """,
        parameters={"pid": sleeper.pid},
    )
    assert set(found) <= {-1}
    assert sleeper.poll() is None


BOMB = """
import os, signal, time
def run(context):
    started = 0
    while started < 700:
        try:
            if os.fork() == 0:
                signal.alarm(30)
                os.execv("/usr/bin/sleep", ["sleep", context.parameters["marker"]])
        except BlockingIOError:
            break
        started += 1
    context.progress("full", started=started)
    time.sleep(1 if started < 256 else 15)
    return started
"""


def test_a_fork_bomb_is_bounded(confined: Steps) -> None:
    """By the kernel if it can count the step's own processes, else by `LimitWatch`."""
    sleeper = marker()
    if counts_processes(confined.sandbox.layer):
        assert confined.run(BOMB, parameters={"marker": sleeper}) < 256
    else:
        with pytest.raises(StepFailed) as failed:
            confined.run(BOMB, parameters={"marker": sleeper})
        assert failed.value.type == "ProcessLimit"
    assert running(sleeper) == []


RESTLESS = """
import ctypes, os, time
def run(context):
    ctypes.CDLL(None).prctl(15, context.parameters["name"].encode(), 0, 0, 0)
    context.progress("started")
    # Long after the limit, whose time stands still while the test looks at the processes.
    ends = time.monotonic() + 120
    first = os.getpid()
    while time.monotonic() < ends:
        try:
            if os.getpid() == first:
                os.fork()
            if os.fork() != 0 and os.getpid() != first:
                os._exit(0)
            os.setsid()
        except OSError:
            time.sleep(0.001 if os.getpid() == first else 0)
"""


def test_processes_that_never_stand_still_are_all_killed(confined: Steps) -> None:
    """Each exits before it can be counted, and leaves a child in a session of its own."""
    name = f"restless-{os.getpid()}"
    seen: list[str] = []
    with pytest.raises(StepFailed, match=r"longer than its 2 seconds|more than 256 processes"):
        asyncio.run(
            run_python_step(
                confined.sandbox,
                confined.request(RESTLESS, parameters={"name": name}, limits=Limits(256, 2, 16)),
                lambda *_: seen.extend(_named(name)),
                value_in_process,
            )
        )
    assert seen != []
    assert _named(name) == []


def _named(name: str) -> list[str]:
    """Returns the processes of the machine that have this name."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and (entry / "comm").read_text().strip() == name:
                found.append(entry.name)
    return found
