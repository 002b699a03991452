"""Attacks of a hostile step on the memory of the machine."""

import pytest

from backend.runtime.agents import Limits, StepFailed
from tests.unit.backend.isolation.sandbox.escapes.attempt import ATTEMPT
from tests.unit.backend.isolation.sandbox.steps import Steps

SMALL = Limits(memory_mb=256, timeout_seconds=60, workspace_mb=8)


@pytest.mark.parametrize(
    "take",
    [
        "bytearray(400 * MIB)",
        "[forked(lambda: fill(60)) for _ in range(8)]",
        "forked(lambda: forked(lambda: fill(200))), fill(150)",
        "[forked(lambda: shared(60)) for _ in range(8)]",
    ],
    ids=["one process", "many children", "generations", "shared"],
)
def test_memory_is_bounded_over_all_processes(confined: Steps, take: str) -> None:
    with pytest.raises(StepFailed) as failed:
        confined.run(
            f"""
            import mmap, os, signal, time
            MIB, held = 1024 * 1024, []
            def forked(work):
                if os.fork() == 0:
                    signal.alarm(20)
                    work()
                    time.sleep(20)
                    os._exit(0)
            def fill(count):
                held.append(bytearray(b"x") * (count * MIB))
            def shared(count):
                area = mmap.mmap(-1, count * MIB)
                held.append(area)
                for place in range(0, count * MIB, 4096):
                    area[place] = 1
            def run(context):
                {take}
                time.sleep(20)
            """,
            limits=SMALL,
        )
    assert failed.value.type == "MemoryLimit"


def test_memory_that_processes_share_counts_once(confined: Steps) -> None:
    assert (
        confined.run(
            """
            import os, time
            def run(context):
                held = bytearray(b"x") * (120 * 1024 * 1024)
                children = []
                for _ in range(4):
                    pid = os.fork()
                    if pid == 0:
                        time.sleep(1.5)
                        os._exit(0)
                    children.append(pid)
                return [os.waitpid(pid, 0)[1] for pid in children]
            """,
            limits=SMALL,
        )
        == [0] * 4
    )


def test_memory_that_belongs_to_no_process_cannot_be_had(confined: Steps) -> None:
    tried = confined.run(
        ATTEMPT
        + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "failed")
def run(context):
    return [
        attempt(os.memfd_create, "memory"), attempt(lambda: check(libc.shmget(0, 4096, 0o1600))),
        attempt(lambda: check(libc.msgget(0, 0o1600))),
    ]
"""
    )
    assert None not in tried
