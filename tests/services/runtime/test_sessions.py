"""Sessions whose lease is lost while segments are submitted, swept and stopped."""

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import bindparam, select

from backend.common.ids import new_id
from backend.common.states import DISPATCHED
from backend.runtime.engines.dbos import DbosWorker
from backend.runtime.execution import segment
from backend.runtime.local import LocalRuntime
from backend.runtime.scheduling import sql
from backend.runtime.worker import sessions
from backend.runtime.worker.lease import Lease
from backend.runtime.worker.sessions import WorkerSessions
from backend.storage.database import DatabaseUnavailableError
from backend.storage.statements import ScalarQuery
from backend.storage.tables.segments import segments
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.fake_segments import FakeSegment
from tests.support.poll import until

ROUNDS = 25
# Of a database that is not asked: who has one shares it, and holds a lease.
SHARED = {"database": "postgresql://shared", "drain_seconds": 60.0}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RENEWED_EVERY_SECONDS", "WATCHED_EVERY_SECONDS"):
        monkeypatch.setattr(f"backend.runtime.worker.lease.{name}", 0.002)
    monkeypatch.setattr("backend.runtime.worker.lease.OTHER_WORKER_HOST_SECONDS", 0)
    monkeypatch.setattr(sessions, "TICK_SECONDS", 0.005)


def shared(world: RuntimeWorld, folder: Path) -> LocalRuntime:
    world.local_runtime = world.new_runtime(folder / "shared", **SHARED)
    return world.local_runtime


def owners(world: RuntimeWorld) -> set[str]:
    return {lease.owner for lease in world.services.database.read(sql.leases)}


def lose(world: RuntimeWorld) -> None:
    """Takes the lease away, as an operator or another process's run reaper would."""
    for owner in owners(world):
        world.services.database.write(lambda tx, owner=owner: sql.remove_lease(tx, owner))  # type: ignore[misc]


def dispatches(world: RuntimeWorld, run_id: str) -> int:
    query = ScalarQuery[int](select(segments.c.hand_overs).where(segments.c.run_id == bindparam("run_id")))
    return world.services.database.read(lambda tx: tx.scalar_one(query, run_id=run_id))


def submit_many(one: WorkerSessions) -> None:
    for _ in range(100):
        segment_id = new_id("seg")
        with contextlib.suppress(RuntimeError):
            one.submit(segment_id, 1)
        one.cancel(segment_id)
        one.executes(segment_id)
        one.measured()


