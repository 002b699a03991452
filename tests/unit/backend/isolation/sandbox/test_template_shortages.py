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

from backend.isolation.sandbox.bubblewrap import Bubblewrap
from backend.isolation.sandbox.layer import STEPS_PER_WORKER, UserIds
from backend.isolation.sandbox.process import StepProcess
from tests.unit.backend.isolation.sandbox.layers import opened
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps, eventually
from tests.unit.backend.isolation.sandbox.templates import IDENTITY, process_of, serving


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    """Steps with users of their own, whose templates obey the limits of the kernel."""
    with opened("bwrap") as sandbox:
        if not sandbox.layer.own_user:  # type: ignore[attr-defined]
            pytest.skip("a service that is root and may become other users is needed")
        yield Steps(sandbox, tmp_path)


IN_USER_NAMESPACE = """
import os, resource, sys
from pathlib import Path
from backend.isolation.confined.restrictions import CLONE_NEWUSER
from backend.isolation.sandbox.inside.isolation import enter
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
    templates, found = steps.sandbox.templates, serving(steps.sandbox)
    pid, users = process_of(found), taken(steps)
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
    assert eventually(lambda: taken(steps) == users)


def test_a_worker_without_descriptors_does_not_blame_its_template(steps: Steps) -> None:
    found = serving(steps.sandbox)
    before, users = open_descriptors(os.getpid()), taken(steps)
    for room in range(6):
        with worker_with_room_for(room):
            failed = steps.sandbox.templates.forked(LIMITS)
            assert failed is not None
            assert isinstance(failed.exception(), OSError)
    assert steps.run(IDENTITY) is True
    assert serving(steps.sandbox) is found
    assert eventually(lambda: open_descriptors(os.getpid()) == before)
    assert eventually(lambda: taken(steps) == users)


def test_a_worker_without_users_does_not_blame_its_template(steps: Steps) -> None:
    found, users = serving(steps.sandbox), users_of(steps)
    others = [users.take() for _ in range(STEPS_PER_WORKER - len(taken(steps)))]
    failed = steps.sandbox.templates.forked(LIMITS)
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
    users = taken(steps)
    step = forked(steps)
    with monkeypatch.context() as unkillable:
        unkillable.setattr("backend.isolation.sandbox.forked.REAP_SECONDS", 0.0)
        unkillable.setattr(signal, "pidfd_send_signal", lambda *_: None)
        step.end()
        step.close()
    assert found.faulty
    assert found.busy
    os.kill(step.pid, signal.SIGKILL)
    assert eventually(lambda: not found.busy)
    assert eventually(lambda: taken(steps) == users)
    assert eventually(lambda: open_descriptors(os.getpid()) == before)
    assert steps.run(IDENTITY) is True
    assert serving(steps.sandbox) is not found


def forked(steps: Steps) -> StepProcess:
    forked = steps.sandbox.templates.forked(LIMITS)
    assert forked is not None
    return forked.result()


def users_of(steps: Steps) -> UserIds:
    layer = steps.sandbox.layer
    assert isinstance(layer, Bubblewrap)
    return layer.users


def taken(steps: Steps) -> frozenset[int]:
    return users_of(steps).taken
