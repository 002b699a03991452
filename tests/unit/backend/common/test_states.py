"""States and the moves between them: each has its own, and ends are ends."""

from backend.common.states import (
    APPROVAL_DECIDED,
    APPROVAL_SETTLED,
    APPROVAL_TRANSITIONS,
    RUN_TERMINAL,
    RUN_TRANSITIONS,
    SEGMENT_TRANSITIONS,
    STEP_TRANSITIONS,
    STEP_UNFINISHED,
    ApprovalState,
    SegmentState,
    StepStatus,
)
from backend.services.runs.messages import run_status
from workflow_api.v1 import runs_pb2


def test_the_table_holds_every_status_of_a_run() -> None:
    numbers = {run_status(status) for status in RUN_TRANSITIONS}
    assert numbers == set(runs_pb2.RunStatus.values()) - {runs_pb2.RUN_STATUS_UNSPECIFIED}


def test_every_move_leads_to_a_status_of_the_table_and_none_leaves_a_terminal_one() -> None:
    assert {after for moves in RUN_TRANSITIONS.values() for after in moves} <= RUN_TRANSITIONS.keys()
    assert {"completed", "failed", "cancelled"} == set(RUN_TERMINAL)


def test_every_status_that_is_not_terminal_can_fail_or_be_cancelled() -> None:
    for status in RUN_TRANSITIONS.keys() - set(RUN_TERMINAL):
        assert {"failed", "cancelled"} <= set(RUN_TRANSITIONS[status])


def test_the_table_holds_every_status_of_a_step() -> None:
    names = {name.removeprefix("STEP_STATUS_").lower() for name, _ in runs_pb2.StepStatus.items()}
    assert set(STEP_TRANSITIONS) == names - {"unspecified"}


def test_a_step_ends_once() -> None:
    assert STEP_UNFINISHED == (StepStatus.PENDING, StepStatus.RUNNING, StepStatus.WAITING)
    assert {after for status in STEP_UNFINISHED for after in STEP_TRANSITIONS[status]} >= set(StepStatus) - {
        StepStatus.PENDING
    }


def test_every_state_of_a_segment_has_its_transitions() -> None:
    assert set(SEGMENT_TRANSITIONS) == set(SegmentState)


def test_a_segment_never_leaves_its_end_and_never_goes_back() -> None:
    assert SEGMENT_TRANSITIONS[SegmentState.ENDED] == ()
    assert SegmentState.QUEUED not in {after for moves in SEGMENT_TRANSITIONS.values() for after in moves}


def test_every_state_of_an_approval_has_its_transitions() -> None:
    assert set(APPROVAL_TRANSITIONS) == set(ApprovalState)


def test_only_a_pending_approval_can_be_decided_or_withdrawn() -> None:
    assert {state for state, after in APPROVAL_TRANSITIONS.items() if after} == {ApprovalState.PENDING}
    ended = {*APPROVAL_SETTLED, ApprovalState.WITHDRAWN}
    assert set(APPROVAL_TRANSITIONS[ApprovalState.PENDING]) == ended
    assert set(APPROVAL_SETTLED) - set(APPROVAL_DECIDED) == {ApprovalState.EXPIRED}
