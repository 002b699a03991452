import contextlib
import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backend.isolation.confined import ConfinedError, ConfinedPool, FailureKind
from backend.isolation.confined.process import Program, start_process
from tests.support.poll import until

ROOT = Path(__file__).parents[5]
MIB = 2**20
Run = Callable[..., Any]


@contextlib.contextmanager
def pool_of(**options: Any) -> Iterator[ConfinedPool]:
    program = "tests.unit.backend.isolation.confined.confined_program"
    pool = ConfinedPool(program, name="test", readable=[ROOT], **options)
    try:
        yield pool
    finally:
        pool.close()


@pytest.fixture(name="pool", scope="module")
def _pool() -> Iterator[ConfinedPool]:
    with pool_of(size=2) as pool:
        yield pool


@pytest.fixture(name="threads")
def _threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as threads:
        yield threads


def run(pool: ConfinedPool, operation: str, arguments: Any = None, **options: Any) -> Any:
    given: dict[str, Any] = {"owner": "a", "cpu_seconds": 20.0, "memory_bytes": 256 * MIB} | options
    return pool.run(operation, arguments, **given)


def failure(pool: ConfinedPool, operation: str, arguments: Any = None, **options: Any) -> ConfinedError:
    with pytest.raises(ConfinedError) as caught:
        run(pool, operation, arguments, **options)
    return caught.value


def open_files() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def test_a_job_gives_the_programs_answer(pool: ConfinedPool) -> None:
    value = {"text": "ü \ud800", "number": 10**30, "list": [None, True, 0.5]}
    assert run(pool, "echo", value) == value


def test_a_process_serves_one_job_after_the_other(pool: ConfinedPool) -> None:
    assert run(pool, "pid") == run(pool, "pid")


def test_the_program_gets_its_configuration() -> None:
    with pool_of(size=1, configuration={"a": [1]}) as pool:
        assert run(pool, "configuration") == {"a": [1]}


@pytest.mark.parametrize("operation", ["spin", "spin in threads"])
def test_a_job_past_its_processor_time_is_killed(pool: ConfinedPool, operation: str) -> None:
    pid = run(pool, "pid")
    error = failure(pool, operation, cpu_seconds=0.2)
    assert error.kind is FailureKind.DEADLINE
    assert "0.2 seconds of processor time" in str(error)
    assert not Path(f"/proc/{pid}").exists()
    assert run(pool, "echo", 1) == 1


def test_a_job_that_sleeps_is_killed_by_the_wall_clock(pool: ConfinedPool) -> None:
    of_its_processor_time = 60 + 10 * 20
    assert failure(pool, "sleep", 3600, extra_wall_seconds=0.2 - of_its_processor_time).kind is FailureKind.DEADLINE
    assert run(pool, "sleep", 0.2, extra_wall_seconds=60.0) is None


def test_a_job_can_have_a_shorter_wall_clock_limit(pool: ConfinedPool) -> None:
    error = failure(pool, "sleep", 3600, most_wall_seconds=0.2)
    assert (error.kind, str(error)) == (FailureKind.DEADLINE, "it takes longer than 0.2 seconds")


def test_a_job_over_its_memory_fails_alone(pool: ConfinedPool) -> None:
    assert failure(pool, "allocate", 300 * MIB, memory_bytes=64 * MIB).kind is FailureKind.MEMORY
    assert run(pool, "allocate", 32 * MIB, memory_bytes=64 * MIB) == 32 * MIB
    # The bound is the job's, not the process's.
    assert run(pool, "allocate", 300 * MIB, memory_bytes=512 * MIB) == 300 * MIB


def test_a_job_whose_process_dies_fails_alone(pool: ConfinedPool) -> None:
    assert failure(pool, "exit").kind is FailureKind.DIED
    assert run(pool, "echo", 1) == 1


def test_a_process_that_died_between_jobs_is_replaced(pool: ConfinedPool) -> None:
    run(pool, "echo", 1)
    pids = pool.pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: all("Z" in Path(f"/proc/{pid}/stat").read_text() for pid in pids), "the end of the processes")
    assert run(pool, "echo", 2) == 2


