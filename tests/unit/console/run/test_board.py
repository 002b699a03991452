"""Steps of a run on its page: which one is selected, and what is said of it."""

import re

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from contract.refusals import Refusal
from tests.unit.console.run_answers import HERE, ONE, events, services, summary
from tests.unit.console.seen import answered, html
from workflow_api.v1.model_usage_pb2 import ModelUse, RunModelUsage, StepModelUsage
from workflow_api.v1.outputs_pb2 import ListOutputsResponse
from workflow_api.v1.run_lists_pb2 import ChildRun, ListChildRunsRequest, ListChildRunsResponse
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_COMPLETED,
    RUN_STATUS_FAILED,
    STEP_KIND_WORKFLOW,
    STEP_STATUS_COMPLETED,
    STEP_STATUS_FAILED,
    STEP_STATUS_RUNNING,
    STEP_STATUS_WAITING_FOR_APPROVAL,
    Event,
    ListRunStepsResponse,
    Run,
    RunUsage,
    Step,
)


def steps_of(*statuses: int) -> ListRunStepsResponse:
    items = [Step(step=f"s{n}", status=status) for n, status in enumerate(statuses)]  # type: ignore[arg-type]
    for n, step in enumerate(items):
        if step.status == STEP_STATUS_COMPLETED:
            step.finished_at.seconds = 1_000 + n
    return ListRunStepsResponse(items=items)


def selected(page: str) -> list[str]:
    return re.findall(r'href="/runs/run_1\?[^"]*step=(\w+)[^"]*" aria-current="true"', page)


@pytest.mark.parametrize(
    ("statuses", "step"),
    [
        ((STEP_STATUS_COMPLETED, STEP_STATUS_RUNNING, STEP_STATUS_FAILED), "s2"),
        ((STEP_STATUS_RUNNING, STEP_STATUS_WAITING_FOR_APPROVAL), "s1"),
        ((STEP_STATUS_COMPLETED, STEP_STATUS_RUNNING, 0), "s1"),
        ((STEP_STATUS_COMPLETED, STEP_STATUS_COMPLETED), "s1"),
        ((0, 0), "s0"),
    ],
)
def test_without_a_choice_the_step_that_matters_most_is_selected(statuses: tuple[int, ...], step: str) -> None:
    page = html(answered(services(ListRunSteps=steps_of(*statuses)), "GET", ONE, HERE))
    assert selected(page) == [step, step], "in the graph and the timeline"
    assert f'id="of-{step}"' in page


def test_a_choice_stays_in_every_link_of_the_page() -> None:
    page = html(answered(services(ListRunSteps=steps_of(0, 0, 0)), "GET", ONE, HERE, query={"step": "s1"}))
    for tab in ("results", "events", "inputs"):
        assert f'href="/runs/run_1?tab={tab}&amp;step=s1"' in page
    events_tab = html(answered(services(), "GET", ONE, HERE, query={"tab": "events", "step": "s1"}))
    assert '<a href="/runs/run_1?step=s1">Steps' in events_tab


def test_the_failed_step_of_a_long_run_is_in_the_window_that_is_shown() -> None:
    found = steps_of(*[STEP_STATUS_COMPLETED] * 70, STEP_STATUS_FAILED, *[0] * 29)
    page = html(answered(services(ListRunSteps=found), "GET", ONE, HERE))
    assert selected(page) == ["s70", "s70"]
    other = html(answered(services(ListRunSteps=found), "GET", ONE, HERE, query={"steps": "1"}))
    assert selected(other) == ["s19", "s19"]


