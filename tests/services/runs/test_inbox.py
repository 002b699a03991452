"""What the inbox of approvals asks for: the approvals of one gate, how many wait where, and past decisions."""

from pathlib import Path
from typing import Any

import pytest

from contract.metadata import ACTOR, PERSON
from contract.times import to_timestamp
from tests.services.calls import Caller, RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import reviews_pb2, runs_pb2, users_pb2
from workflow_api_testing import TestBackend


@pytest.fixture
def call(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


@pytest.fixture
def world(backend: TestBackend, tmp_path: Path) -> World:
    return World(backend.composition.services, backend.clock, tmp_path)


def parked(world: World, *steps: str) -> list[str]:
    run_id = world.started("Gated")
    return world.park(run_id, world.begin(run_id), *steps)


def test_the_approvals_of_one_gate_are_listed_alone(world: World, call: Caller) -> None:
    (first, other), (second,) = parked(world, "review", "other"), parked(world, "review")
    gated = world.workflows["Gated"]
    asked: Any
    for asked, expected in (
        ({"workflow_id": gated, "step": "review"}, [first, second]),
        ({"step": "other"}, [other]),
        ({"workflow_id": world.workflows["Plain"]}, []),
    ):
        items = call("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest(**asked)).items
        assert [each.approval.approval_id for each in items] == expected


def test_the_approvals_of_one_run_are_listed_alone(world: World, call: Caller) -> None:
    parked(world, "review")
    run_id = world.started("Gated")
    first, second = world.park(run_id, world.begin(run_id), "review", "other")
    asked: Any
    for asked, expected in (({}, [first, second]), ({"step": "other"}, [second]), ({"step": "none"}, [])):
        items = call("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest(run_id=run_id, **asked)).items
        assert [each.approval.approval_id for each in items] == expected


def test_what_waits_is_counted_by_gate(world: World, call: Caller) -> None:
    parked(world, "review", "other")
    (decided,) = parked(world, "review")
    world.decide(decided, approve=True)
    parked(world, "review")
    counted = call("CountPendingApprovals", reviews_pb2.CountPendingApprovalsRequest())
    assert counted.total == 3
    gates = [(gate.workflow_name, gate.step, gate.title, gate.pending) for gate in counted.gates]
    assert gates == [("Gated", "other", "Look", 1), ("Gated", "review", "Look", 2)]
    total = call("CountPendingApprovals", reviews_pb2.CountPendingApprovalsRequest(total_only=True))
    assert total == reviews_pb2.CountPendingApprovalsResponse(total=3)


def test_decisions_of_all_runs_are_newest_first_with_comment_and_run(world: World, call: Caller) -> None:
    (first,), (second, waits) = parked(world, "review"), parked(world, "review", "other")
    world.decide(first, approve=True, comment="fine")
    world.clock.advance(seconds=1)
    world.decide(second, approve=False)
    items = call("ListAllDecisions", reviews_pb2.ListAllDecisionsRequest()).items
    assert [each.decision.approval_id for each in items] == [second, first]
    assert waits not in {each.decision.approval_id for each in items}
    assert (items[1].comment, items[1].decision.decided_by, items[1].workflow_name) == ("fine", "tester", "Gated")


def test_decisions_are_chosen_by_workflow_person_decision_and_time(world: World, call: Caller) -> None:
    (first,), (second,) = parked(world, "review"), parked(world, "review")
    world.decide(first, approve=True)
    world.clock.advance(seconds=1)
    later = world.clock()
    world.decide(second, approve=False)

    def found(**filters: Any) -> list[str]:
        request = reviews_pb2.ListAllDecisionsRequest(**filters)
        return [each.decision.approval_id for each in call("ListAllDecisions", request).items]

    assert found(state=reviews_pb2.APPROVAL_STATE_APPROVED) == found(decided_before=to_timestamp(later)) == [first]
    assert found(state=reviews_pb2.APPROVAL_STATE_REJECTED) == found(decided_since=to_timestamp(later)) == [second]
    assert found(workflow_id=world.workflows["Gated"], decided_by="tester") == [second, first]
    assert found(workflow_id="wf_other") == found(decided_by="somebody") == []
    with pytest.raises(RefusedError):
        found(state=reviews_pb2.APPROVAL_STATE_PENDING)


def test_a_page_of_filtered_decisions_looks_at_a_bounded_number_and_leads_on(
    world: World, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.services.reviews.sql.MOST_EXAMINED", 2)
    approvals = [parked(world, "review")[0] for _ in range(8)]
    for place, approval in enumerate(approvals):
        world.decide(approval, approve=place == 0)
        world.clock.advance(seconds=1)

    def pages(**filters: Any) -> list[list[str]]:
        found, token = [], ""
        while True:
            answer = call("ListAllDecisions", reviews_pb2.ListAllDecisionsRequest(page_token=token, **filters))
            found.append([each.decision.approval_id for each in answer.items])
            if not answer.HasField("next_page_token"):
                return found
            token = answer.next_page_token

    assert pages(state=reviews_pb2.APPROVAL_STATE_APPROVED) == [[], [], approvals[:1]]
    of_workflow = pages(workflow_id=world.workflows["Gated"], page_size=2)
    assert [each for page in of_workflow for each in page] == approvals[::-1]
    assert pages() == [approvals[::-1]]


def as_person(call: Caller, method: str, request: Any, person: str) -> Any:
    return call.with_metadata(method, request, [(ACTOR, f"user:{person}"), (PERSON, person)])


def seen(call: Caller, person: str, view: runs_pb2.PendingView.ValueType) -> list[str]:
    items = as_person(call, "ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest(view=view), person).items
    return [each.approval.approval_id for each in items]


def test_a_snooze_hides_an_approval_from_one_person_until_its_time(
    world: World, call: Caller, backend: TestBackend
) -> None:
    for person in ("ada", "bob"):
        call("CreateUser", users_pb2.CreateUserRequest(name=person, role=users_pb2.ROLE_APPROVER))
    first, second = parked(world, "review", "other")
    until = to_timestamp(backend.clock() + 60_000)
    as_person(call, "SnoozeApproval", reviews_pb2.SnoozeApprovalRequest(approval_id=first, until=until), "ada")
    assert seen(call, "ada", runs_pb2.PENDING_VIEW_AWAKE) == [second]
    assert seen(call, "ada", runs_pb2.PENDING_VIEW_SNOOZED) == [first]
    assert seen(call, "bob", runs_pb2.PENDING_VIEW_AWAKE) == [first, second]
    as_person(call, "AssignApproval", reviews_pb2.AssignApprovalRequest(approval_id=second), "bob")
    assert seen(call, "bob", runs_pb2.PENDING_VIEW_MINE) == [second]
    assert seen(call, "ada", runs_pb2.PENDING_VIEW_MINE) == []
    as_person(call, "SnoozeApproval", reviews_pb2.SnoozeApprovalRequest(approval_id=first), "ada")
    assert seen(call, "ada", runs_pb2.PENDING_VIEW_AWAKE) == [first, second]
    past = to_timestamp(backend.clock() - 1)
    with pytest.raises(RefusedError) as caught:
        as_person(call, "SnoozeApproval", reviews_pb2.SnoozeApprovalRequest(approval_id=first, until=past), "ada")
    assert list(caught.value.problems) == ["until"]
