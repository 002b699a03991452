"""Attacks of a hostile step on its template, and on the steps that are forked from it later or beside."""

import asyncio
from dataclasses import replace
from pathlib import Path

from backend.isolation.sandbox import StepPackages
from backend.runtime.agents import run_python_step
from tests.support.answers import value_in_process
from tests.unit.backend.isolation.sandbox.escapes.attempt import ATTEMPT
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps
from tests.unit.backend.isolation.sandbox.templates import IDENTITY, process_of, serving


def test_nothing_that_a_step_leaves_is_seen_by_the_next(forking: Steps) -> None:
    """In memory, environment, folders, settings of the process, and descriptors: those of the standard streams too."""
    leave = """
        import builtins, fcntl, json, os, resource, signal, sys
        def run(context):
            builtins.left = json.left = "left"
            os.environ["LEFT"] = "left"
            sys.path.append("/left")
            os.nice(5)
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
            for place in ("/tmp", "/dev/shm", "/step", "/step/outputs", "/step/code"):
                open(f"{place}/left", "w").close()
            os.chdir("/step/tmp")
            os.open("/tmp/left", os.O_RDONLY)
            for fd in (0, 1, 2, 3, 4):
                try:
                    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)
                except OSError:
                    pass
            os.umask(0o777)
    """
    look = """
        import builtins, fcntl, json, os, resource, signal, sys
        def run(context):
            return {
                "memory": hasattr(builtins, "left") or hasattr(json, "left") or "/left" in sys.path,
                "environment": "LEFT" in os.environ,
                "mask": os.umask(0),
                "priority": os.nice(0),
                "signal": signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL,
                "limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 50,
                "files": [f for _, _, files in os.walk("/step") for f in files],
                "folder": os.getcwd() != "/step/workspace",
                "flags": [fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND) for fd in (0, 1, 2)],
                "descriptors": len(os.listdir("/proc/self/fd")) - 5,
            }
    """
    before = forking.run(look)
    forking.run(leave)
    after = forking.run(look)
    assert after == before
    assert {name: found for name, found in after.items() if found} == {"mask": 0o022, "flags": [0, 0, 0]}


def test_no_memory_is_shared_between_steps(forking: Steps) -> None:
    code = "def run(context): return [line for line in open('/proc/self/maps') if line.split()[1] == 'rw-s']"
    assert forking.run(code) == []


def test_steps_have_random_numbers_of_their_own(forking: Steps, tmp_path: Path) -> None:
    """Also those that a preloaded module of numpy holds, and those of OpenSSL, which looks at the process's id."""
    numpy = tmp_path / "packages" / "numpy" / "random"
    numpy.mkdir(parents=True)
    (numpy.parent / "__init__.py").touch()
    (numpy / "__init__.py").write_text("import os\nSEEDS = []\ndef seed():\n    SEEDS.append(os.urandom(8).hex())\n")
    limits = replace(LIMITS, packages=StepPackages(tmp_path / "packages", ("random", "ssl", "numpy.random")))
    if not forking.sandbox.layer.own_user:  # type: ignore[attr-defined]
        limits = replace(limits, packages=None)
    code = """
        import os, random, ssl, sys, uuid
        def run(context):
            numpy = getattr(sys.modules.get("numpy.random"), "SEEDS", os.urandom(8).hex())
            return [str(numpy), random.random(), ssl.RAND_bytes(8).hex(), str(uuid.uuid4())]
    """
    first, second, third = (forking.run(code, limits=limits) for _ in range(3))
    assert all(len(set(drawn)) == 3 for drawn in zip(first, second, third, strict=True))


def test_what_is_above_a_step_can_be_neither_reached_nor_ended(forking: Steps) -> None:
    """The first process of its namespace is a fork of the template, which itself does not exist in there."""
    before = process_of(serving(forking.sandbox))
    tried, seen = forking.run(
        ATTEMPT
        + """
import ctypes, resource, signal, time
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "failed")
def run(context):
    tried = {
        "trace": attempt(lambda: check(libc.ptrace(16, 1, None, None))),
        "read memory": attempt(lambda: check(libc.process_vm_readv(1, None, 0, None, 0, 0))),
        "limit": attempt(resource.prlimit, 1, resource.RLIMIT_CPU, (1, 1)),
        "priority": attempt(os.setpriority, os.PRIO_PROCESS, 1, 19),
        "processors": attempt(os.sched_setaffinity, 1, {0}),
        "memory file": attempt(open, "/proc/1/mem", "r+b"),
        "environment": attempt(open, "/proc/1/environ"),
        "map": attempt(open, "/proc/1/maps"),
        "descriptors": attempt(os.readlink, "/proc/1/fd/0"),
        "root": attempt(os.listdir, "/proc/1/root"),
        "namespace": attempt(os.open, "/proc/1/ns/mnt", os.O_RDONLY),
        "first user": attempt(lambda: check(libc.setns(os.pidfd_open(1), 0x10000000))),
    }
    for number in range(1, 65):
        for target in (1, -1) if number not in (signal.SIGKILL, signal.SIGSTOP) else (1,):
            if number != signal.SIGCONT and target == -1:
                signal.signal(number, signal.SIG_IGN) if number not in (32, 33) else None
            attempt(os.kill, target, number)
    time.sleep(0.2)
    return [tried, sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())]
"""
    )
    assert [name for name, refused in tried.items() if refused is None] == []
    assert seen == [1, 2]
    assert forking.run(IDENTITY)
    assert process_of(serving(forking.sandbox)) == before


BOMB = """
import os, time
def run(context):
    context.progress("started")
    ends = time.monotonic() + 3
    while time.monotonic() < ends:
        try:
            if os.fork() == 0:
                while True:
                    bytearray(1024 * 1024)
        except OSError:
            time.sleep(0.01)
"""


def test_a_fork_bomb_does_not_keep_its_template_from_forking(forking: Steps) -> None:
    async def beside() -> None:
        started = asyncio.Event()
        bomb = asyncio.create_task(
            run_python_step(forking.sandbox, forking.request(BOMB), lambda *_: started.set(), value_in_process)
        )
        await started.wait()
        done = await run_python_step(forking.sandbox, forking.request(IDENTITY), lambda *_: None, value_in_process)
        assert done.value is True
        bomb.cancel()
        await asyncio.gather(bomb, return_exceptions=True)

    asyncio.run(beside())
