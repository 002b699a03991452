"""A run whose first segment only asks for approvals is parked with the take of the segment. (contract 13)"""

from sqlalchemy import bindparam, select

from backend.runs.new_events import NewEvent
from backend.runs.parking import begin_parked
from backend.storage.statements import ScalarQuery
from backend.storage.tables.segments import segments
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2

_SEGMENT = ScalarQuery[str](select(segments.c.segment_id).where(segments.c.run_id == bindparam("run_id")))
_ASKED = [NewEvent("approval.requested", "review", {"approval_id": "apr_1", "title": "Review"})]


def _begin_parked(world: World, run_id: str) -> bool:
    segment_id = world.services.database.read(lambda tx: tx.scalar_one(_SEGMENT, run_id=run_id))
    return world.services.database.write(
        lambda tx: begin_parked(tx, run_id, segment_id, "worker", world.clock(), _ASKED, 1)
    )


def test_the_run_waits_with_the_events_of_a_segment_that_began_asked_and_ended(world: World) -> None:
    run_id = world.started("Gated")
    assert _begin_parked(world, run_id)
    summary = world.get(run_id).summary
    assert summary.status == runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL
    assert world.count("runs", "approvals_pending = 1") == 1
    assert summary.HasField("started_at")
    assert world.event_types(run_id) == ["segment.started", "run.started", "approval.requested", "segment.ended"]
    assert [event.seq for event in world.events(run_id).events] == [1, 2, 3, 4]
    assert world.count("segments", "state = 'ended' AND owner = 'worker' AND last_seq = 4") == 1


def test_a_segment_that_another_process_took_is_not_parked(world: World) -> None:
    run_id = world.started("Gated")
    world.begin(run_id, "another")
    before = world.get(run_id), world.event_types(run_id)
    assert not _begin_parked(world, run_id)
    assert (world.get(run_id), world.event_types(run_id)) == before


def test_a_run_that_was_cancelled_is_not_parked(world: World) -> None:
    run_id = world.started("Gated")
    world.cancel(run_id)
    assert not _begin_parked(world, run_id)
    assert world.get(run_id).summary.status == runs_pb2.RUN_STATUS_CANCELLED
    assert world.event_types(run_id) == []