def test_the_models_of_a_step_are_shown_with_their_cost() -> None:
    use = ModelUse(model_calls=3, input_tokens=1_200, output_tokens=40, cost_microusd=12_500)
    usage = RunModelUsage(
        steps=[StepModelUsage(step="s0", model="small-1", use=use), StepModelUsage(step="s1", model="large-1", use=use)]
    )
    backend = services(
        Run(summary=summary(), usage=RunUsage(model_calls=6)), ListRunSteps=steps_of(STEP_STATUS_COMPLETED, 0)
    )
    backend.answers["ModelUsageService/GetRunModelUsage"] = usage
    page = html(answered(backend, "GET", ONE, HERE, query={"step": "s0"}))
    assert "<b>small-1</b>: 3 calls, 1,200 tokens in, 40 out, 0.012500 USD" in page
    assert "large-1" not in page


def test_the_runs_of_a_step_are_listed_page_by_page_failed_ones_first() -> None:
    step = Step(step="pay", kind=STEP_KIND_WORKFLOW)
    statuses = [RUN_STATUS_COMPLETED] * 49 + [RUN_STATUS_FAILED]
    found = [
        ChildRun(run=summary(run_id=f"run_{n}x", status=status), step="pay", item_index=n)
        for n, status in enumerate(statuses)
    ]
    backend = services(
        ListRunSteps=ListRunStepsResponse(items=[step, Step(step="other")]),
        ListChildRuns=ListChildRunsResponse(items=found, next_page_token="t2"),
    )
    page = html(answered(backend, "GET", ONE, HERE))
    (asked,) = backend.asked("RunListsService/ListChildRuns")
    assert (asked.step, asked.page_size, asked.page_token) == ("pay", 50, "")
    assert re.findall("/runs/(run_[0-9]+)x", page)[:2] == ["run_49", "run_0"]
    assert page.count("Child run_") == 50
    assert '<a href="/runs/run_1?step=pay&amp;children=t2#step" rel="next">Later ones</a>' in page
    backend.answers["RunListsService/ListChildRuns"] = ListChildRunsResponse(items=found[:1])
    last = html(answered(backend, "GET", ONE, HERE, query={"step": "pay", "children": "t2"}))
    assert backend.asked("RunListsService/ListChildRuns")[-1].page_token == "t2"
    assert '<a href="/runs/run_1?step=pay#step">The first ones</a>' in last
    assert "Later ones" not in last
    assert "/runs/run_1?step=other#step" in last


def test_a_page_of_runs_of_another_step_gives_the_first_one() -> None:
    found = ChildRun(run=summary(run_id="run_2"), step="pay")

    def first(request: ListChildRunsRequest) -> ListChildRunsResponse:
        if request.page_token:
            raise Refusal("invalid_request")
        return ListChildRunsResponse(items=[found])

    backend = services(
        ListRunSteps=ListRunStepsResponse(items=[Step(step="pay", kind=STEP_KIND_WORKFLOW)]), ListChildRuns=first
    )
    page = html(answered(backend, "GET", ONE, HERE, query={"step": "pay", "children": "t2"}))
    assert '<a href="/runs/run_2">run_2</a>' in page


def test_waits_are_folded_and_unfolded_by_links() -> None:
    def at(seconds: int) -> Timestamp:
        return Timestamp(seconds=1_790_000_000 + seconds)

    life = events(4)
    for seq, (seconds, kind) in enumerate([(0, "step.started"), (1, "step.completed")], 1):
        life.events.append(Event(seq=seq, type=kind, step="s0", at=at(seconds), data="{}"))
    ended = summary(status=RUN_STATUS_COMPLETED, started_at=at(0), finished_at=at(301))
    backend = services(
        Run(summary=ended),
        ListRunSteps=steps_of(STEP_STATUS_COMPLETED),
        ListRunEvents=life,
        ListOutputs=ListOutputsResponse(),
    )
    page = html(answered(backend, "GET", ONE, HERE, query={"step": "s0"}))
    assert "Folded, as nothing executed: 5 min 0 s after 1 s." in page
    assert 'href="/runs/run_1?step=s0&amp;waits=full#times">Show waits in full</a>' in page
    full = html(answered(backend, "GET", ONE, HERE, query={"step": "s0", "waits": "full"}))
    assert 'href="/runs/run_1?step=s0&amp;waits=folded#times">Fold 1 wait</a>' in full
