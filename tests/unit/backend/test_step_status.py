from backend.step_status import TRANSITIONS, UNFINISHED, StepStatus
from workflow_api.v1 import runs_pb2


def test_the_table_holds_every_status_of_the_contract() -> None:
    names = {name.removeprefix("STEP_STATUS_").lower() for name, _ in runs_pb2.StepStatus.items()}
    assert set(TRANSITIONS) == names - {"unspecified"}


def test_a_step_ends_once() -> None:
    assert UNFINISHED == (StepStatus.PENDING, StepStatus.RUNNING, StepStatus.WAITING)
    assert {after for status in UNFINISHED for after in TRANSITIONS[status]} >= set(StepStatus) - {StepStatus.PENDING}
