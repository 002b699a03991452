"""Templates and workers that lack processes, descriptors or users for a while: no step ends, and nobody is at fault."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from backend.sandbox.bubblewrap import OWN_USER, Bubblewrap
from backend.sandbox.process import StepProcess
from backend.sandbox.users import STEPS_PER_WORKER
from tests.unit.backend.sandbox.layers import opened
from tests.unit.backend.sandbox.steps import LIMITS, Steps, eventually
from tests.unit.backend.sandbox.templates import IDENTITY, process_of, serving


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    """Steps with users of their own, whose templates obey the limits of the kernel."""
    with opened("bwrap") as sandbox:
        if sandbox.layer._user is not OWN_USER:  # type: ignore[attr-defined]
            pytest.skip("a service that is root and may become other users is needed")
        yield Steps(sandbox, tmp_path)


IN_USER_NAMESPACE = """
import os, resource, sys
from pathlib import Path
from backend.confined.restrictions import CLONE_NEWUSER
from backend.sandbox.inside.isolation import enter
pid, name, most = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
enter(os.open(f"/proc/{pid}/ns/user", os.O_RDONLY), CLONE_NEWUSER)
if name == "namespaces":
    Path("/proc/sys/user/max_pid_namespaces").write_text(str(most))
else:
    kind = getattr(resource, name)
    resource.prlimit(pid, kind, (most, resource.prlimit(pid, kind)[1]))
"""


@contextmanager
def limited(pid: int, name: str, most: int, before: int) -> Iterator[None]:
    """Changes a limit of a template, with all capabilities over its user namespace."""
    try:
        subprocess.run([sys.executable, "-c", IN_USER_NAMESPACE, str(pid), name, str(most)], check=True)
        yield
    finally:
        subprocess.run([sys.executable, "-c", IN_USER_NAMESPACE, str(pid), name, str(before)], check=True)


@contextmanager
def worker_with_room_for(descriptors: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit_for(os.getpid(), descriptors), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_descriptors(pid: int) -> set[int]:
    # That of the listing itself is closed.
    return {int(fd.name) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}


def holds_its_own(pid: int) -> bool:
    """Whether a template holds its streams, its socket and its namespace, and nothing of a step."""
    return len(open_descriptors(pid)) == len(("input", "output", "error", "socket", "namespace"))


def limit_for(pid: int, descriptors: int) -> int:
    """Returns the limit of descriptors that leaves room for so many more."""
    used = open_descriptors(pid)
    return [fd for fd in range(len(used) + descriptors + 1) if fd not in used][descriptors]


def with_room_for(descriptors: int) -> Callable[[int], AbstractContextManager[None]]:
    return lambda pid: limited(pid, "RLIMIT_NOFILE", limit_for(pid, descriptors), 1_000)


SHORTAGES: dict[str, Callable[[int], AbstractContextManager[None]]] = {
    "no process": lambda pid: limited(pid, "RLIMIT_NPROC", 0, 1_000),
    "no namespace": lambda pid: limited(pid, "namespaces", 0, 1_000),
    "no descriptor": with_room_for(0),
    "no descriptor but two of the step's": with_room_for(2),
    "no descriptor but those of the step": with_room_for(3),
}


@pytest.mark.parametrize("shortage", SHORTAGES)
def test_a_template_outlives_a_shortage(shortage: str, steps: Steps) -> None:
    templates, found = steps.sandbox._templates, serving(steps.sandbox)
    pid = process_of(found)
    running = forked(steps)
    assert eventually(lambda: holds_its_own(pid))
    with SHORTAGES[shortage](pid):
        for _ in range(2):
            failed = templates.forked(LIMITS)
            assert failed is not None
            assert isinstance(failed.exception(), OSError)
    assert steps.run(IDENTITY) is True
    assert process_of(serving(steps.sandbox)) == pid
    assert eventually(lambda: holds_its_own(pid))
    assert running.alive
    running.end()
    running.close()
    assert taken(steps) == {found._launch.options["user"]}


def test_a_worker_without_descriptors_does_not_blame_its_template(steps: Steps) -> None:
    found = serving(steps.sandbox)
    before = open_descriptors(os.getpid())
    for room in range(6):
        with worker_with_room_for(room):
            failed = steps.sandbox._templates.forked(LIMITS)
            assert failed is not None
            assert isinstance(failed.exception(), OSError)
    assert steps.run(IDENTITY) is True
    assert serving(steps.sandbox) is found
    assert open_descriptors(os.getpid()) == before
    assert taken(steps) == {found._launch.options["user"]}


def test_a_worker_without_users_does_not_blame_its_template(steps: Steps) -> None:
    found, users = serving(steps.sandbox), steps.sandbox.layer._users  # type: ignore[attr-defined]
    others = [users.take() for _ in range(STEPS_PER_WORKER - len(taken(steps)))]
    failed = steps.sandbox._templates.forked(LIMITS)
    assert failed is not None
    assert isinstance(failed.exception(), OSError)
    for user in others:
        users.give_back(user)
    assert steps.run(IDENTITY) is True
    assert serving(steps.sandbox) is found


def test_a_step_that_outlives_its_kill_is_given_up_once_it_is_dead(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The template then no longer counts as busy, and its user and descriptor are free again."""
    found, before = serving(steps.sandbox), open_descriptors(os.getpid())
    step = forked(steps)
    with monkeypatch.context() as unkillable:
        unkillable.setattr("backend.sandbox.forked.REAP_SECONDS", 0.0)
        unkillable.setattr("backend.sandbox.forked._kill", lambda _: None)
        step.end()
        step.close()
    assert found.faulty
    assert found.busy
    os.kill(step.pid, signal.SIGKILL)
    assert eventually(lambda: not found.busy)
    assert eventually(lambda: taken(steps) == {found._launch.options["user"]})
    assert eventually(lambda: open_descriptors(os.getpid()) == before)
    assert steps.run(IDENTITY) is True
    assert serving(steps.sandbox) is not found


def forked(steps: Steps) -> StepProcess:
    forked = steps.sandbox._templates.forked(LIMITS)
    assert forked is not None
    return forked.result()


def taken(steps: Steps) -> set[int]:
    layer = steps.sandbox.layer
    assert isinstance(layer, Bubblewrap)
    return layer._users._taken
