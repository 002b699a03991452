import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from backend.isolation.sandbox import Sandbox
from backend.runtime.engines.local import LocalEngine
from backend.runtime.execution.segment import Segment
from backend.runtime.local import LocalRuntime
from backend.runtime.outcomes import RunOutcome
from backend.runtime.scheduling.run_reaper import RunReaper
from backend.storage.objects import FolderObjects
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import SLEEP_SECONDS, RuntimeWorld, agent_step, gate
from tests.support.poll import until

HOUR = 3_600


def sleepers() -> set[int]:
    """The process ids of the sleeping grandchildren of steps."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if (entry / "cmdline").read_bytes() == f"sleep\0{SLEEP_SECONDS}\0".encode():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


@pytest.fixture
def before() -> set[int]:
    """Sleepers that are none of this test's."""
    return sleepers()


def _until_asleep(world: RuntimeWorld, run_id: str, before: set[int]) -> None:
    world.until_event(run_id, "step.progress")
    until(lambda: len(sleepers() - before) >= 2, "both grandchildren")


def test_cancel_ends_a_step_and_all_it_started_within_two_seconds(world: RuntimeWorld, before: set[int]) -> None:
    run_id = world.run("Cancelled", [agent_step("slow", "sleeper"), agent_step("next", "echo", "slow")])
    _until_asleep(world, run_id, before)
    world.cancel(run_id)
    row = world.until_ended(run_id)
    assert row.status == "cancelled"
    assert sleepers() <= before, "the processes are dead before the run is recorded as cancelled"
    assert world.board(run_id) == {"slow": "cancelled", "next": "cancelled"}
    assert world.event_types(run_id)[-2:] == ["run.cancelled", "segment.ended"]
    assert world.count("runs", "status = 'running'") == 0


def test_cancelling_twice_is_harmless(world: RuntimeWorld) -> None:
    run_id = world.run("Twice", [agent_step("slow", "sleeper")])
    world.until_event(run_id, "step.progress")
    world.cancel(run_id)
    # The second may come after the first took effect.
    with contextlib.suppress(RefusedError):
        world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"
    assert world.event_types(run_id).count("run.cancelled") == 1


