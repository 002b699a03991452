"""Live updates of a run's page, and its cancellation."""

import asyncio
from typing import Any

import pytest

from console.run import events as run_events
from console.visit import OPERATORS, PageEvents, Redirect
from contract.refusals import Refusal
from tests.unit.console.run_answers import HERE, ONE, events, services, summary
from tests.unit.console.seen import APPROVER, MemoryServices, answered, html, roles_of
from workflow_api.v1 import runs_pb2
from workflow_api.v1.outputs_pb2 import ListOutputsResponse
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_CANCELLED,
    RUN_STATUS_COMPLETED,
    RUN_STATUS_RUNNING,
    RUN_STATUS_WAITING_FOR_APPROVAL,
    CancelRunResponse,
    Run,
)


@pytest.mark.parametrize(("status", "user_may"), [(RUN_STATUS_RUNNING, True), (RUN_STATUS_COMPLETED, False)])
def test_a_running_run_has_a_cancel_form_and_live_updates(status: Any, user_may: bool) -> None:
    backend = services(Run(summary=summary(status=status)))
    if status == RUN_STATUS_COMPLETED:
        backend.answers["OutputsService/ListOutputs"] = ListOutputsResponse()
    page = html(answered(backend, "GET", ONE, HERE))
    assert ('action="/runs/run_1/cancel"' in page) == user_may
    assert ('data-stream="/runs/run_1/stream?' in page) == user_may


def test_only_operators_cancel() -> None:
    assert roles_of("POST", "/runs/{run_id}/cancel") == OPERATORS
    assert "/cancel" not in html(answered(services(), "GET", ONE, HERE, user=APPROVER), APPROVER)


def test_a_cancellation_is_sent_with_its_reason() -> None:
    backend = services(CancelRun=CancelRunResponse(run_id="run_1", status=RUN_STATUS_CANCELLED))
    answer = answered(backend, "POST", ONE + "/cancel", HERE, form={"reason": " too late "})
    assert answer == Redirect("/runs/run_1", "The run is cancelled.")
    assert backend.asked("RunsService/CancelRun") == [runs_pb2.CancelRunRequest(run_id="run_1", reason="too late")]


def test_a_late_cancellation_is_a_notice_and_no_error() -> None:
    answer = answered(services(CancelRun=Refusal("already_terminal")), "POST", ONE + "/cancel", HERE)
    assert answer == Redirect("/runs/run_1", "Nothing was changed: the run had ended already.")


def test_a_reason_that_is_too_long_changes_nothing() -> None:
    backend = services()
    answer = answered(backend, "POST", ONE + "/cancel", HERE, form={"reason": "x" * 501})
    assert isinstance(answer, Redirect)
    assert "500" in answer.notice
    assert not backend.calls


def followed(backend: MemoryServices, **seen: str) -> list[str]:
    answer = answered(backend, "GET", ONE + "/stream", HERE, query=seen)
    assert isinstance(answer, PageEvents)

    async def read() -> list[str]:
        return [f"{event} {data}" async for event, data in answer.events]

    return asyncio.run(read())


def test_live_updates_report_events_segments_and_statuses_until_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_events, "POLL_SECONDS", 0)
    rounds = iter(
        [
            (RUN_STATUS_RUNNING, events(3)),
            (RUN_STATUS_RUNNING, events(4)),
            (RUN_STATUS_WAITING_FOR_APPROVAL, events(4)),
            (RUN_STATUS_WAITING_FOR_APPROVAL, events(4)),
            (RUN_STATUS_RUNNING, events(1, "seg_1", "seg_2")),
            (RUN_STATUS_COMPLETED, events(2, "seg_1", "seg_2")),
        ]
    )
    now: list[Any] = []

    def run(_: Any) -> Run:
        now[:] = next(rounds)
        return Run(summary=summary(status=now[0]))

    backend = services(GetRun=run, ListRunEvents=lambda _: now[1], ListOutputs=ListOutputsResponse())
    assert followed(backend, status="running", segment="seg_1", seq="3") == [
        "refresh running seg_1 4",
        "refresh waiting_for_approval seg_1 4",
        "refresh running seg_2 1",
        "refresh completed seg_2 2",
    ]


def test_live_updates_wait_for_the_event_after_those_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_events, "POLL_SECONDS", 0)
    rounds = iter([RUN_STATUS_RUNNING, RUN_STATUS_COMPLETED])
    backend = services(
        GetRun=lambda _: Run(summary=summary(status=next(rounds))),
        ListRunEvents=events(3),
        ListOutputs=ListOutputsResponse(),
    )
    backend.streams["RunsService/WatchRunEvents"] = [runs_pb2.WatchRunEventsResponse(segment_id="seg_1")]
    assert followed(backend, status="running", segment="seg_1", seq="3") == ["refresh completed seg_1 3"]
    assert backend.asked("RunsService/WatchRunEvents") == [
        runs_pb2.WatchRunEventsRequest(run_id="run_1", segment="seg_1", after_seq=3)
    ]


def test_live_updates_report_when_outputs_become_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_events, "POLL_SECONDS", 0)
    withheld = iter([True, True, False])

    def outputs(_: Any) -> ListOutputsResponse:
        if next(withheld):
            raise Refusal("redaction_pending")
        return ListOutputsResponse()

    backend = services(Run(summary=summary(status=RUN_STATUS_COMPLETED)), ListRunEvents=events(3), ListOutputs=outputs)
    seen = {"status": "completed", "segment": "seg_1", "seq": "3"}
    assert followed(backend, **seen) == ["refresh completed seg_1 3"]


def test_live_updates_of_an_erased_run_reload_the_page() -> None:
    assert followed(services(ListRunEvents=Refusal("not_found"))) == ["reload not_found"]


def test_live_updates_end_when_services_are_unreachable() -> None:
    with pytest.raises(Refusal, match="runtime_unreachable"):
        followed(services(GetRun=Refusal("runtime_unreachable")))
