"""Approvers: only they decide, among people; an operator's tool may, and is audited as outside of them."""

import json
from typing import Any, Final

import pytest
from sqlalchemy import insert

from backend.services.runs.approvers import Approvers, Decider, read_approvers
from backend.storage.statements import Command
from backend.storage.tables.users import users
from contract.metadata import ACTOR, PERSON
from tests.services.calls import RefusedError
from tests.services.runs.test_deadlines import state, waiting
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2

ADD = Command(insert(users), ["name", "role", "password_hash", "password_is_temporary", "created_at"])
ROLES: Final = {"ana": "administrator", "bob": "approver", "kim": "approver"}


@pytest.fixture(autouse=True)
def people(world: World) -> None:
    rows = [
        {"name": name, "role": role, "password_hash": "", "password_is_temporary": 0, "created_at": 1}
        for name, role in ROLES.items()
    ]
    world.services.database.write(lambda tx: tx.many(ADD, rows))


def call(world: World, method: str, request: Any, person: str) -> Any:
    return world.runs.with_metadata(method, request, [(ACTOR, f"user:{person}"), (PERSON, person)])


def decide(world: World, approval_id: str, person: str) -> Any:
    request = runs_pb2.DecideApprovalRequest(approval_id=approval_id, approve=True)
    return call(world, "DecideApproval", request, person)


@pytest.mark.parametrize(
    ("approvers", "allowed"),
    [
        (None, {"ana", "bob", "kim"}),
        ({"roles": ["approver"], "people": []}, {"bob", "kim"}),
        ({"roles": ["administrator"], "people": ["kim"]}, {"ana", "kim"}),
        ({"roles": [], "people": ["nobody-yet"]}, set()),
    ],
)
def test_only_approvers_decide_and_the_others_are_told_who_may(world: World, approvers: Any, allowed: set[str]) -> None:
    for person in ROLES:
        _, approval_id = waiting(world, approvers=approvers)
        request = runs_pb2.ListPendingApprovalsRequest()
        (item,) = call(world, "ListPendingApprovals", request, person).items
        assert item.excluded == (person not in allowed)
        if person in allowed:
            decide(world, approval_id, person)
            assert state(world, approval_id).decided_by == f"user:{person}"
            continue
        with pytest.raises(RefusedError) as refused:
            decide(world, approval_id, person)
        assert refused.value.reason == "forbidden"
        assert "Only these may decide this approval: " in refused.value.message
        assert state(world, approval_id).state == "pending"
        world.decide(approval_id, approve=True)


def test_the_audit_says_that_an_operators_tool_stood_outside_the_approvers(world: World) -> None:
    run_id, approval_id = waiting(world, approvers={"roles": [], "people": ["kim"]})
    world.decide(approval_id, approve=True)
    (record,) = world.dump(f"audit_records WHERE target = '{approval_id}'")
    assert json.loads(record.details) == {"run_id": run_id, "outside_approvers": True}
    run_id, approval_id = waiting(world, approvers={"roles": [], "people": ["kim"]})
    decide(world, approval_id, "kim")
    (record,) = world.dump(f"audit_records WHERE target = '{approval_id}'")
    assert json.loads(record.details) == {"run_id": run_id}


def test_the_rule_asks_for_a_name_or_a_role() -> None:
    approvers = read_approvers('{"roles":["approver"],"people":["kim"]}')
    assert approvers == Approvers(("approver",), ("kim",))
    assert str(approvers) == "role approver, kim"
    assert Decider("kim", None).may_decide(approvers)
    assert Decider("bob", "approver").may_decide(approvers)
    assert not Decider("", None).may_decide(approvers)
    assert Decider(None, None).may_decide(approvers)
    assert not Decider(None, None).is_among(Approvers((), ()))
