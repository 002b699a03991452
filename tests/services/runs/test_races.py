"""Concurrent transitions of one run: one of them wins, and the tables agree with it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from backend.services.runs import approvals_sql, deadlines, lifecycle
from backend.storage.database import Tx, run_of
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2

ROUNDS = 20


def concurrently(*moves: Callable[[], object]) -> list[object]:
    """What each move returned, or the reason that it was refused with."""
    barrier = threading.Barrier(len(moves))

    def carry_out(move: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return move()
        except RefusedError as error:
            return error.reason

    with ThreadPoolExecutor(len(moves)) as pool:
        return list(pool.map(carry_out, moves))


def take(world: World, segment_id: str) -> bool:
    return world.services.database.write(lambda tx: lifecycle.begin_segment(tx, segment_id, "worker", world.clock()))


def queued_segment(world: World, run_id: str) -> str:
    return next(str(row.segment_id) for row in world.dump("segments") if row.run_id == run_id)


def test_of_many_decisions_exactly_one_takes_effect(world: World) -> None:
    run_id = world.started("Gated")
    approval_id = world.park(run_id, world.begin(run_id), "review")[0]
    outcomes = concurrently(*(partial(world.decide, approval_id, approve=number % 2 == 0) for number in range(16)))
    assert outcomes.count("invalid_request") == 15
    assert world.count("segments", f"run_id = '{run_id}' AND state = 'queued'") == 1
    assert world.get(run_id).summary.counts.approvals_pending == 0


def test_a_cancel_and_the_begin_of_a_run_agree(world: World) -> None:
    for _ in range(ROUNDS):
        run_id = world.started()
        segment_id = queued_segment(world, run_id)
        began, cancelled = concurrently(partial(take, world, segment_id), partial(world.cancel, run_id))
        assert isinstance(cancelled, runs_pb2.CancelRunResponse)
        assert (cancelled.status == runs_pb2.RUN_STATUS_RUNNING) == began
        assert (run_id in world.runtime.cancelled) == began
        world.close(run_id, "cancelled")
        assert world.event_types(run_id)[-2:] == (["run.cancelled", "segment.ended"] if began else [])


def test_a_cancel_and_the_end_of_a_run_agree(world: World) -> None:
    for _ in range(ROUNDS):
        run_id = world.started()
        _, cancelled = concurrently(partial(world.complete, world.begin(run_id)), partial(world.cancel, run_id))
        asked_first = isinstance(cancelled, runs_pb2.CancelRunResponse)
        assert asked_first or cancelled == "already_terminal"
        status = runs_pb2.RUN_STATUS_CANCELLED if asked_first else runs_pb2.RUN_STATUS_COMPLETED
        assert world.get(run_id).summary.status == status
        assert (world.row(run_id).cancel_requested_at is not None) == asked_first


def test_a_run_whose_cancel_was_answered_never_completes(world: World) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id)
    world.cancel(run_id)
    world.complete(segment_id)
    assert world.get(run_id).summary.status == runs_pb2.RUN_STATUS_CANCELLED
    assert world.row(run_id).result is None
    assert world.event_types(run_id)[-2:] == ["run.cancelled", "segment.ended"]


def test_a_decision_and_a_cancel_agree(world: World) -> None:
    for _ in range(ROUNDS):
        run_id = world.started("Gated")
        approval_id = world.park(run_id, world.begin(run_id), "review")[0]
        decided, cancelled = concurrently(
            partial(world.decide, approval_id, approve=True),
            partial(world.cancel, run_id),
        )
        assert isinstance(cancelled, runs_pb2.CancelRunResponse)
        assert world.get(run_id).summary.status == runs_pb2.RUN_STATUS_CANCELLED
        kept = decided != "invalid_request"
        assert ("approval.decided" in world.event_types(run_id)) == kept
        assert world.count("segments", f"run_id = '{run_id}' AND state <> 'ended'") == 0


def test_events_of_many_writers_have_no_gaps(world: World) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id)
    concurrently(*(lambda: [world.write(segment_id, "step.progress") for _ in range(10)] for _ in range(8)))
    events = world.events(run_id, page_size=500).events
    assert [event.seq for event in events] == list(range(1, 83))


def end_as_its_parent_does(world: World, run_id: str) -> None:
    """Cancels a run in a transaction that holds the lock key of another one."""

    def work(tx: Tx) -> None:
        lifecycle.cancel_child(tx, run_id, world.clock())

    world.services.database.write(work, lock_key=run_of("its parent"))


def traces(world: World, run_id: str) -> list[list[Any]]:
    tables = ("runs", "steps", "segments", "approvals")
    return [*(world.dump(f"{table} WHERE run_id = '{run_id}'") for table in tables), world.dump("audit_records")]


def test_a_decision_and_the_end_of_the_parent_agree(world: World) -> None:
    for _ in range(ROUNDS):
        run_id = world.started("Gated")
        approval_id = world.park(run_id, world.begin(run_id), "review")[0]
        decided, _ended = concurrently(
            partial(world.decide, approval_id, approve=True), partial(end_as_its_parent_does, world, run_id)
        )
        assert world.row(run_id).status == "cancelled"
        kept = decided != "invalid_request"
        (approval,) = world.dump(f"approvals WHERE run_id = '{run_id}'")
        assert approval.state == ("approved" if kept else "withdrawn")
        assert ("approval.decided" in world.event_types(run_id)) == kept
        assert world.row(run_id).steps_completed == kept
        assert world.count("segments", f"run_id = '{run_id}' AND state <> 'ended'") == 0


def test_a_decision_whose_approval_was_read_before_the_end_of_the_run_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = world.started("Gated")
    approval_id = world.park(run_id, world.begin(run_id), "review")[0]
    read_before = world.services.database.read(lambda tx: approvals_sql.find(tx, approval_id))
    end_as_its_parent_does(world, run_id)
    before = traces(world, run_id)
    monkeypatch.setattr(approvals_sql, "find", lambda *_: read_before)
    with pytest.raises(RefusedError) as refused:
        world.decide(approval_id, approve=True)
    assert refused.value.problems["approval_id"].endswith("this one was settled meanwhile")
    assert traces(world, run_id) == before


@pytest.mark.parametrize("move", [deadlines.expire, deadlines.remind])
def test_a_deadline_whose_approval_was_read_before_the_end_of_the_run_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, move: Callable[[Tx, str, int], bool]
) -> None:
    run_id = world.started("Gated")
    approval_id = world.park(run_id, world.begin(run_id), "review")[0]
    read_before = world.services.database.read(lambda tx: approvals_sql.find(tx, approval_id))
    assert read_before is not None
    at = world.clock()
    due = read_before._replace(deadline_at=at) if move is deadlines.expire else read_before._replace(remind_at=at)
    end_as_its_parent_does(world, run_id)
    before = traces(world, run_id)
    monkeypatch.setattr(approvals_sql, "find", lambda *_: due)
    assert not world.services.database.write(lambda tx: move(tx, approval_id, world.clock()), lock_key=run_of(run_id))
    assert traces(world, run_id) == before


def test_no_segment_is_queued_for_a_run_that_has_ended(world: World) -> None:
    run_id = world.started("Gated")
    world.park(run_id, world.begin(run_id), "review")
    end_as_its_parent_does(world, run_id)
    before = traces(world, run_id)
    world.services.database.write(lambda tx: lifecycle.continue_run(tx, run_id, world.clock()))
    assert not world.services.database.write(lambda tx: lifecycle.end_with_last_steps(tx, run_id, world.clock()))
    assert traces(world, run_id) == before


def test_a_segment_that_was_left_queued_for_an_ended_run_ends_as_it_is_taken(world: World) -> None:
    run_id = world.finished()
    left = world.services.database.write(lambda tx: lifecycle.queue_segment(tx, run_id, world.clock()))
    assert not take(world, left)
    (segment,) = world.dump(f"segments WHERE segment_id = '{left}'")
    assert (segment.state, segment.started_at, segment.ended_at) == ("ended", None, None)
