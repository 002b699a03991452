"""Approvals: read by the API, decided by people. (contract 1.5, 16.4)"""

import json

import pytest

from backend.services.runs.lifecycle import SegmentLease
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2


def parked(world: World, *steps: str) -> tuple[str, list[str]]:
    run_id = world.started("Gated")
    return run_id, world.park(run_id, world.begin(run_id), *steps)


def approvals(world: World, run_id: str) -> list[str]:
    answer = world.runs("ListRunApprovals", runs_pb2.ListRunApprovalsRequest(run_id=run_id), world.key)
    return [approval.approval_id for approval in answer.items]


def test_the_parked_nodes_are_listed_oldest_first(world: World) -> None:
    run_id, ids = parked(world, "review", "other")
    answer = world.runs("ListRunApprovals", runs_pb2.ListRunApprovalsRequest(run_id=run_id), world.key)
    assert [approval.approval_id for approval in answer.items] == ids
    first = answer.items[0]
    assert (first.step, first.title) == ("review", "Look")
    assert first.segment_id == world.events(run_id).segment_id
    run = world.get(run_id).summary
    assert run.status == runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL
    assert run.counts.approvals_pending == 2


def test_the_inbox_holds_every_pending_approval_with_its_run(world: World) -> None:
    first, second = parked(world, "review"), parked(world, "review")
    answer = world.runs("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest())
    assert [(item.approval.approval_id, item.run_id, item.workflow_name) for item in answer.items] == [
        (run[1][0], run[0], "Gated") for run in (first, second)
    ]


def test_the_inbox_says_which_run_waits_since_when_and_who_started_it(world: World) -> None:
    run_id = world.started("Gated", client_reference="order-7", labels={"team": "north"})
    world.park(run_id, world.begin(run_id), "review")
    world.clock.advance(seconds=90)
    (item,) = world.runs("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest()).items
    assert (item.workflow_id, item.version) == (world.workflows["Gated"], 1)
    assert (item.client_reference, dict(item.labels)) == ("order-7", {"team": "north"})
    assert item.waiting.ToSeconds() == 90
    assert (item.triggered_by, item.key_id, item.key_name) == (
        runs_pb2.TRIGGERED_BY_API_KEY,
        world.key,
        "caller",
    )


def test_events_name_who_decided_for_people_and_never_for_a_key(world: World) -> None:
    run_id, ids = parked(world, "review")
    world.decide(ids[0], approve=True)
    world.begin(run_id)
    request = runs_pb2.ListRunEventsRequest(run_id=run_id)
    seen = {key: json.loads(world.runs("ListRunEvents", request, key).events[1].data) for key in (None, world.key)}
    assert seen[None]["decided_by"] == "tester"
    assert "decided_by" not in seen[world.key]
    assert "tester" not in str(world.runs("ListRunEvents", request, world.key))


def test_an_approval_completes_its_step_and_queues_a_new_segment(world: World) -> None:
    run_id, ids = parked(world, "review", "other")
    woken = world.runtime.woken
    answer = world.decide(ids[0], approve=True, comment="fine")
    assert (answer.run_id, answer.status) == (run_id, runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL)
    assert world.runtime.woken == woken + 1
    assert approvals(world, run_id) == ids[1:]
    assert world.steps(run_id)["review"].status == runs_pb2.STEP_STATUS_COMPLETED
    counts = world.get(run_id).summary.counts
    assert (counts.steps_completed, counts.approvals_pending) == (1, 1)
    world.begin(run_id)
    assert world.get(run_id).summary.status == runs_pb2.RUN_STATUS_RUNNING
    decided = world.events(run_id).events[1]
    assert (decided.type, decided.step) == ("approval.decided", "review")
    assert json.loads(decided.data) == {"approval_id": ids[0], "decision": "approved", "comment": "fine"}


def test_a_decided_run_waits_until_its_next_segment_begins(world: World) -> None:
    run_id, ids = parked(world, "review")
    world.decide(ids[0], approve=True)
    summary = world.get(run_id).summary
    assert (summary.status, summary.counts.approvals_pending) == (runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL, 0)
    world.begin(run_id)
    summary = world.get(run_id).summary
    assert (summary.status, summary.counts.approvals_pending) == (runs_pb2.RUN_STATUS_RUNNING, 0)


def test_a_rejection_blocks_its_step_and_queues_the_segment_that_fails_the_run(world: World) -> None:
    run_id, ids = parked(world, "review")
    world.decide(ids[0], approve=False)
    review = world.steps(run_id)["review"]
    assert review.status == runs_pb2.STEP_STATUS_BLOCKED
    assert (review.error.code, review.error.message) == ("invariant_blocked", "The approval was rejected.")
    segment_id = world.begin(run_id)
    assert json.loads(world.events(run_id).events[1].data)["decision"] == "rejected"
    world.close(run_id, "failed", error_code="invariant_blocked", lease=SegmentLease(segment_id, "worker"))
    assert world.get(run_id).error.code == "invariant_blocked"


def test_two_decisions_before_it_begins_share_one_segment(world: World) -> None:
    run_id, ids = parked(world, "review", "other")
    for approval_id in ids:
        world.decide(approval_id, approve=True)
    assert world.count("segments", f"run_id = '{run_id}'") == 2
    world.begin(run_id)
    assert world.event_types(run_id) == ["segment.started", "approval.decided", "approval.decided"]


def test_a_decision_while_the_segment_runs_applies_once_it_parks(world: World) -> None:
    run_id = world.started("Gated")
    segment_id = world.begin(run_id)
    early = world.ask(run_id, segment_id, "review")
    world.decide(early, approve=True)
    assert world.count("segments", f"run_id = '{run_id}'") == 1
    world.park(run_id, segment_id, "other")
    assert world.begin(run_id) != segment_id
    assert world.event_types(run_id) == ["segment.started", "approval.decided"]


def test_an_unknown_approval_is_not_found(world: World) -> None:
    with pytest.raises(RefusedError) as caught:
        world.decide("apr_none", approve=True)
    assert (caught.value.reason, caught.value.message) == ("not_found", "There is no approval apr_none.")


@pytest.mark.parametrize("ending", ["approved", "rejected", "withdrawn"])
def test_a_decided_or_ended_approval_cannot_be_decided(world: World, ending: str) -> None:
    run_id, ids = parked(world, "review")
    if ending == "withdrawn":
        world.cancel(run_id)
    else:
        world.decide(ids[0], approve=ending == "approved")
    audited = world.count("audit_records")
    with pytest.raises(RefusedError) as caught:
        world.decide(ids[0], approve=True)
    assert caught.value.reason == "invalid_request"
    assert caught.value.problems == {"approval_id": f"must wait for a decision; this one is {ending}"}
    assert world.count("audit_records") == audited


def test_a_decision_is_audited_with_who_made_it(world: World) -> None:
    _, ids = parked(world, "review")
    world.decide(ids[0], approve=True, comment="private words")
    assert world.count("audit_records", "actor = 'tester' AND action = 'approval.approved'") == 1
    assert world.count("audit_records", "details LIKE '%private%'") == 0
    assert world.count("approvals", "decided_by = 'tester' AND comment = 'private words'") == 1
