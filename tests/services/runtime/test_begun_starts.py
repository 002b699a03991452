"""Runs whose first steps begin in the transaction of their start, where this process alone executes runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from backend.common.metrics import DATABASE_QUEUE
from backend.storage.database import Tx
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, manifest
from tests.support.poll import until
from workflow_api.v1 import runs_pb2

_QUEUED = runs_pb2.RUN_STATUS_QUEUED


def _with_room(world: RuntimeWorld) -> None:
    """Waits until the launcher knows that nothing waits, as it does soon after the start of the runtime."""
    launcher = world.local_runtime.dispatcher.launcher
    until(lambda: not launcher.waits, "a round of the launcher")


def test_a_run_has_begun_with_its_start_and_is_answered_as_queued(world: RuntimeWorld) -> None:
    _with_room(world)
    world.workflows |= world.apply(
        manifest("Begun", [agent_step("first", "waiter"), agent_step("then", "echo", "first")])
    )
    answer = world.start("Begun")
    run_id = answer.run.summary.run_id
    begun = world.row(run_id)
    assert answer.run.summary.status == _QUEUED
    if not world.services.database.remote:
        assert (begun.status, begun.started_at) == ("running", begun.created_at)
        assert world.event_types(run_id)[:3] == ["segment.started", "run.started", "step.started"]
    assert world.until_ended(run_id).status == "completed"
    assert world.board(run_id) == {"first": "completed", "then": "completed"}
    assert [event.seq for event in world.events(run_id).events] == list(range(1, len(world.event_types(run_id)) + 1))


def test_a_run_that_finds_no_slot_begins_and_waits_for_one(world: RuntimeWorld) -> None:
    _with_room(world)
    world.workflows |= world.apply(manifest("Wide", [agent_step(f"s{number}", "waiter") for number in range(8)]))
    world.workflows |= world.apply(manifest("After", [agent_step("only", "echo")]))
    wide, after = world.started("Wide"), world.started("After")
    assert world.until_ended(after).status == "completed"
    assert world.until_ended(wide).status == "completed"
    assert world.event_types(after).count("step.started") == 1


def test_a_start_that_begins_no_run_keeps_neither_slot_nor_segment(world: RuntimeWorld) -> None:
    world.until_ended(world.run("Once", [agent_step("count", "writer")], idempotency_key="once"))
    _with_room(world)
    replayed = world.start("Once", "once")
    world.hold_licence()
    with pytest.raises(RefusedError):
        world.start("Once")
    session = world.local_runtime.executor.sessions.current
    assert replayed.replayed
    assert session is not None
    # The run before gives back its slot before the engine forgets its segment.
    until(lambda: (session.slots.in_use, session.engine.running) == (0, 0), "slots and engine to be free")


def _waiting_changes(world: RuntimeWorld) -> float:
    """How many changes wait for the database's writer."""
    families = {family.name: family for family in world.services.database.measured()}
    return sum(sample.value for sample in families[DATABASE_QUEUE.name].samples)


def test_a_start_that_is_decided_again_after_another_has_failed_begins_once(world: RuntimeWorld) -> None:
    if world.services.database.remote:
        # Starts are decided one by one there.
        return
    world.until_ended(world.run("Twice", [agent_step("only", "writer")]))
    _with_room(world)
    entered, release = threading.Event(), threading.Event()

    def hold(_: Tx) -> None:
        entered.set()
        assert release.wait(20)

    with ThreadPoolExecutor(3) as pool:
        held = pool.submit(world.services.database.write, hold)
        assert entered.wait(60)
        started = pool.submit(world.started, "Twice")
        until(lambda: _waiting_changes(world) == 1, "the first start to wait")
        refused = pool.submit(world.started, "Twice", key="ak_gone")
        until(lambda: _waiting_changes(world) == 2, "the second start to wait")
        release.set()
        held.result(60)
        run_id = started.result(60)
        with pytest.raises(RefusedError):
            refused.result(60)
    assert world.event_types(run_id)[:3] == ["segment.started", "run.started", "step.started"]
    assert world.until_ended(run_id).status == "completed"
    session = world.local_runtime.executor.sessions.current
    assert session is not None
    until(lambda: session.slots.in_use == 0, "the slots to be free")
    until(lambda: session.engine.running == 0, "the segment to end")
