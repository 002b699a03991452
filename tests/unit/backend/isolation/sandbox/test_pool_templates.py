"""Steps that are forked from a template: what they share with it and with each other, and when there is none."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.isolation.confined.process import Spawner
from backend.isolation.sandbox import Sandbox, StepPackages, forked, template
from backend.isolation.sandbox.bubblewrap import Bubblewrap
from backend.isolation.sandbox.layer import TemplateLaunch
from backend.isolation.sandbox.limits import Limits
from backend.isolation.sandbox.pool import MOST_FAULTS, Templates
from backend.isolation.sandbox.watch import LimitWatch
from backend.runtime.agents import StepFailed, run_python_step
from tests.support.answers import value_in_process
from tests.support.poll import LONGEST_WAIT_SECONDS
from tests.unit.backend.isolation.sandbox.layers import await_start
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps, eventually, marker, running
from tests.unit.backend.isolation.sandbox.templates import IDENTITY, process_of, serving

REPOSITORY = Path(__file__).resolve().parents[5]


@pytest.mark.parametrize(("name", "value"), [("MOST_STEPS", 3), ("MOST_SECONDS", 0.0)])
def test_a_template_is_replaced_after_some_steps_and_some_time(
    name: str, value: float, forking: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = process_of(serving(forking.sandbox))
    monkeypatch.setattr(template, name, value)
    assert eventually(lambda: forking.run(IDENTITY) and process_of(serving(forking.sandbox)) != first)
    assert eventually(lambda: forking.run(IDENTITY) and not Path(f"/proc/{first}").exists())


def test_a_step_goes_on_while_its_template_is_replaced(forking: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "import time\ndef run(context):\n    context.progress('started')\n    time.sleep(1.5)\n    return 1"
    first = serving(forking.sandbox)

    async def beside() -> None:
        started = asyncio.Event()
        running = asyncio.create_task(
            run_python_step(forking.sandbox, forking.request(slow), lambda *_: started.set(), value_in_process)
        )
        await started.wait()
        monkeypatch.setattr(template, "MOST_STEPS", 1)
        assert await asyncio.to_thread(eventually, lambda: serving(forking.sandbox) is not first)
        monkeypatch.undo()
        assert (await running).value == 1

    asyncio.run(beside())


def test_a_template_that_fails_while_the_sandbox_closes_is_ended() -> None:
    layer = Bubblewrap()
    layer.check()
    watch, spawner, failed = LimitWatch(), Spawner("test-spawner"), threading.Event()
    before = set(descendants(os.getpid()))
    with program_that_waits() as program, ThreadPoolExecutor(1) as reapers:
        templates = Templates(layer, program, watch, spawner, reapers)
        assert templates.await_first(LIMITS, failed.set)
        # Two of bubblewrap, which die with the spawner's thread from the start of the third on.
        assert eventually(lambda: len(set(descendants(os.getpid())) - before) >= 3)
        started = set(descendants(os.getpid())) - before
        # Nothing of the spawner's is carried out afterwards.
        spawner.close()
        assert failed.wait(LONGEST_WAIT_SECONDS)
        templates.close()
    watch.close()
    assert not started & set(descendants(os.getpid()))


@contextmanager
def program_that_waits() -> Iterator[int]:
    program = os.memfd_create("program")
    try:
        os.write(program, b"import time\ntime.sleep(600)")
        yield program
    finally:
        os.close(program)


def test_a_template_that_is_being_set_up_ends_with_the_sandbox() -> None:
    """Bubblewrap's child does not die with it before it has asked for that."""
    sleeper = marker()

    class SettingUp(Bubblewrap):
        def launch_template(self, limits: Limits) -> TemplateLaunch | None:
            launch = super().launch_template(limits)
            argv = ["/bin/sh", "-c", f"sleep {sleeper} & wait", "sh"]
            return None if launch is None else replace(launch, launch=replace(launch.launch, argv=argv))

    layer = SettingUp()
    layer.check()
    sandbox = Sandbox(layer, warm=0)
    assert sandbox.templates.await_first(LIMITS, lambda: None)
    assert eventually(lambda: bool(running(sleeper)))
    sandbox.close()
    assert eventually(lambda: not running(sleeper))


def test_a_kill_of_a_template_that_another_thread_has_reaped_does_nothing(
    forking: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = serving(forking.sandbox)
    found.kill()
    assert eventually(lambda: forking.run(IDENTITY) and not has_processes(found.pid))
    # As it was when this thread looked, before the other one reaped it.
    monkeypatch.setattr(subprocess.Popen, "poll", lambda _: None)
    found.kill()


def has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_step_knows_its_own_thread_and_process(forking: Steps) -> None:
    code = """
        import os, threading
        def run(context):
            main = threading.main_thread()
            return [main.native_id, threading.get_native_id(), os.getpid()]
    """
    known, thread, process = forking.run(code)
    assert known == thread == process


def test_a_step_prints_line_by_line_to_its_own_log(forking: Steps) -> None:
    code = """
        import os, sys
        def run(context):
            print("first", end="\\n")
            os.write(1, b"second\\n")
            print("third \\udcff", file=sys.stderr)
            return [sys.stdout.seekable(), sys.stdout.line_buffering, sys.stdout.fileno(), sys.stderr.fileno()]
    """
    answer, log = forking.run_logged(code)
    assert answer == [False, True, 1, 2]
    assert log == b"first\nsecond\nthird \\udcff\n"
    assert forking.run_logged("def run(context): return None") == (None, b"")


def test_a_template_that_dies_is_replaced(forking: Steps) -> None:
    first = process_of(serving(forking.sandbox))
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: forking.run(IDENTITY) and process_of(serving(forking.sandbox)) != first)


