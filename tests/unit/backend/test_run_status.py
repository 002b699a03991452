from backend.run_status import TERMINAL, TRANSITIONS
from backend.runs.messages import run_status
from workflow_api.v1 import runs_pb2


def test_the_table_holds_every_status_of_the_contract() -> None:
    numbers = {run_status(status) for status in TRANSITIONS}
    assert numbers == set(runs_pb2.RunStatus.values()) - {runs_pb2.RUN_STATUS_UNSPECIFIED}


def test_every_move_leads_to_a_status_of_the_table_and_none_leaves_a_terminal_one() -> None:
    assert {after for moves in TRANSITIONS.values() for after in moves} <= TRANSITIONS.keys()
    assert {"completed", "failed", "cancelled"} == TERMINAL


def test_every_status_that_is_not_terminal_can_fail_or_be_cancelled() -> None:
    for status in TRANSITIONS.keys() - TERMINAL:
        assert {"failed", "cancelled"} <= set(TRANSITIONS[status])
