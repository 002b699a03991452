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
    RunError,
    Step,
)

PAGE = "/runs/{run_id}/compare"
MANIFEST = """[{"parameter": "files", "objects": 2, "bytes": 3000, "items": [
  {"key": "same.csv", "size_bytes": 1000, "etag": "e0"}, {"key": "other.csv", "size_bytes": 2000, "etag": "%s"}]}]"""


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
            error=None if first else RunError(code="node_failed", message="Step count failed."),
            inputs_manifest=MANIFEST % ("a1" if first else "b2"),
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


def test_files_and_errors_are_compared_and_differences_are_marked_in_both_columns_by_a_sign() -> None:
    page = html(answered(backend(), "GET", PAGE, HERE, query={"with": "run_2"}))
    marked = '<td class="long differs"><b aria-hidden="true">≠</b> <span class="hidden">Differs: </span>'
    for left, right in (
        ("2 kB, entity tag a1", "2 kB, entity tag b2"),
        ("\N{EN DASH}", "node_failed: Step count failed."),
        ("<code>3</code>", "<code>5</code>"),
    ):
        assert f"{marked}{left}</td>{marked}{right}</td>" in page
    assert page.index("files/other.csv") < page.index("files/same.csv")
    assert page.count('<td class="long">1 kB, entity tag e0</td>') == 2


def test_an_unknown_run_is_reported() -> None:
    answer = answered(backend(), "GET", PAGE, HERE, query={"with": "run_none"})
    assert isinstance(answer, View)
    assert answer.status == 404