def test_a_template_of_a_step_that_is_not_isolated_forks_no_more(
    forking: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three within an hour, steps have interpreters of their own."""
    request = forking.request(IDENTITY)
    for _ in range(MOST_FAULTS):
        first = serving(forking.sandbox)
        with monkeypatch.context() as changed:
            changed.setattr(forked, "NO_CAPABILITY", "another")
            with pytest.raises(StepFailed) as failed:
                forking.run(IDENTITY)
        assert failed.value.type == "SandboxFailed"
        assert first.faulty
        assert forking.sandbox.templates.forked(LIMITS) is None
        await_start(forking.sandbox, LIMITS)
    run = asyncio.run(run_python_step(forking.sandbox, request, lambda *_: None, value_in_process))
    assert run.value is False


WORKER = """
import sys
from pathlib import Path
from backend.isolation.sandbox import choose_sandbox
from tests.support.poll import LONGEST_WAIT_SECONDS
from tests.unit.backend.isolation.sandbox.layers import await_start
from tests.unit.backend.isolation.sandbox.steps import Steps
code = '''
    import os
    def run(context):
        context.progress("started")
        os.execv("/usr/bin/sleep", ["sleep", context.parameters["marker"]])
'''
steps = Steps(choose_sandbox("bwrap", warm=2), Path(sys.argv[1]))
steps.on_progress = lambda *_: print(flush=True)
steps.run(code, parameters={"marker": sys.argv[2]})
"""


LEAST_PROCESSES = 6
"""Two of bubblewrap, two of the template, and two of the step."""


def test_kill_of_the_worker_ends_templates_and_what_they_forked(bwrap: Sandbox, tmp_path: Path) -> None:
    """The step that runs, those that wait, and the template with all that is above it."""
    sleeper = marker()
    command = [sys.executable, "-c", WORKER, str(tmp_path), sleeper]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert eventually(lambda: bool(running(sleeper)))
        assert eventually(lambda: len(descendants(worker.pid)) >= LEAST_PROCESSES)
        family = descendants(worker.pid)
        worker.send_signal(signal.SIGKILL)
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))


def descendants(pid: int) -> list[int]:
    family = [pid]
    for one in family:
        # One that ends meanwhile has none.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{one}/task").iterdir():
                family += map(int, (task / "children").read_text().split())
    return family[1:]


def without(launch: TemplateLaunch, **options: Any) -> TemplateLaunch:
    return replace(launch, options={**launch.options, **options})


UNFIT: dict[str, tuple[Callable[[TemplateLaunch], TemplateLaunch], str]] = {
    "it does not start": (lambda one: replace(one, launch=replace(one.launch, argv=["/bin/false"])), "ended|reset"),
    "it may make no namespace": (lambda one: without(one, template_filter=one.options["filter"]), "PermissionError"),
    "its steps share its network": (lambda one: without(one, own_network=False), "shares the namespace net"),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_steps_have_interpreters_of_their_own_where_none_can_be_forked_as_it_must_be(
    unfit: str, bwrap: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change, reason = UNFIT[unfit]

    class Unfit(Bubblewrap):
        def launch_template(self, limits: Limits) -> TemplateLaunch | None:
            launch = super().launch_template(limits)
            return None if launch is None else change(launch)

    layer = Unfit()
    layer.check()
    sandbox = Sandbox(layer, warm=0)
    try:
        assert run_without_template(Steps(sandbox, tmp_path), LIMITS) is False
        assert run_without_template(Steps(sandbox, tmp_path), LIMITS) is False
    finally:
        sandbox.close()
    assert [re.search(reason, record.message) is not None for record in caplog.records] == [True]


def run_without_template(steps: Steps, limits: Limits) -> Any:
    """Runs a step once it is known whether a template serves."""
    await_start(steps.sandbox, limits)
    request = steps.request(IDENTITY, limits=limits, awaits_template=False)
    return asyncio.run(run_python_step(steps.sandbox, request, lambda *_: None, value_in_process)).value


SHARING = {
    "threads": "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
    "open files": "FILE = open(__file__)",
    "shared memory": "import mmap\nAREA = mmap.mmap(-1, 4096)",
    "processes": "import os, time\nif os.fork() == 0:\n    time.sleep(99)\n    os._exit(0)",
}


@pytest.mark.parametrize("held", SHARING)
def test_modules_that_hold_what_forks_would_share_are_imported_for_each_step(
    held: str, bwrap: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "holder.py").write_text(SHARING[held])
    limits = replace(LIMITS, packages=StepPackages(tmp_path / "packages", ("holder",)))
    assert run_without_template(Steps(bwrap, tmp_path), limits) is False
    assert [held in record.message for record in caplog.records] == [True]
