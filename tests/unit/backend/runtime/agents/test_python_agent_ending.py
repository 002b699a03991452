import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend.isolation.sandbox.layer import remove_leftovers
from backend.isolation.sandbox.sandbox import WARM
from backend.runtime.agents import StepFailed, run_python_step
from tests.support.answers import value_in_process
from tests.unit.backend.isolation.sandbox.layers import in_every_layer
from tests.unit.backend.isolation.sandbox.steps import Steps, eventually, marker, running

REPOSITORY = Path(__file__).resolve().parents[5]

WITH_CHILDREN = """
import subprocess, time
def run(context):
    children = [
        subprocess.Popen(["sleep", context.parameters["marker"]], **kind)
        for kind in ({}, {"start_new_session": True})
    ]
    context.progress("started")
    time.sleep(context.parameters["seconds"])
    return "done"
"""

DAEMON = """
import os, time
def run(context):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(1), os.close(2)
            os.execv("/usr/bin/sleep", ["sleep", context.parameters["marker"]])
        os._exit(0)
    os.wait()
    context.progress("started")
    time.sleep(3600)
"""


async def cancelled_once_started(steps: Steps, code: str, sleeper: str, cancels: int = 1) -> None:
    started = asyncio.Event()
    request = steps.request(code, parameters={"marker": sleeper, "seconds": 3600})
    task = asyncio.create_task(
        run_python_step(steps.sandbox, request, lambda _message, _data: started.set(), value_in_process)
    )
    await started.wait()
    assert eventually(lambda: bool(running(sleeper)))
    for _ in range(cancels):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


@in_every_layer
@pytest.mark.parametrize("cancels", [1, 3])
def test_a_cancelled_step_is_dead_with_its_children_when_the_call_returns(steps: Steps, cancels: int) -> None:
    sleeper = marker()
    asyncio.run(cancelled_once_started(steps, WITH_CHILDREN, sleeper, cancels))
    assert running(sleeper) == []
    assert not steps.sandbox.open_processes
    assert not steps.outputs.exists()


@pytest.mark.parametrize("sandbox", ["bwrap", "landlock", "landlock, service's user"], indirect=True)
def test_a_detached_grandchild_dies_too(steps: Steps) -> None:
    """Only a process namespace or a guard can hold a process that left its session and its parents."""
    sleeper = marker()
    asyncio.run(cancelled_once_started(steps, DAEMON, sleeper))
    assert running(sleeper) == []


@in_every_layer
@pytest.mark.parametrize("seconds", [0, 3600])
def test_children_do_not_outlive_a_step_that_ends(steps: Steps, seconds: int) -> None:
    sleeper = marker()
    request = steps.request(WITH_CHILDREN, parameters={"marker": sleeper, "seconds": seconds})
    if seconds:
        request = steps.request(WITH_CHILDREN.replace("time.sleep", "1 / 0 or"), parameters=request.parameters)
        with pytest.raises(StepFailed, match="ZeroDivisionError"):
            asyncio.run(run_python_step(steps.sandbox, request, steps.on_progress, value_in_process))
    else:
        asyncio.run(run_python_step(steps.sandbox, request, steps.on_progress, value_in_process))
    assert running(sleeper) == []


@in_every_layer
def test_a_signal_to_die_cannot_be_held_off(steps: Steps) -> None:
    code = "import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\n" + WITH_CHILDREN
    sleeper = marker()
    asyncio.run(cancelled_once_started(steps, code, sleeper))
    assert running(sleeper) == []


WORKER = """
import asyncio, sys
from pathlib import Path
from backend.runtime.agents import Limits, StepRequest, run_python_step
from backend.isolation.sandbox import choose_sandbox
from tests.support.answers import value_in_process

async def main():
    sandbox = choose_sandbox(sys.argv[1], warm=2)
    code = Path(sys.argv[2]).read_text()
    parameters = {"marker": sys.argv[3], "seconds": 3600}
    limits = Limits(1024, 60, 16)
    await asyncio.gather(*(
        run_python_step(
            sandbox,
            StepRequest("s", {"code": code}, parameters, None, {}, None, {}, Path(sys.argv[4]) / str(n), {}, limits),
            lambda message, data: print(data["pid"], flush=True),
            value_in_process,
        )
        for n in range(3)
    ))

asyncio.run(main())
"""


@in_every_layer
def test_kill_of_the_worker_ends_its_steps_within_two_seconds(steps: Steps, tmp_path: Path) -> None:
    """Where nothing isolates, only the step's first process is sure to die with the worker."""
    layer = steps.sandbox.layer.name
    if layer == "none":
        code = WITH_CHILDREN.replace('({}, {"start_new_session": True})', "()")
        with killed_worker(layer, code, marker(), tmp_path) as pids:
            assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    else:
        sleeper = marker()
        with killed_worker(layer, WITH_CHILDREN, sleeper, tmp_path):
            assert eventually(lambda: not running(sleeper))


@pytest.mark.parametrize("sandbox", ["bwrap", "landlock"], indirect=True)
def test_kill_of_the_worker_ends_detached_grandchildren_and_leaves_no_files(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = marker()
    with killed_worker(steps.sandbox.layer.name, DAEMON, sleeper, tmp_path):
        assert eventually(lambda: not running(sleeper))
        # Guards remove what they watched; what had no guard yet, one in the making among them, goes at the next start.
        assert eventually(lambda: len(list(tmp_path.glob("step-*"))) <= WARM + 1)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        remove_leftovers()
        assert eventually(lambda: not list(tmp_path.glob("step-*"))), "a guard may be at it"


@contextmanager
def killed_worker(layer: str, code: str, sleeper: str, folder: Path) -> Iterator[list[int]]:
    """A worker that was killed with three steps running: what they said their process ids are."""
    (folder / "agent").write_text(code.replace('("started")', '("started", pid=__import__("os").getpid())'))
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, layer, str(folder / "agent"), sleeper, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)},
    ) as worker:
        assert worker.stdout is not None
        pids = [int(worker.stdout.readline()) for _ in range(3)]
        assert layer == "none" or eventually(lambda: len(running(sleeper)) >= 3)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        yield pids
