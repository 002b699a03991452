"""A worker takes dispatched segments, each dispatch once among all workers, as far as it has free slots."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from dbos import DBOSClient, SetWorkflowID
from sqlalchemy import select, update

from backend.common.states import DISPATCHED
from backend.runtime.engines.dbos import DbosWorker
from backend.runtime.execution import sql as execution_sql
from backend.runtime.scheduling import sql
from backend.storage.statements import Command
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import segments
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.poll import until
from tests.support.postgresql import Postgresql


class _Engine:
    """An engine whose segments end when a test says so."""

    def __init__(self) -> None:
        self.ends: dict[str, Future[None]] = {}
        self.closed = False

    def execute(self, segment_id: str) -> Future[None]:
        if self.closed:
            raise RuntimeError("the engine was stopped")
        assert segment_id not in self.ends
        return self.ends.setdefault(segment_id, Future())


@pytest.fixture
def url(postgresql_server: Postgresql) -> Iterator[str]:
    with postgresql_server.database() as url:
        yield url


@pytest.fixture
def engine() -> _Engine:
    return _Engine()


@pytest.fixture
def worker(url: str, engine: _Engine, idle_world: RuntimeWorld) -> Iterator[DbosWorker]:
    local: Any = engine
    worker = DbosWorker(url, "proc_here", local, 2, idle_world.services.database)
    idle_world.services.database.listen(worker.on_announcement)
    worker.start()
    yield worker
    engine.closed = True
    for end in engine.ends.values():
        if not end.done():
            end.set_result(None)
    worker.halt()
    worker.stop()


def queued(world: RuntimeWorld, number: int) -> list[str]:
    """Starts runs; returns the ids of their segments, the oldest first."""
    for each in range(number):
        world.run(f"Waits {each}", [agent_step("main")])
    rows = world.services.database.read(lambda tx: sql.waiting(tx, number))
    return [row.segment_id for row in sorted(rows, key=lambda row: (row.created_at, row.segment_id))]


def dispatch(world: RuntimeWorld, *segments: str) -> None:
    rows = [row for row in world.services.database.read(lambda tx: sql.waiting(tx, 9)) if row.segment_id in segments]
    world.services.database.write(lambda tx: sql.mark_dispatched(tx, rows, world.services.clock()))


def test_segments_are_taken_as_far_as_there_is_room_and_others_once_some_end(
    worker: DbosWorker, engine: _Engine, idle_world: RuntimeWorld
) -> None:
    first, second, third, waiting = queued(idle_world, 4)
    dispatch(idle_world, first, second)
    until(lambda: set(engine.ends) == {first, second}, "two segments")
    assert worker.room == 0
    dispatch(idle_world, third)
    worker.on_announcement({DISPATCHED})
    engine.ends[first].set_result(None)
    until(lambda: set(engine.ends) == {first, second, third}, "the next segment")
    engine.ends[second].set_result(None)
    engine.ends[third].set_result(None)
    until(lambda: worker.room == 2, "room for others")
    assert waiting not in engine.ends, "it was not dispatched"


def test_a_dispatch_that_another_worker_has_is_left_to_it_and_the_next_one_is_taken(
    url: str, worker: DbosWorker, engine: _Engine, idle_world: RuntimeWorld
) -> None:
    segment, other = queued(idle_world, 2)
    client = DBOSClient(system_database_url=url, application_name="workflow-api")
    client.enqueue({"queue_name": "elsewhere", "workflow_name": "segment", "workflow_id": f"{segment}:1"}, segment)
    client.destroy()
    dispatch(idle_world, segment, other)
    until(lambda: other in engine.ends, "the other segment")
    until(lambda: worker.room == 1, "the refusal")
    assert segment not in engine.ends
    idle_world.services.database.write(sql.requeue_all)
    dispatch(idle_world, segment)
    until(lambda: segment in engine.ends, "the segment that was dispatched again")


def test_a_segment_that_an_ended_engine_does_not_take_is_requeued(
    worker: DbosWorker, engine: _Engine, idle_world: RuntimeWorld
) -> None:
    (segment,) = queued(idle_world, 1)
    engine.closed = True
    dispatch(idle_world, segment)
    until(lambda: idle_world.services.database.read(lambda tx: sql.waiting(tx, 1)), "the segment to wait again")
    until(lambda: worker.room == 2, "room for others")


def test_a_halted_worker_takes_nothing(worker: DbosWorker, engine: _Engine, idle_world: RuntimeWorld) -> None:
    (segment,) = queued(idle_world, 1)
    worker.halt()
    dispatch(idle_world, segment)
    worker.stop()
    assert not engine.ends
    assert [row.segment_id for row in idle_world.services.database.read(execution_sql.dispatched)] == [segment]


def test_a_workflow_that_dbos_could_not_start_is_started_in_another_round(
    worker: DbosWorker, engine: _Engine, idle_world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (segment,) = queued(idle_world, 1)
    failed: list[str] = []

    def fail_once(workflow_id: str, **options: Any) -> SetWorkflowID:
        if not failed:
            failed.append(workflow_id)
            raise OSError("the statement was cancelled")
        return SetWorkflowID(workflow_id, **options)

    monkeypatch.setattr("backend.runtime.engines.dbos.SetWorkflowID", fail_once)
    dispatch(idle_world, segment)
    until(lambda: segment in engine.ends, "the segment")
    assert [workflow_id.partition(":")[0] for workflow_id in failed] == [segment]


def test_children_are_taken_while_runs_that_may_wait_for_them_fill_the_room(
    worker: DbosWorker, engine: _Engine, idle_world: RuntimeWorld
) -> None:
    first, second, child, waiting = queued(idle_world, 4)
    deepen = Command(
        update(runs)
        .where(runs.c.run_id == select(segments.c.run_id).where(segments.c.segment_id == child).scalar_subquery())
        .values(depth=1)
    )
    idle_world.services.database.write(lambda tx: tx.run(deepen))
    dispatch(idle_world, first, second, child, waiting)
    worker.on_announcement({DISPATCHED})
    until(lambda: set(engine.ends) == {first, second, child}, "two segments and the child")
    assert worker.room == 0
