"""Deadlines and reminders of approvals: each takes effect once, whoever else tries. (docs/flows.md)"""

import json
from functools import partial
from typing import Any, Final

import pytest
from sqlalchemy import bindparam, update

from backend.common.clock import HOUR_MS, to_text
from backend.services.runs import deadlines
from backend.services.workflows.resolved_workflow import ApprovalSettings
from backend.storage.database import Tx, run_of
from backend.storage.statements import Command
from backend.storage.tables.segments import approvals
from tests.services.calls import RefusedError
from tests.services.runs.test_races import ROUNDS, concurrently
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2

_COLUMNS: Final = ("deadline_at", "on_deadline", "remind_at", "approvers", "form_schema")
_BIND = Command(
    update(approvals)
    .where(approvals.c.approval_id == bindparam("of_approval_id"))
    .values({name: bindparam(f"new_{name}") for name in _COLUMNS})
)


def bind(world: World, approval_id: str, **terms: Any) -> None:
    """Gives a pending approval an end, counted from now."""
    whole = {"deadline_hours": None, "on_deadline": "reject", "remind_hours": None, "approvers": None}
    columns = deadlines.end_columns(
        ApprovalSettings(**{**whole, "form_schema": None, "summary": None, **terms}), world.clock()
    )

    def work(tx: Tx) -> None:
        tx.run(_BIND, of_approval_id=approval_id, **{f"new_{name}": columns[name] for name in _COLUMNS})

    world.services.database.write(work)


def waiting(world: World, **terms: Any) -> tuple[str, str]:
    """A parked run and its approval, which ends by these terms."""
    run_id = world.started("Gated")
    approval_id = world.park(run_id, world.begin(run_id), "review")[0]
    bind(world, approval_id, **terms)
    return run_id, approval_id


def expire(world: World, run_id: str, approval_id: str, at: int) -> bool:
    return world.services.database.write(lambda tx: deadlines.expire(tx, approval_id, at), lock_key=run_of(run_id))


def remind(world: World, run_id: str, approval_id: str, at: int) -> bool:
    return world.services.database.write(lambda tx: deadlines.remind(tx, approval_id, at), lock_key=run_of(run_id))


def state(world: World, approval_id: str) -> Any:
    (row,) = world.dump(f"approvals WHERE approval_id = '{approval_id}'")
    return row


@pytest.mark.parametrize(("on_deadline", "after"), [("reject", "rejected"), ("fail", "expired")])
def test_a_deadline_ends_an_approval_without_a_person(world: World, on_deadline: str, after: str) -> None:
    run_id, approval_id = waiting(world, deadline_hours=48, on_deadline=on_deadline)
    deadline = world.clock() + 48 * HOUR_MS
    assert not expire(world, run_id, approval_id, deadline - 1)
    assert expire(world, run_id, approval_id, deadline)
    row = state(world, approval_id)
    assert (row.state, row.decided_by, row.decided_at) == (after, None, deadline)
    assert row.comment == ("deadline" if after == "rejected" else None)
    step = world.steps(run_id)["review"]
    assert (step.status, step.error.code) == (runs_pb2.STEP_STATUS_BLOCKED, "invariant_blocked")
    assert world.count("segments", f"run_id = '{run_id}' AND state = 'queued'") == 1
    assert world.count("audit_records", f"action = 'approval.expired' AND target = '{approval_id}'") == 1
    assert world.get(run_id).summary.counts.approvals_pending == 0


@pytest.mark.parametrize(
    ("on_deadline", "types"), [("reject", ["approval.expired", "approval.decided"]), ("fail", ["approval.expired"])]
)
def test_the_next_segment_records_the_deadline_once(world: World, on_deadline: str, types: list[str]) -> None:
    run_id, approval_id = waiting(world, deadline_hours=1, on_deadline=on_deadline)
    assert expire(world, run_id, approval_id, world.clock() + HOUR_MS)
    world.begin(run_id)
    events = world.events(run_id).events
    assert [event.type for event in events] == ["segment.started", *types]
    assert json.loads(events[1].data) == {"approval_id": approval_id, "on_deadline": on_deadline}
    world.close(run_id, "failed", error_code="invariant_blocked")
    assert world.event_types(run_id) == ["segment.started", *types, "run.failed", "segment.ended"]


def test_a_rejection_by_the_deadline_says_so_to_readers(world: World) -> None:
    run_id, approval_id = waiting(world, deadline_hours=1)
    expire(world, run_id, approval_id, world.clock() + HOUR_MS)
    world.begin(run_id)
    decided = json.loads(world.events(run_id).events[2].data)
    assert decided == {"approval_id": approval_id, "decision": "rejected", "comment": "deadline"}


@pytest.mark.parametrize("late_ms", [0, 1, 100 * HOUR_MS])
def test_a_decision_at_the_deadline_or_later_is_refused_before_anything_has_expired(world: World, late_ms: int) -> None:
    _, approval_id = waiting(world, deadline_hours=1)
    deadline = world.clock() + HOUR_MS
    world.clock.advance(seconds=(HOUR_MS + late_ms) / 1000)
    with pytest.raises(RefusedError) as refused:
        world.decide(approval_id, approve=True)
    assert refused.value.reason == "invalid_request"
    reason = f"must wait for a decision; its deadline was {to_text(deadline)}"
    assert refused.value.problems == {"approval_id": reason}
    assert state(world, approval_id).state == "pending"