def test_a_program_that_cannot_be_started_is_unavailable() -> None:
    pool = ConfinedPool("backend.there_is_no_such_program", name="test")
    try:
        assert failure(pool, "echo").kind is FailureKind.UNAVAILABLE
    finally:
        pool.close()


def test_a_program_fails_with_its_own_message_and_data(pool: ConfinedPool) -> None:
    error = failure(pool, "fail", "it is broken")
    assert (error.kind, str(error), error.data) == (FailureKind.FAILED, "it is broken", {"calls": 3})


def test_an_unexpected_failure_quotes_nothing(pool: ConfinedPool) -> None:
    error = failure(pool, "fail with data", "jane@example.com")
    assert (error.kind, str(error)) == (FailureKind.FAILED, "an unexpected failure (ValueError)")


@pytest.mark.parametrize("kind", ["not json", "a list", "no answer", "huge", "deep", "other types"])
def test_a_malformed_answer_is_refused(pool: ConfinedPool, kind: str) -> None:
    assert failure(pool, "hostile", kind).kind is FailureKind.DIED
    assert run(pool, "echo", 1) == 1


def test_a_job_larger_than_a_frame_is_refused(pool: ConfinedPool) -> None:
    error = failure(pool, "echo", "a" * (64 * MIB))
    assert error.kind is FailureKind.TOO_LARGE
    assert "67108864 bytes" in str(error)


def test_an_answer_larger_than_a_frame_is_refused(pool: ConfinedPool) -> None:
    assert failure(pool, "answer", 64 * MIB, memory_bytes=1024 * MIB).kind is FailureKind.TOO_LARGE
    assert run(pool, "echo", 1) == 1


def test_a_job_whose_process_died_is_retried_with_its_descriptors_as_they_were(
    pool: ConfinedPool, tmp_path: Path
) -> None:
    (tmp_path / "given").write_text("content")
    with (tmp_path / "given").open("rb") as given, (tmp_path / "taken").open("wb") as taken:
        assert failure(pool, "copy and exit", descriptors=[given.fileno(), taken.fileno()]).kind is FailureKind.DIED
    assert (tmp_path / "taken").read_text() == "<content>"


def test_a_job_that_ends_once_its_scratch_folder_is_gone_leaves_no_process(
    threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    with pool_of(size=1, scratch=tmp_path / "scratch", spare=False) as pool:
        run(pool, "echo", 1)
        [pid] = pool.pids
        with (tmp_path / "given").open("w+b") as file:
            job = threads.submit(run, pool, "wait for content", descriptors=[file.fileno()])
            shutil.rmtree(tmp_path / "scratch")
            file.write(b"go on")
            file.flush()
            assert job.result() is None
        assert (pool.pids, Path(f"/proc/{pid}").exists()) == ([], False)


def test_a_process_that_cannot_be_started_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any, **__: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, "no room")

    monkeypatch.setattr(subprocess, "Popen", no_room)
    before = open_files()
    with pytest.raises(BlockingIOError):
        start_process(Program("backend.resources.schemas.program"), tmp_path / "scratch")
    assert open_files() == before
    assert not (tmp_path / "scratch").exists()


