from google.protobuf.duration_pb2 import Duration

from console.visit import View
from contract.refusals import Refusal
from tests.unit.console.run_answers import EVIL, HERE, services, summary
from tests.unit.console.seen import MemoryServices, answered, html
from workflow_api.v1 import runs_pb2
from workflow_api.v1.runs_pb2 import (
    GetRunRequest,
    ListRunsResponse,
    ListRunStepsRequest,
    ListRunStepsResponse,
    Run,
    Step,
)

PAGE = "/runs/{run_id}/compare"


def backend() -> MemoryServices:
    def run(request: GetRunRequest) -> Run:
        if request.run_id == "run_none":
            raise Refusal("run_not_found", "There is no run run_none.")
        first = request.run_id == "run_1"
        return Run(
            summary=summary(run_id=request.run_id, duration=Duration(seconds=5 if first else 8)),
            parameters='{"top": 3}' if first else '{"top": 5}',
            input_text="same" if first else EVIL,
            result='{"words": 1}',
        )

    def steps(request: ListRunStepsRequest) -> ListRunStepsResponse:
        lasted = Duration(seconds=1 if request.run_id == "run_1" else 3)
        return ListRunStepsResponse(items=[Step(step="count", status=runs_pb2.STEP_STATUS_COMPLETED, duration=lasted)])

    others = ListRunsResponse(items=[summary(), summary(run_id="run_2", client_reference="order-7")])
    return services(GetRun=run, ListRunSteps=steps, ListRuns=others)


def test_other_runs_of_the_workflow_are_offered() -> None:
    services = backend()
    page = html(answered(services, "GET", PAGE, HERE))
    assert services.asked("RunsService/ListRuns")[0].workflow_id == "wf_1"
    assert 'href="/runs/run_1/compare?with=run_2"' in page
    assert "with=run_1" not in page


def test_inputs_durations_and_results_are_compared() -> None:
    page = html(answered(backend(), "GET", PAGE, HERE, query={"with": "run_2"}))
    assert "<code>top</code>" in page
    assert "+2 s" in page
    assert "0 values differ; 1 is equal." in page
    assert "&lt;script&gt;" in page
    assert EVIL not in page


def test_an_unknown_run_is_reported() -> None:
    answer = answered(backend(), "GET", PAGE, HERE, query={"with": "run_none"})
    assert isinstance(answer, View)
    assert answer.status == 404