def test_a_decision_before_the_deadline_holds_for_good(world: World) -> None:
    run_id, approval_id = waiting(world, deadline_hours=1)
    deadline = world.clock() + HOUR_MS
    world.clock.advance(seconds=3_599)
    world.decide(approval_id, approve=True)
    assert not expire(world, run_id, approval_id, deadline)
    assert state(world, approval_id).state == "approved"
    assert world.count("audit_records", "action = 'approval.expired'") == 0


def test_of_a_decision_and_a_deadline_at_once_exactly_one_holds(world: World) -> None:
    for number in range(2 * ROUNDS):
        run_id, approval_id = waiting(world, deadline_hours=1, on_deadline=("reject", "fail")[number % 2])
        at = world.clock() + HOUR_MS
        decided, *expired = concurrently(
            partial(world.decide, approval_id, approve=number % 3 > 0),
            partial(expire, world, run_id, approval_id, at),
            partial(expire, world, run_id, approval_id, at + 5),
        )
        decision = isinstance(decided, runs_pb2.DecideApprovalResponse)
        assert decision or decided == "invalid_request"
        assert [decision, *expired].count(True) == 1
        row = state(world, approval_id)
        assert (row.decided_by is not None) == decision
        actions = "action IN ('approval.expired', 'approval.approved', 'approval.rejected')"
        assert world.count("audit_records", f"{actions} AND target = '{approval_id}'") == 1
        assert world.count("segments", f"run_id = '{run_id}' AND state = 'queued'") == 1
        assert world.get(run_id).summary.counts.approvals_pending == 0
        world.begin(run_id)
        assert ("approval.expired" in world.event_types(run_id)) == (not decision)
        world.close(run_id, "cancelled")


def test_a_cancel_and_a_deadline_agree(world: World) -> None:
    for _ in range(ROUNDS):
        run_id, approval_id = waiting(world, deadline_hours=1)
        expired, cancelled = concurrently(
            partial(expire, world, run_id, approval_id, world.clock() + HOUR_MS), partial(world.cancel, run_id)
        )
        assert isinstance(cancelled, runs_pb2.CancelRunResponse)
        assert state(world, approval_id).state == ("rejected" if expired else "withdrawn")
        assert ("approval.expired" in world.event_types(run_id)) == expired


def test_a_reminder_of_a_parked_run_has_a_segment_of_its_own_and_comes_once(world: World) -> None:
    run_id, approval_id = waiting(world, deadline_hours=48, remind_hours=24)
    requested = world.clock()
    assert not remind(world, run_id, approval_id, requested + 24 * HOUR_MS - 1)
    assert remind(world, run_id, approval_id, requested + 24 * HOUR_MS)
    assert not remind(world, run_id, approval_id, requested + 25 * HOUR_MS)
    events = world.events(run_id).events
    assert [event.type for event in events] == ["segment.started", "approval.reminded", "segment.ended"]
    assert json.loads(events[1].data) == {
        "approval_id": approval_id,
        "deadline_at": to_text(requested + 48 * HOUR_MS),
    }
    assert world.get(run_id).summary.status == runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL
    world.decide(approval_id, approve=True)
    world.begin(run_id)
    assert world.event_types(run_id) == ["segment.started", "approval.decided"]


def test_of_many_processes_one_reminds(world: World) -> None:
    run_id, approval_id = waiting(world, remind_hours=1)
    at = world.clock() + HOUR_MS
    outcomes = concurrently(*(partial(remind, world, run_id, approval_id, at) for _ in range(8)))
    assert sorted(map(bool, outcomes)) == [False] * 7 + [True]
    assert world.count("segments", f"run_id = '{run_id}'") == 2


def test_a_reminder_goes_into_a_running_segment_and_waits_for_a_queued_one(world: World) -> None:
    run_id = world.started("Gated")
    segment_id = world.begin(run_id)
    first, second = world.ask(run_id, segment_id, "review"), world.ask(run_id, segment_id, "other")
    for approval_id in (first, second):
        bind(world, approval_id, remind_hours=1)
    at = world.clock() + HOUR_MS
    assert remind(world, run_id, first, at)
    assert world.event_types(run_id)[-1] == "approval.reminded"
    world.decide(first, approve=True)
    world.park(run_id, segment_id)
    assert not remind(world, run_id, second, at), "the queued segment takes no events"
    world.begin(run_id)
    assert remind(world, run_id, second, at)
    assert world.event_types(run_id) == ["segment.started", "approval.decided", "approval.reminded"]


def test_nobody_is_reminded_of_what_has_ended(world: World) -> None:
    run_id, approval_id = waiting(world, deadline_hours=2, remind_hours=1)
    requested = world.clock()
    assert not remind(world, run_id, approval_id, requested + 2 * HOUR_MS), "its deadline has passed"
    world.decide(approval_id, approve=False)
    assert not remind(world, run_id, approval_id, requested + HOUR_MS)


def test_the_inbox_lists_the_nearest_deadline_first_then_the_oldest_without_one(world: World) -> None:
    ids = []
    for hours in (None, 10, 2, None):
        _, approval_id = waiting(world, deadline_hours=hours)
        ids.append(approval_id)
        world.clock.advance(seconds=1)
    found: list[str] = []
    token = ""
    while True:
        request = runs_pb2.ListPendingApprovalsRequest(by_deadline=True, page_size=1, page_token=token)
        page = world.runs("ListPendingApprovals", request)
        found += [item.approval.approval_id for item in page.items]
        token = page.next_page_token
        if not token:
            break
    assert found == [ids[2], ids[1], ids[0], ids[3]]
    (first, *_) = world.runs("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest()).items
    assert (first.approval.approval_id, first.HasField("deadline_at")) == (ids[0], False)