def test_a_spare_process_that_cannot_be_started_is_tried_again(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, tries, halt = subprocess.Popen, itertools.count(), threading.Event()

    def broken_for_two(*args: Any, **options: Any) -> Any:
        if next(tries) in (1, 2):
            raise ValueError
        return start(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", broken_for_two)
    with pool_of(size=2) as pool:
        spinning = threads.submit(failure, pool, "spin", halt=halt, cpu_seconds=600.0)
        until(lambda: len(pool.pids) == 2, "the spare process")
        halt.set()
        assert spinning.result().kind is FailureKind.HALTED
    assert next(tries) == 4


def test_a_halted_job_ends(pool: ConfinedPool, threads: ThreadPoolExecutor) -> None:
    halt = threading.Event()
    spinning = threads.submit(failure, pool, "spin", halt=halt, cpu_seconds=600.0)
    halt.set()
    assert spinning.result().kind is FailureKind.HALTED
    assert run(pool, "echo", 1) == 1


def test_a_halted_job_that_waits_gives_up_its_turn(threads: ThreadPoolExecutor) -> None:
    stop, halt = threading.Event(), threading.Event()
    with pool_of(size=1) as pool:
        spinning = threads.submit(failure, pool, "spin", halt=stop, cpu_seconds=600.0)
        until(lambda: pool.pids, "the job")
        waiting = threads.submit(failure, pool, "spin", halt=halt, cpu_seconds=600.0)
        halt.set()
        assert waiting.result().kind is FailureKind.HALTED
        assert not spinning.done()
        stop.set()


def test_closing_ends_every_job_and_process(threads: ThreadPoolExecutor, tmp_path: Path) -> None:
    with pool_of(size=1, scratch=tmp_path / "scratch") as pool:
        spinning = [threads.submit(failure, pool, "spin", cpu_seconds=600.0) for _ in range(3)]
        until(lambda: pool.pids, "the job")
        pids = pool.pids
        pool.close()
        assert {job.result().kind for job in spinning} == {FailureKind.CLOSED}
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        assert failure(pool, "echo").kind is FailureKind.CLOSED
    assert not (tmp_path / "scratch").exists()


def test_an_owners_many_jobs_do_not_hold_up_another_owner(threads: ThreadPoolExecutor) -> None:
    stop = threading.Event()
    with pool_of(size=2) as pool:
        hostile = [
            threads.submit(failure, pool, "spin", owner="hostile", halt=stop, cpu_seconds=600.0) for _ in range(12)
        ]
        until(lambda: len(pool.pids) >= 2, "the jobs")
        assert [run(pool, "echo", number, owner="other") for number in range(3)] == [0, 1, 2]
        assert not any(job.done() for job in hostile)
        stop.set()


def test_a_descriptor_is_all_that_a_job_needs_of_a_file(pool: ConfinedPool, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    with file.open("rb") as opened:
        assert run(pool, "read", descriptors=[opened.fileno()]) == "content"


def test_no_job_finds_what_an_earlier_one_left(tmp_path: Path) -> None:
    with pool_of(size=1, scratch=tmp_path / "scratch") as pool:
        assert [run(pool, "write scratch") for _ in range(2)] == [[], []]
        assert not list(tmp_path.rglob("left"))


def test_a_killed_jobs_scratch_folder_is_removed(tmp_path: Path) -> None:
    with pool_of(size=1, scratch=tmp_path / "scratch") as pool:
        failure(pool, "spin after writing", cpu_seconds=0.1)
        assert not list(tmp_path.rglob("left"))


def test_a_process_has_no_rights(pool: ConfinedPool) -> None:
    pid = run(pool, "pid")
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert "Max core file size        0                    0" in limits


def test_a_process_has_an_empty_environment(pool: ConfinedPool) -> None:
    assert set(run(pool, "environment")) <= {"LC_CTYPE"}


def test_a_process_has_no_descriptor_but_its_socket(pool: ConfinedPool) -> None:
    folder = Path(f"/proc/{run(pool, 'pid')}/fd")
    targets = [str(entry.readlink()) for entry in folder.iterdir()]
    assert len([target for target in targets if target != "/dev/null"]) == 1


def test_a_process_reaches_neither_network_nor_host(pool: ConfinedPool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    outcomes = run(pool, "attempts", {"file": str(tmp_path / "file"), "folder": str(tmp_path)})
    assert set(outcomes.values()) == {"PermissionError"}, outcomes
    assert all(layers["filter"] for layers in pool.confinement)


def test_a_process_with_network_opens_client_sockets_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    with pool_of(size=1, network=True) as pool:
        outcomes = run(pool, "attempts", {"file": str(tmp_path / "file"), "folder": str(tmp_path)})
    assert {name for name, outcome in outcomes.items() if outcome == "allowed"} == {"internet socket", "socket pair"}


def test_a_process_ends_with_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path\n"
        "from backend.isolation.confined import ConfinedPool\n"
        "program = 'tests.unit.backend.isolation.confined.confined_program'\n"
        f"pool = ConfinedPool(program, name='t', readable=[Path({str(ROOT)!r})])\n"
        "print(pool.run('pid', None, owner='a', cpu_seconds=9, memory_bytes=2**26), flush=True)\n"
        "pool.run('sleep', 600, owner='a', cpu_seconds=9, memory_bytes=2**26)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text(), "the end")