def test_a_cancel_takes_effect_once_the_database_takes_changes_again(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = world.run("Full", [agent_step("slow", "sleeper")])
    world.until_event(run_id, "step.progress")
    engine = world.engine

    def away(*_: object) -> bool:
        raise OSError("the database is away")

    with monkeypatch.context() as fault, caplog.at_level(logging.CRITICAL):
        fault.setattr(RunOutcome, "close", away)
        world.cancel(run_id)
        until(lambda: engine.running == 0, "the end of the segment")
    assert world.until_ended(run_id).status == "cancelled"
    assert world.event_types(run_id)[-2:] == ["run.cancelled", "segment.ended"]


def test_a_cancelled_run_keeps_the_outputs_of_its_completed_steps(world: RuntimeWorld) -> None:
    run_id = world.run("Kept", [agent_step("write", "writer"), agent_step("slow", "sleeper", "write")])
    world.until_event(run_id, "step.progress")
    world.cancel(run_id)
    assert world.until_ended(run_id).outputs_count == 2


class Gate:
    """Holds up what is to be stored until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Gate:
    held = Gate()
    for method in ("put_file", "put_bytes"):
        put = getattr(FolderObjects, method)

        def put_and_wait(objects: FolderObjects, key: str, content: Any, put: Any = put) -> Any:
            held.reached.set()
            assert held.opened.wait(60)
            return put(objects, key, content)

        monkeypatch.setattr(FolderObjects, method, put_and_wait)
    return held


def _stored(world: RuntimeWorld) -> list[str]:
    return [path.name for path in (world.work.parent.parent / "objects").rglob("*") if path.is_file()]


@pytest.mark.parametrize("agent", ["writer", "large"])
def test_a_run_that_is_cancelled_while_files_or_its_result_are_stored_leaves_none(
    world: RuntimeWorld, held: Gate, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = world.run("Late", [agent_step("main", agent)], workflow={"result": {"step": "main"}})
    assert held.reached.wait(60)
    stopped, stop = threading.Event(), Segment.stop

    def note(segment: Segment) -> None:
        stop(segment)
        stopped.set()

    monkeypatch.setattr(Segment, "stop", note)
    world.cancel(run_id)
    assert stopped.wait(60)
    assert world.status(run_id) == "running", "it may be erased only once nothing is stored any more"
    held.opened.set()
    row = world.until_ended(run_id)
    assert _stored(world) == []
    world.local_runtime.stop()
    assert (row.status, row.outputs_count) == ("cancelled", 0)
    assert _stored(world) == []


def test_a_step_whose_run_was_closed_while_its_files_were_stored_leaves_none(world: RuntimeWorld, held: Gate) -> None:
    run_id = world.run("Closed", [agent_step("write", "writer")])
    assert held.reached.wait(60)
    world.close(run_id, "failed", error_code="orphaned")
    held.opened.set()
    engine = world.engine
    until(lambda: engine.running == 0, "the end of the segment")
    assert _stored(world) == []


def test_a_running_run_ends_at_its_time_limit(world: RuntimeWorld) -> None:
    run_id = world.run(
        "OverLimitRedactor", [agent_step("slow", "sleeper")], workflow={"settings": {"max_run_hours": 0.25}}
    )
    world.until_event(run_id, "step.progress")
    world.clock.advance(seconds=HOUR / 4)
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "wall_clock_limit_reached")
    assert row.error_message == "The run reached its time limit of 0.25 hours."


def test_a_parked_run_ends_at_its_time_limit(world: RuntimeWorld) -> None:
    run_id = world.run("Parked limit", [gate("review")], workflow={"settings": {"max_run_hours": 1}})
    world.until_status(run_id, "waiting_for_approval")
    world.clock.advance(seconds=HOUR)
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "wall_clock_limit_reached")
    assert world.approvals(run_id) == {}


def test_a_run_within_its_time_limit_is_not_ended(world: RuntimeWorld) -> None:
    limit = {"settings": {"max_run_hours": 1}}
    run_id = world.run("Within", [gate("review"), agent_step("after", "echo", "review")], workflow=limit)
    world.until_status(run_id, "waiting_for_approval")
    world.clock.advance(seconds=HOUR - 1)
    other = world.run("Other", [agent_step("main")])
    world.until_ended(other)
    assert world.status(run_id) == "waiting_for_approval"


def test_stopping_the_runtime_orphans_what_does_not_end_in_time(world: RuntimeWorld, before: set[int]) -> None:
    run_id = world.run("Stopped", [agent_step("slow", "sleeper")])
    _until_asleep(world, run_id, before)
    world.local_runtime.stop()
    row = world.row(run_id)
    assert (row.status, row.error_code) == ("failed", "orphaned")
    assert sleepers() <= before


def test_segments_of_an_earlier_process_are_orphaned_at_the_start(idle_world: RuntimeWorld) -> None:
    run_id = idle_world.run("Left", [agent_step("main")])
    idle_world.begin(run_id, owner="proc_gone")
    idle_world.local_runtime.start()
    row = idle_world.row(run_id)
    assert (row.status, row.error_code) == ("failed", "orphaned")
    assert idle_world.event_types(run_id)[-2:] == ["run.failed", "segment.ended"]


@pytest.mark.long
def test_kill_9_of_the_process_orphans_its_runs_and_spares_the_others(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_process.py")
    first = subprocess.Popen([sys.executable, script, str(tmp_path), "first"], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    try:
        assert first.stdout.readline() == "ready\n"
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        first.stdout.close()
    done = subprocess.run(
        [sys.executable, script, str(tmp_path), "second"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [
        *("failed/orphaned", "waiting_for_approval", "completed", "active=1"),
        "failed/cancelled+cancelled",
    ]
    until(lambda: not _steps_of(tmp_path), "the end of the steps")


def _steps_of(folder: Path) -> list[str]:
    marker = f"marker-{folder.name}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if marker in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


def test_calls_before_the_start_and_after_the_stop_are_harmless(idle_world: RuntimeWorld) -> None:
    runtime: LocalRuntime = idle_world.local_runtime
    runtime.wake()
    runtime.cancel("run_none")
    runtime.forget("run_none")
    runtime.start()
    runtime.stop()
    runtime.wake()
    runtime.cancel("run_none")
    runtime.forget("run_none")


@pytest.mark.parametrize(("owner", "part"), [(Sandbox, "prepare"), (RunReaper, "recover"), (LocalEngine, "start")])
def test_a_start_that_fails_leaves_nothing_that_runs(
    idle_world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch, owner: type, part: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(part)

    before = set(threading.enumerate())
    monkeypatch.setattr(owner, part, fail)
    with pytest.raises(RuntimeError, match=part):
        idle_world.local_runtime.start()
    assert set(threading.enumerate()) <= before
    assert idle_world.local_runtime.executor.sessions.current is None
    idle_world.local_runtime.stop()