def caught(work: Callable[[], None], failures: list[BaseException]) -> threading.Thread:
    def call() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_nothing_runs_after_a_stop_that_meets_the_loss_of_a_lease(
    idle_world: RuntimeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    FakeSegment.reset()
    monkeypatch.setattr(segment, "Segment", FakeSegment)
    random = Random(15)
    before = set(threading.enumerate())
    for number in range(ROUNDS):
        runtime = shared(idle_world, tmp_path)
        executor = runtime.executor
        one = executor.sessions
        executor.start(on_free=lambda: None)
        failures: list[BaseException] = []
        threads = [caught(partial(submit_many, one), failures) for _ in range(2)]
        for _ in range(random.randrange(3)):
            lost = one.current
            if number % 3 == 0:
                until(lambda: owners(idle_world), "a lease to take away")
            lose(idle_world)
            if number % 3 == 0:
                until(lambda lost=lost, one=one: one.current is not lost, "another session", seconds=20)  # type: ignore[misc]
        threads.append(caught(lambda: lose(idle_world), failures))
        threads.append(caught(executor.stop, failures))
        executor.stop()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert failures == []
        assert one.current is not None
        assert one.current.engine.running == 0
        assert FakeSegment.going() == set()
        assert owners(idle_world) == set()
    assert set(threading.enumerate()) <= before
    assert "RuntimeError" not in caplog.text


def test_a_lease_lost_while_a_stop_waits_for_its_steps_ends_them_at_once(
    idle_world: RuntimeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = shared(idle_world, tmp_path)
    runtime.start()
    run_id = idle_world.run("Draining", [agent_step("slow", "sleeper")])
    idle_world.until_event(run_id, "step.progress")
    draining, drain = threading.Event(), Lease.drain

    def note(lease: Lease) -> None:
        drain(lease)
        draining.set()

    monkeypatch.setattr(Lease, "drain", note)
    stopping = caught(runtime.stop, [])
    assert draining.wait(60)
    lose(idle_world)
    # The step sleeps for hours, and the grace is a minute.
    stopping.join(60)
    assert not stopping.is_alive()
    assert (idle_world.row(run_id).status, idle_world.row(run_id).error_code) == ("failed", "orphaned")


@pytest.mark.parametrize("failure", [DatabaseUnavailableError("away"), RuntimeError("whatever it is")])
def test_a_session_that_cannot_follow_a_lost_one_at_first_follows_later(
    idle_world: RuntimeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    runtime = shared(idle_world, tmp_path)
    runtime.start()
    run_id = idle_world.run("First", [agent_step("slow", "sleeper")])
    idle_world.until_event(run_id, "step.progress")
    tries = []

    def fail_twice(self: Any, on_lost: Any) -> None:
        tries.append(self)
        if len(tries) <= 2:
            raise failure
        start(self, on_lost)

    start = Lease.start
    monkeypatch.setattr(Lease, "start", fail_twice)
    lose(idle_world)
    assert idle_world.until_ended(run_id).error_code == "orphaned"
    assert idle_world.until_ended(idle_world.run("Second", [agent_step("main")])).status == "completed"
    assert len(tries) == 3
    runtime.stop()
    assert owners(idle_world) == set()


def test_a_worker_hears_of_segments_in_its_present_session_and_in_none_before(
    idle_world: RuntimeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hearing: list[DbosWorker] = []
    monkeypatch.setattr(DbosWorker, "start", lambda _: None)
    monkeypatch.setattr(DbosWorker, "stop", lambda *_: None)
    monkeypatch.setattr(DbosWorker, "on_announcement", lambda self, _: hearing.append(self))
    runtime = idle_world.new_runtime(tmp_path / "worker", **SHARED, engine="dbos")
    executor = runtime.executor
    executor.start(on_free=lambda: None)
    first = executor.sessions.current
    lose(idle_world)
    until(lambda: executor.sessions.current is not first, "another session")
    hearing.clear()
    idle_world.services.database.write(lambda tx: tx.announce(DISPATCHED))
    until(lambda: hearing, "what is announced")
    current = executor.sessions.current
    assert current is not None
    current.on_announcement({DISPATCHED})
    executor.stop()
    assert len(hearing) == 2
    assert hearing[0] is hearing[1]


def test_a_segment_is_not_begun_under_a_lease_that_was_removed(
    idle_world: RuntimeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RENEWED_EVERY_SECONDS", "WATCHED_EVERY_SECONDS"):
        monkeypatch.setattr(f"backend.runtime.worker.lease.{name}", 3600)
    runtime = shared(idle_world, tmp_path)
    runtime.start()
    (owner,) = owners(idle_world)
    lose(idle_world)
    run_id = idle_world.run("Waits", [agent_step("main")])
    until(lambda: dispatches(idle_world, run_id) > 1, "the segment to be dispatched again")
    assert idle_world.status(run_id) == "queued"
    now = idle_world.services.clock()
    lease = partial(sql.add_lease, owner=owner, host="here", step_slots=8, now=now, until=now + 20_000)
    idle_world.services.database.write(lease)
    assert idle_world.until_ended(run_id).status == "completed"
    runtime.stop()


def test_a_segment_whose_run_another_process_closed_is_ended(idle_world: RuntimeWorld, tmp_path: Path) -> None:
    runtime = shared(idle_world, tmp_path)
    runtime.start()
    run_id = idle_world.run("Closed", [agent_step("slow", "sleeper")])
    idle_world.until_event(run_id, "step.progress")
    idle_world.close(run_id, "failed", error_code="orphaned", error_message="As after a long pause.")
    # The step sleeps for hours, and records nothing meanwhile.
    until(lambda: idle_world.engine.running == 0, "the step to be ended")
    runtime.stop()


def test_an_engine_that_fails_to_stop_does_not_keep_another_session_from_following(
    idle_world: RuntimeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = shared(idle_world, tmp_path)
    runtime.start()
    first = runtime.executor.sessions.current
    assert first is not None
    stop = first.engine.stop

    def fail(grace: float) -> None:
        stop(grace)
        raise RuntimeError("could not be stopped")

    monkeypatch.setattr(first.engine, "stop", fail)
    lose(idle_world)
    # What the first session claims before it knows is orphaned.
    until(lambda: runtime.executor.sessions.current not in (first, None), "another session")
    assert idle_world.until_ended(idle_world.run("Next", [agent_step("main")])).status == "completed"
    runtime.stop()
    assert owners(idle_world) == set()
